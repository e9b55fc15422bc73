"""Learning curves of runs as points, which the page draws."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

from vidcap_jax.reporting.scores import NAMES
from vidcap_jax.studies.curves import Panel, curve
from vidcap_jax.training.metric_log import read_metric_log

_TRAINING = ('loss', 'reward', 'learning_rate')
_MOST_POINTS = 300  # of a line


def panels(workdirs: Mapping[str, pathlib.Path]) -> list[dict[str, Any]]:
  """A panel for each metric that a run's log has: its name, split, and a line for each run.

  Args:
    workdirs: by label.
  """
  logs = {label: read_metric_log(workdir) for label, workdir in workdirs.items()}
  records = [record for log in logs.values() for record in log]
  by = 'epoch' if any(record.get('epoch') for record in records) else 'step'
  kinds = dict.fromkeys(r['kind'] for r in records if r.get('kind') not in (None, 'train'))
  wanted = [(kind, name) for kind in kinds for name in NAMES]
  wanted += [('train', name) for name in _TRAINING]
  found = []
  for kind, metric in wanted:
    lines = []
    for label, log in logs.items():
      drawn = curve(log, Panel(kind, metric, by)) if log else []
      points = [(x, y) for x, y, _ in drawn if math.isfinite(y)]
      if points:
        lines.append({'label': label, 'points': _thinned(points)})
    if lines:
      found.append({'metric': metric, 'kind': kind, 'by': by, 'lines': lines})
  return found


def _thinned(points: list[tuple[float, float]]) -> list[list[float]]:
  """Fewer points, each the mean of neighbours, of a line that has many."""
  size = -(-len(points) // _MOST_POINTS)
  groups = [points[i : i + size] for i in range(0, len(points), size)]
  means = [[sum(values) / len(group) for values in zip(*group)] for group in groups]
  return [[float(f'{value:.5g}') for value in mean] for mean in means]
