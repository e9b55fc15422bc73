"""When a training loop gives up: losses and gradients that are not finite."""

import contextlib
import pathlib
import traceback
from collections.abc import Iterator, Mapping

from vidcap_jax.errors import UserError


class Diverged(UserError):
  """Too many steps had a loss or gradient that was not finite, or the first one is not let pass."""


def check_finite(step: int, report: Mapping, rows, ids: list[str], most: int, say) -> None:
  """Reports a skipped update with its step and videos; ends the run when there are too many."""
  if report['finite']:
    return
  videos = _videos(rows, ids)
  say(
    f'step {step + 1}: loss {float(report["loss"])}, gradient norm {float(report["grad_norm"])}: '
    f'update skipped; videos: {videos}'
  )
  if (skipped := int(report['skipped'])) > most:
    raise Diverged(
      f'{skipped} updates were not finite, more than train.max_skipped={most}; last at step '
      f'{step + 1} on videos {videos}. Lower optimizer.learning_rate, or look at these features '
      'with python -m data_prep.inspect'
    )


@contextlib.contextmanager
def first_nan(step: int, rows, ids: list[str]) -> Iterator[None]:
  """Within it, a step that ``jax_debug_nans`` ends is told in a line, with the operation.

  Raises:
    Diverged: it was ended.
  """
  try:
    yield
  except FloatingPointError as error:
    here = str(pathlib.Path(__file__).parents[1])  # the package
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(here)]
    raise Diverged(
      f'step {step + 1}: {error} at {frames[-1].filename}:{frames[-1].lineno} '
      f'(runtime.check_nans); videos: {_videos(rows, ids)}'
    ) from error


def _videos(rows, ids: list[str]) -> str:
  return ', '.join(ids[i] for i in rows if i >= 0)
