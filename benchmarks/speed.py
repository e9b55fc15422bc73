"""The speed of training and decoding, alone and compared with a captioner in PyTorch.

  python -m benchmarks.speed
  python -m benchmarks.speed --model=transformer --layers=6
  python -m benchmarks.speed --peer=updown_torch.py --annotations=train_val_videodatainfo.json \
      --json=FILE

Each round times a few calls of every program, here and in PyTorch (see benchmarks/peer.py), with
the same threads and precision; a line shows the median and the quartiles over all rounds. Ratios
compare medians of the same run, since the speed of a machine changes from minute to minute. Matrix
products are timed too: the share of their rate that an operation reaches depends less on the
machine than a ratio.

With --annotations, "real lengths" are those of the captions in the file: batches of training are
grouped by length, and in decoding captions of a batch end after so many words. The PyTorch program
then works on captions as long as the longest of a batch, at which it stops.
"""

import argparse
import dataclasses
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from benchmarks import Row, add_json, report
from benchmarks.peer import PEER_NAMES, Peer, flags_of
from benchmarks.programs import (
  SELF_CRITICAL,
  Program,
  Sizes,
  decoding,
  gradient,
  products,
  reward_on_device,
  reward_on_host,
  training_step,
)
from configs import common
from vidcap_jax import command_errors
from vidcap_jax.annotations import caption_files
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.tokenizers import tokenize
from vidcap_jax.distributed import allocator

ONE_PASS, BY_STEPS = 'gradient in one pass', 'gradient by steps'
SAMPLES = 5  # captions of each video in the timed reward
STEPS = ('xe', 'self_critical', 'self_critical replay')
# Of the operations counted for full length, by the rate of the machine's matrix products.
SHARE_GOALS = {'xe': 0.85, 'self_critical': 0.8, 'greedy': 0.85, 'beam': 0.85}


def quartiles(times: Sequence[float]) -> tuple[float, float]:
  """The lower and the upper quartile of one or more times."""
  if len(times) == 1:
    return times[0], times[0]
  low, _, high = statistics.quantiles(times, n=4, method='inclusive')
  return low, high


def real_lengths(annotations: str, longest: int) -> list[np.ndarray]:
  """The numbers of tokens, EOS included, of the captions of each training video of MSR-VTT."""
  videos = caption_files.read_references(annotations, 'train')
  count = lambda text: min(len(tokenize(text, 'ptb_like')) + 1, longest)  # noqa: E731
  return [np.array([count(text) for text in captions]) for captions in videos.values()]


def bucket_shares(lengths: Sequence[np.ndarray], batch: int, longest: int) -> dict[int, float]:
  """The share of an epoch's batches that falls into each length bucket."""
  counts = np.array([len(video) for video in lengths])
  order = TrainOrder(counts, batch, 1, 0, np.concatenate(lengths))
  buckets = [b for b in common.base().data.length_buckets if b < longest] + [longest]
  batch_buckets = (
    min(b for b in buckets if b >= order.longest(s)) for s in range(order.steps_per_epoch)
  )
  return {b: n / order.steps_per_epoch for b, n in sorted(Counter(batch_buckets).items())}


def longest_of_random(lengths: Sequence[np.ndarray], batch: int) -> int:
  """The mean length to which a batch of randomly drawn captions is padded, in tokens."""
  drawn = np.random.default_rng(0).choice(np.concatenate(lengths), (1000, batch))
  return round(drawn.max(axis=1).mean())


def typical_lengths(lengths: Sequence[np.ndarray], batch: int) -> np.ndarray:
  """Lengths (batch,) that are spread as those of all captions, in an order without meaning."""
  places = (np.arange(batch) + 0.5) / batch
  spread = np.quantile(np.concatenate(lengths), places, method='nearest')
  return np.random.default_rng(0).permutation(spread)


def time_call(run: Callable[[], None]) -> float:
  """The seconds that one call takes."""
  start = time.perf_counter()
  run()
  return time.perf_counter() - start


