"""How fast training and decoding are, by themselves and against a captioner in PyTorch.

  python -m benchmarks.speed
  python -m benchmarks.speed --peer=updown_torch.py --annotations=train_val_videodatainfo.json \
      --json=FILE

Everything is timed in turns, a few calls of ours and a few of the peer's (see benchmarks/peer.py),
on as many threads and in the same precision; a line shows the median and the quartiles over rounds.
Ratios are of medians of one run: how fast a machine is changes from minute to minute.
"""

import argparse
import dataclasses
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import jax
import numpy as np

from benchmarks import Row, add_json, report
from benchmarks.peer import Peer
from benchmarks.programs import Sizes, decoding, reward_on_device, reward_on_host, training_step
from configs import common
from vidcap_jax.annotations import caption_files
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.vocabulary import tokenize
from vidcap_jax.errors import UserError

SAMPLES = 5  # of each video, whose reward is timed
SELF_CRITICAL = {'rewards': {'cider': 1.0, 'bleu4': 0.0}, 'baseline': 'greedy', 'samples': 1}
PEER_NAMES = {'self_critical': 'scst'}  # what the peer calls an operation


def quartiles(times: Sequence[float]) -> tuple[float, float]:
  """Of at least one time."""
  if len(times) == 1:
    return times[0], times[0]
  low, _, high = statistics.quantiles(times, n=4, method='inclusive')
  return low, high


def real_lengths(annotations: str, longest: int) -> list[np.ndarray]:
  """Tokens of the captions of each training video of an MSR-VTT file, EOS counted."""
  videos = caption_files.read_references(annotations, 'train')
  count = lambda text: min(len(tokenize(text, 'ptb_like')) + 1, longest)  # noqa: E731
  return [np.array([count(text) for text in captions]) for captions in videos.values()]


def bucket_shares(lengths: Sequence[np.ndarray], batch: int, longest: int) -> dict[int, float]:
  """How many of an epoch's batches are as long as each bucket, as shares."""
  counts = np.array([len(video) for video in lengths])
  order = TrainOrder(counts, batch, 1, 0, np.concatenate(lengths))
  buckets = [b for b in common.base().data.length_buckets if b < longest] + [longest]
  fitting = (min(b for b in buckets if b >= order.longest(s)) for s in range(order.steps_per_epoch))
  return {b: n / order.steps_per_epoch for b, n in sorted(Counter(fitting).items())}


def longest_of_random(lengths: Sequence[np.ndarray], batch: int) -> int:
  """Tokens of the longest of so many captions drawn at random, on average: what is padded to."""
  drawn = np.random.default_rng(0).choice(np.concatenate(lengths), (1000, batch))
  return round(drawn.max(axis=1).mean())


def timed(run: Callable[[], None]) -> float:
  """Seconds of one call."""
  start = time.perf_counter()
  run()
  return time.perf_counter() - start


def measure(options: argparse.Namespace) -> list[Row]:
  """All rows; see the module's docstring."""
  sizes = dataclasses.replace(Sizes(), **{f.name: getattr(options, f.name) for f in SIZES})
  lengths = real_lengths(options.annotations, sizes.length) if options.annotations else None
  shares = bucket_shares(lengths, sizes.batch, sizes.length) if lengths else {}
  say(f'compiling; {len(jax.devices())} x {jax.devices()[0].device_kind}')
  steps = {
    'xe': training_step(sizes),
    'self_critical': training_step(sizes, **SELF_CRITICAL),
    'self_critical replay': training_step(sizes, **SELF_CRITICAL, gradient='replay'),
  }
  programs = {name: step.run for name, step in steps.items()}
  programs |= {f'xe, {b} tokens': training_step(sizes, length=b).run for b in shares}
  programs |= {name: decoding(sizes, name) for name in ('greedy', 'beam')}
  programs |= {
    'reward': reward_on_device(sizes, SAMPLES),
    'reward of a step': reward_on_device(sizes, 2),  # of the sample and of the greedy caption
    'reward on the host': reward_on_host(sizes, SAMPLES),
  }
  peer, padded = make_peer(options, sizes), None
  if peer and lengths:
    padded = make_peer(
      options, dataclasses.replace(sizes, length=longest_of_random(lengths, sizes.batch))
    )
  for name, run in programs.items():
    say(f'  {name}: first call {timed(run):.2f} s')
  seconds: dict[str, list[float]] = defaultdict(list)
  for number in range(options.rounds):
    say(f'round {number + 1} of {options.rounds}')
    for name, run in programs.items():
      seconds[name].append(statistics.median(timed(run) for _ in range(options.calls)))
    if peer:
      peer.run(('xe', 'scst', 'greedy', 'beam'), options.variants, options.calls)
    if padded:
      padded.run(('xe',), options.variants, options.calls)
  return rows_of(sizes, seconds, steps, shares, peer, padded)


