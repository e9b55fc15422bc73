"""Times a captioner in PyTorch, as a separate program, to compare speeds.

The program is called as ``PYTHON FILE --ops xe,beam --impl cell,split,late --steps N …`` and prints
one JSON object per line: ``op``, ``impl``, ``median_s`` of a call and ``captions_per_s``. Any
program with these flags can be compared.
"""

import dataclasses
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence

from benchmarks.programs import Sizes
from vidcap_jax.errors import UserError

PEER_NAMES = {'self_critical': 'scst'}  # operations with another name in the peer


def flags_of(sizes: Sizes, device: str) -> dict[str, object]:
  """The program's flags for our sizes, threads and precision, on 'cpu' or 'cuda'."""
  H = sizes.hidden
  return {
    'batch': sizes.batch, 'frames': sizes.frames, 'feat-dim': sizes.channels, 'hidden': H,
    'embed': H, 'att': H, 'vocab': sizes.words, 'length': sizes.length, 'refs': sizes.references,
    'beam': sizes.beam, 'dtype': sizes.dtype, 'threads': len(os.sched_getaffinity(0)),
    'device': device,
  }  # fmt: skip


@dataclasses.dataclass
class Peer:
  """A program, and the times of its operations so far.

  Attributes:
    command: that runs it, e.g. (python, updown_torch.py).
    flags: sizes, threads and precision, the same in all rounds.
    seconds: (operation, variant) -> the median of each round, in seconds.
  """

  command: Sequence[str]
  flags: Mapping[str, object]
  seconds: dict[tuple[str, str], list[float]] = dataclasses.field(
    default_factory=lambda: defaultdict(list)
  )

  def run(
    self,
    ops: Sequence[str],
    variants: Sequence[str],
    steps: int,
    timeout: float | None = None,
  ) -> None:
    """Runs one round: ``steps`` calls of each operation in each variant.

    Raises:
      UserError: the program failed, or was ended after ``timeout`` seconds.
    """
    flags = {'ops': ','.join(ops), 'impl': ','.join(variants), 'steps': steps} | dict(self.flags)
    words = [word for name, value in flags.items() for word in (f'--{name}', str(value))]
    command = [*self.command, *words]
    try:
      done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
      raise UserError(f'{" ".join(self.command)} was not finished after {timeout:.0f} s') from None
    if done.returncode:
      last = done.stderr.strip().splitlines()[-1:] or ['no message']
      raise UserError(
        f'{" ".join(self.command)} failed with exit code {done.returncode}: {last[0]}'
      )
    for line in done.stdout.splitlines():
      result = json.loads(line)
      self.seconds[result['op'], result.get('impl', '')].append(result['median_s'])

  def best(self, op: str) -> tuple[str, list[float]]:
    """The fastest variant of an operation by median time, and its times."""
    median = lambda times: sorted(times)[len(times) // 2]  # noqa: E731
    times_of = {variant: times for (name, variant), times in self.seconds.items() if name == op}
    variant = min(times_of, key=lambda v: median(times_of[v]))
    return variant, times_of[variant]
