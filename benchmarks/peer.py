"""Runs a captioner written in PyTorch as a program of its own, to measure speed against.

The program is called as ``PYTHON FILE --ops xe,beam --impl cell,split,late --steps N …`` and prints
a JSON object a line: ``op``, ``impl``, ``median_s`` of a call and ``captions_per_s``. Another
captioner can be measured by a program that takes the same flags.
"""

import dataclasses
import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence

from vidcap_jax.errors import UserError


@dataclasses.dataclass
class Peer:
  """A program, and the seconds of every operation and variant so far.

  Attributes:
    command: what runs it, e.g. (python, updown_torch.py).
    flags: sizes, threads and precision, the same in all rounds.
    seconds: (operation, variant) -> the median of each round.
  """

  command: Sequence[str]
  flags: Mapping[str, object]
  seconds: dict[tuple[str, str], list[float]] = dataclasses.field(
    default_factory=lambda: defaultdict(list)
  )

  def run(self, ops: Sequence[str], variants: Sequence[str], steps: int) -> None:
    """One round: each operation so many times in each variant.

    Raises:
      UserError: the program failed.
    """
    flags = {'ops': ','.join(ops), 'impl': ','.join(variants), 'steps': steps} | dict(self.flags)
    words = [word for name, value in flags.items() for word in (f'--{name}', str(value))]
    done = subprocess.run([*self.command, *words], capture_output=True, text=True, check=False)
    if done.returncode:
      last = done.stderr.strip().splitlines()[-1:] or ['no message']
      raise UserError(
        f'{" ".join(self.command)} failed with exit code {done.returncode}: {last[0]}'
      )
    for line in done.stdout.splitlines():
      found = json.loads(line)
      self.seconds[found['op'], found.get('impl', '')].append(found['median_s'])

  def best(self, op: str) -> tuple[str, list[float]]:
    """The variant with the least median time of an operation, and its times."""
    median = lambda times: sorted(times)[len(times) // 2]  # noqa: E731
    each = {variant: times for (name, variant), times in self.seconds.items() if name == op}
    variant = min(each, key=lambda v: median(each[v]))
    return variant, each[variant]
