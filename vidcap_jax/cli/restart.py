"""The command that starts a stopped run again, for users to copy."""

import pathlib
import shlex
import sys
from collections.abc import Sequence


def restart_advice(processes: int = 1, arguments: Sequence[str] | None = None) -> str:
  """How to go on with a stopped run; its own command, unless a launcher started several processes.

  Args:
    processes: of the job.
    arguments: of the process, as ``sys.orig_argv``, the default.
  """
  if processes > 1:
    return 'start the same job again to resume'
  program, *rest = sys.orig_argv if arguments is None else arguments
  # An installed command is started as PYTHON …/bin/NAME; its name is what the user typed.
  if rest and pathlib.Path(rest[0]).parent == pathlib.Path(program).parent != pathlib.Path():
    program, rest = pathlib.Path(rest[0]).name, rest[1:]
  return f'to resume:\n  {shlex.join([program, *rest])}'
