"""Ends a run whose losses or gradients are not finite."""

import contextlib
import pathlib
import traceback
from collections.abc import Callable, Iterator, Mapping

from vidcap_jax.errors import UserError
from vidcap_jax.program_name import as_typed


class Diverged(UserError):
  """Too many losses or gradients were not finite, or check_nans stopped at the first one."""


def check_finite(
  step: int, report: Mapping, rows, ids: list[str], most: int, log: Callable[[str], None]
) -> None:
  """Logs a skipped update with its step and videos; ends the run when there are too many.

  Args:
    step: from 0.
    report: of the step.
    rows: indices into ``ids`` of the step's videos, -1 for padding.
    ids: video ids.
    most: skipped updates that are allowed.
    log: gets a line.

  Raises:
    Diverged: more updates were skipped.
  """
  if report['finite']:
    return
  videos = _videos(rows, ids)
  log(
    f'step {step + 1}: loss {float(report["loss"])}, gradient norm {float(report["grad_norm"])}: '
    f'update skipped; videos: {videos}'
  )
  if (skipped := int(report['skipped'])) > most:
    raise Diverged(
      f'{skipped} updates were not finite, more than train.max_skipped={most}; last at step '
      f'{step + 1} on videos {videos}. Lower optimizer.learning_rate, or inspect these features '
      f'with {as_typed("python -m data_prep.inspect")}'
    )


@contextlib.contextmanager
def report_nan(step: int, rows, ids: list[str]) -> Iterator[None]:
  """A context in which an error of ``jax_debug_nans`` becomes a line with the step and operation.

  Raises:
    Diverged: the step made a NaN.
  """
  try:
    yield
  except FloatingPointError as error:
    package = str(pathlib.Path(__file__).parents[1])
    frames = [
      f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(package)
    ]
    raise Diverged(
      f'step {step + 1}: {error} at {frames[-1].filename}:{frames[-1].lineno} '
      f'(runtime.check_nans); videos: {_videos(rows, ids)}'
    ) from error


def _videos(rows, ids: list[str]) -> str:
  return ', '.join(ids[i] for i in rows if i >= 0)