def measure(options: argparse.Namespace) -> list[Row]:
  """All rows; see the module's docstring."""
  sizes = dataclasses.replace(Sizes(), **{f.name: getattr(options, f.name) for f in SIZES})
  lengths = real_lengths(options.annotations, sizes.length) if options.annotations else None
  shares = bucket_shares(lengths, sizes.batch, sizes.length) if lengths else {}
  log(f'compiling; {len(jax.devices())} x {jax.devices()[0].device_kind}')
  counted = {
    'xe': training_step(sizes),
    'self_critical': training_step(sizes, **SELF_CRITICAL),
    'self_critical replay': training_step(sizes, **SELF_CRITICAL, gradient='replay'),
    **{f'xe, {b} tokens': training_step(sizes, length=b) for b in shares},
    **{method: decoding(sizes, method) for method in ('greedy', 'beam')},
    **products(sizes),
  }
  if lengths:
    ends = typical_lengths(lengths, sizes.batch)
    counted |= {f'{m}, real lengths': decoding(sizes, m, ends) for m in ('greedy', 'beam')}
  programs = {name: program.run for name, program in counted.items()}
  if sizes.model == 'transformer':
    programs |= {name: gradient(sizes, one_pass=name == ONE_PASS) for name in (ONE_PASS, BY_STEPS)}
  programs |= {
    'reward': reward_on_device(sizes, SAMPLES),
    'reward of a step': reward_on_device(sizes, 2),  # the sample and the greedy caption
    'reward on the host': reward_on_host(sizes, SAMPLES),
  }
  peer, padded = make_peer(options, sizes), None
  if peer and lengths:
    padded = make_peer(
      options, dataclasses.replace(sizes, length=longest_of_random(lengths, sizes.batch))
    )
  for name, run in programs.items():
    log(f'  {name}: first call {time_call(run):.2f} s')
  seconds: dict[str, list[float]] = defaultdict(list)
  for number in range(options.rounds):
    log(f'round {number + 1} of {options.rounds}')
    for name, run in programs.items():
      seconds[name].append(statistics.median(time_call(run) for _ in range(options.calls)))
    if peer:
      peer.run(('xe', 'scst', 'greedy', 'beam'), options.variants, options.calls)
    if padded:
      padded.run(('xe', 'greedy', 'beam'), options.variants, options.calls)
  return rows_of(sizes, seconds, counted, shares, peer, padded)


def rows_of(sizes, seconds, counted, shares, peer: Peer | None, padded: Peer | None) -> list[Row]:
  """The table: rates in captions per second, and ratios above 1 where we are faster.

  Args:
    sizes: of all programs.
    seconds: name -> the time of each round.
    counted: name -> ``Program``, of those whose operations are counted.
    shares: of an epoch's batches, by length bucket; empty without real captions.
    peer: its times; None without one.
    padded: of captions as long as the longest of a batch of real captions.
  """
  medians = {name: statistics.median(times) for name, times in seconds.items()}
  share_goal = 0.02 if jax.default_backend() == 'gpu' else 0.1

  def rate(name: str, times: Sequence[float]) -> Row:
    low, high = (sizes.batch / t for t in quartiles(times))
    return Row(name, sizes.batch / statistics.median(times), 'captions/s', quartiles=(high, low))

  def compare(row: Row, program: Peer | None, op: str, goal: float | None) -> list[Row]:
    if program is None:
      return [row]
    variant, times = program.best(PEER_NAMES.get(op, op))
    peer_row = rate(f"{row.name}, the peer's {variant}", times)
    ratio = row.value / peer_row.value
    met = None if goal is None else ratio >= goal
    return [dataclasses.replace(row, ratio=ratio, goal=goal, met=met), peer_row]

  rows = compare(rate('xe', seconds['xe']), peer, 'xe', 1.0)
  if shares:
    by_bucket = [seconds[f'xe, {b} tokens'] for b in shares]
    mean = [sum(share * t for share, t in zip(shares.values(), ts)) for ts in zip(*by_bucket)]
    rows += compare(rate('xe, real lengths', mean), padded, 'xe', 1.8)
  if ONE_PASS in seconds:
    by_steps, one_pass = (rate(name, seconds[name]) for name in (BY_STEPS, ONE_PASS))
    rows += [dataclasses.replace(one_pass, ratio=one_pass.value / by_steps.value), by_steps]
  rows += compare(rate('self_critical', seconds['self_critical']), peer, 'self_critical', 1.0)
  rows.append(rate('self_critical replay', seconds['self_critical replay']))
  cost = medians['self_critical'] / medians['xe']
  rows.append(Row('self_critical / xe', cost, 'times the time', goal=1.6, met=cost <= 1.6))
  share = medians['reward of a step'] / medians['self_critical']
  rows.append(Row('reward in a step', share, 'of it', goal=share_goal, met=share < share_goal))
  decoders = (('greedy', 'greedy', None, None), ('beam', f'beam {sizes.beam}', 1.5, 1.6))
  for name, label, goal, real_goal in decoders:
    rows += compare(rate(label, seconds[name]), peer, name, goal)
    if real := seconds.get(f'{name}, real lengths'):
      rows += compare(rate(f'{label}, real lengths', real), padded, name, real_goal)
  rows += shares_of_products(seconds, counted)
  for name in ('reward', 'reward on the host'):
    low, high = quartiles(seconds[name])
    ratio = medians['reward on the host'] / medians['reward'] if name == 'reward' else None
    label = f'{name}, {sizes.batch} x {SAMPLES} samples'
    rows.append(
      Row(label, 1e3 * medians[name], 'ms', ratio=ratio, quartiles=(1e3 * low, 1e3 * high))
    )
  for name in STEPS:
    if counted and counted[name].memory is not None:
      rows.append(Row(f'{name} memory', counted[name].memory / 2**20, 'MiB'))
  return rows


