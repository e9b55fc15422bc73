"""How a command ends: an error that the user can correct, or a reader that has closed the pipe."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

from vidcap_jax.errors import UserError, error_text

PIPE_CLOSED = 128 + signal.SIGPIPE  # the exit code that a shell reports for such a command


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