def rows_of(sizes, seconds, steps, shares, peer: Peer | None, padded: Peer | None) -> list[Row]:
  """The table: rates in captions a second, ratios in which above 1 is faster."""
  middle = {name: statistics.median(times) for name, times in seconds.items()}
  share_goal = 0.02 if jax.default_backend() == 'gpu' else 0.1

  def rate(name: str, times: Sequence[float]) -> Row:
    low, high = (sizes.batch / t for t in quartiles(times))
    return Row(name, sizes.batch / statistics.median(times), 'captions/s', quartiles=(high, low))

  def against(row: Row, theirs: Peer | None, op: str, goal: float | None) -> list[Row]:
    if theirs is None:
      return [row]
    variant, times = theirs.best(PEER_NAMES.get(op, op))
    other = rate(f"{row.name}, the peer's {variant}", times)
    ratio = row.value / other.value
    met = None if goal is None else ratio >= goal
    return [dataclasses.replace(row, ratio=ratio, goal=goal, met=met), other]

  rows = against(rate('xe', seconds['xe']), peer, 'xe', 1.0)
  if shares:
    each = [seconds[f'xe, {b} tokens'] for b in shares]
    mixed = [sum(share * t for share, t in zip(shares.values(), times)) for times in zip(*each)]
    rows += against(rate('xe, real lengths', mixed), padded, 'xe', 1.2)
  rows += against(rate('self_critical', seconds['self_critical']), peer, 'self_critical', 1.0)
  rows.append(rate('self_critical replay', seconds['self_critical replay']))
  cost = middle['self_critical'] / middle['xe']
  rows.append(Row('self_critical / xe', cost, 'times the time', goal=1.6, met=cost <= 1.6))
  share = middle['reward of a step'] / middle['self_critical']
  rows.append(Row('reward in a step', share, 'of it', goal=share_goal, met=share < share_goal))
  rows += against(rate('greedy', seconds['greedy']), peer, 'greedy', None)
  rows += against(rate(f'beam {sizes.beam}', seconds['beam']), peer, 'beam', 1.5)
  for name in ('reward', 'reward on the host'):
    low, high = quartiles(seconds[name])
    ratio = middle['reward on the host'] / middle['reward'] if name == 'reward' else None
    label = f'{name}, {sizes.batch} x {SAMPLES} samples'
    rows.append(
      Row(label, 1e3 * middle[name], 'ms', ratio=ratio, quartiles=(1e3 * low, 1e3 * high))
    )
  for name, step in steps.items():
    if step.memory is not None:
      rows.append(Row(f'{name} memory', step.memory / 2**20, 'MiB'))
  return rows


def make_peer(options: argparse.Namespace, sizes: Sizes) -> Peer | None:
  """The peer of a run, with our sizes, threads and precision."""
  if not options.peer:
    return None
  H = sizes.hidden
  flags = {
    'batch': sizes.batch, 'frames': sizes.frames, 'feat-dim': sizes.channels, 'hidden': H,
    'embed': H, 'att': H, 'vocab': sizes.words, 'length': sizes.length, 'refs': sizes.references,
    'beam': sizes.beam, 'dtype': sizes.dtype, 'threads': len(os.sched_getaffinity(0)),
    'device': 'cuda' if jax.default_backend() == 'gpu' else 'cpu',
  }  # fmt: skip
  return Peer((options.peer_python, options.peer), flags)


def say(text: str) -> None:
  """To stderr: the table goes to stdout."""
  print(text, file=sys.stderr, flush=True)


SIZES = dataclasses.fields(Sizes)


def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.speed',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--peer', metavar='FILE', help='a PyTorch program, see benchmarks/peer.py')
  parser.add_argument(
    '--peer_python', default=sys.executable, metavar='PYTHON', help='one that has torch'
  )
  parser.add_argument(
    '--variants', default='cell,split,late', type=lambda text: text.split(','),
    help="the peer's; the best of them counts (%(default)s)",
  )  # fmt: skip
  parser.add_argument(
    '--annotations', metavar='FILE', help='MSR-VTT json: also with captions as long as these'
  )
  parser.add_argument('--rounds', type=int, default=5, help='turns (%(default)s)')
  parser.add_argument('--calls', type=int, default=3, help='calls a turn (%(default)s)')
  for field in SIZES:
    kind = type(field.default)
    parser.add_argument(f'--{field.name}', type=kind, default=field.default, help='%(default)s')
  add_json(parser)
  options = parser.parse_args(arguments)
  try:
    rows = measure(options)
  except (UserError, OSError) as error:
    sys.exit(f'error: {error}')
  device = jax.devices()[0].device_kind
  say(f'{device}, {len(os.sched_getaffinity(0))} threads, {options.dtype}')
  report(rows, options.json)


if __name__ == '__main__':
  main()
