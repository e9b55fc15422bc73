"""Times a captioner in PyTorch, as a separate program, to compare speeds.

The program is called as ``PYTHON FILE --ops xe,beam --impl cell,split,late --steps N …`` and prints
one JSON object per line: ``op``, ``impl``, ``median_s`` of a call and ``captions_per_s``. Any
program with these flags can be compared.
"""

import dataclasses
import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence

from vidcap_jax.errors import UserError


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

  def run(self, ops: Sequence[str], variants: Sequence[str], steps: int) -> None:
    """Runs one round: ``steps`` calls of each operation in each variant.

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
      result = json.loads(line)
      self.seconds[result['op'], result.get('impl', '')].append(result['median_s'])

  def best(self, op: str) -> tuple[str, list[float]]:
    """The fastest variant of an operation by median time, and its times."""
    median = lambda times: sorted(times)[len(times) // 2]  # noqa: E731
    times_of = {variant: times for (name, variant), times in self.seconds.items() if name == op}
    variant = min(times_of, key=lambda v: median(times_of[v]))
    return variant, times_of[variant]
