"""How a command ends: an error that the user can correct, or a reader that has closed the pipe."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

from vidcap_jax.errors import UserError, error_text

# The exit codes that a shell reports for commands which signals have ended.
PIPE_CLOSED = 128 + signal.SIGPIPE
INTERRUPTED = 128 + signal.SIGINT


@contextlib.contextmanager
def exit_on_error() -> Iterator[None]:
  """Ends the process with a line on stderr for a user's error; for ``main`` of a command."""
  with exit_on_closed_pipe():
    try:
      yield
    except BrokenPipeError:  # an OSError too
      raise
    except (UserError, ModuleNotFoundError, OSError) as error:
      sys.exit(f'error: {error_text(error)}')


@contextlib.contextmanager
def exit_on_closed_pipe() -> Iterator[None]:
  """Ends the process without a traceback if the reader of stdout has gone, as ``head`` does."""
  try:
    try:
      yield
    except SystemExit:  # after --help, or of a command that ends with a code
      sys.stdout.flush()
      raise
    sys.stdout.flush()
  except BrokenPipeError:
    discard_output()
    sys.exit(PIPE_CLOSED)


def discard_output() -> None:
  """Sends the rest of stdout nowhere: writing it at the exit would be another error."""
  os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def end_at_once(code: int) -> NoReturn:
  """Ends the process without the interpreter's own end.

  That frees JAX's client, and crashes if one of its threads is compiling, as it is after Ctrl-C
  while a program is compiled.
  """
  import multiprocessing  # what imports this module should start quickly

  for process in multiprocessing.active_children():
    process.terminate()
  with contextlib.suppress(OSError):
    sys.stdout.flush()
    sys.stderr.flush()
  os._exit(code)
