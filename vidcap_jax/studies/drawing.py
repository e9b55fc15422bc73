"""Figures by matplotlib, which is imported when needed: it comes with the extra ``report``."""

from typing import Any


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
