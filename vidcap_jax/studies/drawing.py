"""Figures by matplotlib, which is imported when needed: it comes with the extra ``report``."""

import pathlib
import sys
import warnings
from typing import Any

from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output


def figure(**settings: Any) -> Any:
  """An empty matplotlib figure that opens no window.

  Args:
    settings: of ``matplotlib.figure.Figure``.

  Raises:
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  try:
    from matplotlib.figure import Figure
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'matplotlib is needed to draw: install the extra "report", pip install \'vidcap_jax[report]\''
    ) from error
  return Figure(**settings, layout='constrained')


def save(picture: Any, path: pathlib.Path) -> None:
  """Writes a figure; logs one note if the font lacks some of its characters, e.g. Chinese ones."""
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    picture.savefig(path, dpi=100)
  lacking = [w for w in caught if 'missing from' in str(w.message)]
  for other in caught:
    if other not in lacking:
      warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
  if lacking:
    print(
      f'{path}: the font has no glyphs for some characters of the texts, which are drawn as boxes; '
      'index.html shows them',
      file=sys.stderr,
    )


def shown(caption: str | None) -> str:
  """A caption as pictures and pages show it."""
  return caption or '(empty)'


def check_plot(flag: str, file: str) -> None:
  """Checks that a picture can be drawn and written; call it before the work starts.

  Args:
    flag: with the path, for the message.
    file: the picture.

  Raises:
    UserError: an unknown format, with those known; or the path can't be written.
    ModuleNotFoundError: matplotlib is not installed.
  """
  forms = figure().canvas.get_supported_filetypes()
  if (form := pathlib.Path(file).suffix.removeprefix('.').lower()) not in forms:
    raise UserError(f'{flag}={file}: unknown image format {form!r}; known: {", ".join(forms)}')
  check_output(flag, file)


def bars(
  panel: Any,
  groups: list[str],
  heights: dict[str, list[float | None]],
  intervals: dict[str, list[tuple[float, float]]] | None = None,
) -> None:
  """Draws groups of bars with a legend.

  Args:
    panel: matplotlib axes.
    groups: names along the axis.
    heights: label -> a height for each group; None draws no bar.
    intervals: label -> the ends of an error bar for each group.
  """
  width = 0.8 / len(heights)
  for i, (label, values) in enumerate(heights.items()):
    places = [group - 0.4 + width * (i + 0.5) for group in range(len(groups))]
    tops = [0.0 if value is None else value for value in values]
    errors = None
    if intervals:
      ends = intervals[label]
      errors = [
        [max(0.0, top - low) for top, (low, _) in zip(tops, ends)],
        [max(0.0, high - top) for top, (_, high) in zip(tops, ends)],
      ]
    panel.bar(places, tops, width * 0.95, yerr=errors, capsize=2, label=label)
  panel.set_xticks(range(len(groups)), groups)
  panel.grid(axis='y', alpha=0.3)
  panel.set_axisbelow(True)
  panel.legend(loc='upper left', bbox_to_anchor=(1.0, 1.0))
