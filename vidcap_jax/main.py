"""Trains, evaluates and captions.

  python -m vidcap_jax.main --config=configs/msrvtt1000.py --config.data.dir=DIR --workdir=DIR
  python -m vidcap_jax.main --mode=evaluate --checkpoint=WORKDIR --data=DIR --split=test
  python -m vidcap_jax.main --mode=predict --checkpoint=WORKDIR --inputs=clip.mp4,more/
  python -m vidcap_jax.main --mode=export --checkpoint=WORKDIR --output=DIR
  python -m vidcap_jax.main --mode=compile --config=configs/msrvtt1000.py --topology=v5e:2x4

Started again with the same flags, training resumes where it was stopped. Any config key can be
changed by a flag, e.g. --config.train.epochs=3; --print_config lists all with their meanings.

On several machines the same command is started on each; see docs/distributed.md.
"""

import os
import sys
from typing import NoReturn

from absl import app, flags, logging

from vidcap_jax import command_errors
from vidcap_jax.cli import flags as command_line
from vidcap_jax.cli import parsing
from vidcap_jax.cli.flags import MODE
from vidcap_jax.cli.restart import restart_advice
from vidcap_jax.distributed import allocator, cluster
from vidcap_jax.errors import UserError, error_text

flags.adopt_module_key_flags(command_line)  # --help shows them


def _run_mode() -> int:
  """Runs the mode, together with any other processes; returns the exit code."""
  command_line.check()
  if command_line.prints_config():
    from vidcap_jax.cli import modes

    return modes.print_config_mode()
  if MODE.value == 'compile':  # joins no job and uses no device
    from vidcap_jax import files
    from vidcap_jax.cli import modes

    with files.disk_errors(modes.RESULTS[MODE.value]):
      return modes.compile_mode()
  environment = {**cluster.tpu_metadata(os.environ), **os.environ}
  process = cluster.find_process(environment, *command_line.process_flags())
  from vidcap_jax import files
  from vidcap_jax.cli import modes
  from vidcap_jax.distributed import jobs  # slow to import, so after --help and the checks above

  bounds = (
    command_line.PEER_TIMEOUT.value,
    command_line.START_TIMEOUT.value,
    command_line.STALL_TIMEOUT.value,
  )
  code = 1
  with jobs.joined(process, *bounds), files.disk_errors(modes.RESULTS[MODE.value]):
    code = modes.RUN[MODE.value]()
  return code


def main(argv: list[str]) -> int:
  """The entry point; errors that the user can correct are printed without a traceback."""
  try:
    logging.set_verbosity(logging.WARNING)  # Orbax logs each file that it touches
    if argv[1:]:
      raise UserError(command_line.unknown_argument(argv[1]))
    return _run_mode()
  except UserError as error:
    print(f'error: {error_text(error)}', file=sys.stderr)
    return 1
  except BrokenPipeError:  # the reader of the captions has closed the pipe, e.g. head
    command_errors.discard_output()
    return 0 if MODE.value == 'predict' else command_errors.PIPE_CLOSED
  except KeyboardInterrupt:
    again = f'; {restart_advice()}' if MODE.value == 'train' else ''
    print(f'Ctrl-C: ended{again}', file=sys.stderr)
    return command_errors.INTERRUPTED


def _run_command() -> None:
  """Runs what ``vidcap`` would, and exits, if the first argument is one of its commands."""
  from vidcap_jax.cli import commands

  if sys.argv[1] in {command.name for command in commands.COMMANDS}:
    commands.run()


def run() -> NoReturn:
  """Runs ``main`` with the flags of the command line, and ends the process with its exit code."""
  if len(sys.argv) > 1 and not sys.argv[1].startswith('-'):
    _run_command()
  allocator.keep_freed_memory()
  app.run(main, flags_parser=parsing.parse)
  raise AssertionError('app.run has not ended the process')


if __name__ == '__main__':
  run()