def shares_of_products(
  seconds: Mapping[str, Sequence[float]], counted: Mapping[str, Program]
) -> list[Row]:
  """The machine's rate of matrix products, and the share of it that each operation reaches.

  Each is the best of all rounds. Operations are counted for rows of full length.
  """
  rates = {name: program.flops / min(seconds[name]) for name, program in counted.items()}
  measured = {name: rate for name, rate in rates.items() if name.startswith('product')}
  if not measured:
    return []
  name = max(measured, key=lambda name: measured[name])
  rows = [Row(f'highest rate: {name}', measured[name] / 1e9, 'GFLOP/s')]
  for operation, goal in SHARE_GOALS.items():
    share = rates[operation] / measured[name]
    rows.append(Row(f'{operation}, share of it', share, goal=goal, met=share >= goal))
  return rows


def make_peer(options: argparse.Namespace, sizes: Sizes) -> Peer | None:
  """The PyTorch program with our sizes, threads and precision; None without --peer."""
  if not options.peer:
    return None
  device = 'cuda' if jax.default_backend() == 'gpu' else 'cpu'
  return Peer((options.peer_python, options.peer), flags_of(sizes, device))


def log(text: str) -> None:
  """Prints to stderr, since the table goes to stdout."""
  print(text, file=sys.stderr, flush=True)


SIZES = dataclasses.fields(Sizes)


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.speed',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--peer', metavar='FILE', help='PyTorch program, see benchmarks/peer.py')
  parser.add_argument(
    '--peer_python', default=sys.executable, metavar='PYTHON', help='interpreter with torch'
  )
  parser.add_argument(
    '--variants', default='cell,split,late', type=lambda text: text.split(','),
    help='of the peer; the fastest is compared (%(default)s)',
  )  # fmt: skip
  parser.add_argument(
    '--annotations', metavar='FILE', help='MSR-VTT json: also time captions of these lengths'
  )
  parser.add_argument('--rounds', type=int, default=5, help='number of rounds (%(default)s)')
  parser.add_argument('--calls', type=int, default=3, help='calls per round (%(default)s)')
  for field in SIZES:
    kind = type(field.default)
    parser.add_argument(f'--{field.name}', type=kind, default=field.default, help='%(default)s')
  add_json(parser)
  options = parser.parse_args(arguments)
  rows = measure(options)
  device = jax.devices()[0].device_kind
  log(f'{device}, {len(os.sched_getaffinity(0))} threads, {options.dtype}')
  report(rows, options.json)


if __name__ == '__main__':
  allocator.keep_freed_memory()  # as vidcap_jax.main does
  main()
