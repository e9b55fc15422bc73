"""Benchmarks with goals: each prints a table, and writes it with ``--json=FILE``.

The ``main`` of each ends as other commands do: it is wrapped in ``command_errors.exit_on_error``.
"""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Sequence

from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output


@dataclasses.dataclass(frozen=True)
class Row:
  """One measured value.

  Attributes:
    name: of the value.
    value: the measurement, or the median of several.
    unit: of the value.
    ratio: of the value to the one that it is compared with.
    goal: the number to reach or reproduce.
    met: whether the goal is met.
    quartiles: of several measurements.
  """

  name: str
  value: float
  unit: str = ''
  ratio: float | None = None
  goal: float | None = None
  met: bool | None = None
  quartiles: tuple[float, float] | None = None


def add_json(parser: argparse.ArgumentParser, required: bool = False) -> None:
  """Adds ``--json``; parsing checks that the file can be written, before the benchmark runs."""
  parser.add_argument(
    '--json',
    type=_writable_path,
    metavar='FILE',
    required=required,
    help='also write the table there',
  )


def _writable_path(path: str) -> str:
  try:
    check_output('--json', path)
  except UserError as error:
    raise argparse.ArgumentTypeError(str(error)) from None
  return path


def report(rows: Sequence[Row], json_file: str | None = None) -> bool:
  """Prints the rows, also to ``json_file`` if given; returns whether all goals are met."""
  width = max(len(row.name) for row in rows)
  for row in rows:
    line = f'{row.name:<{width}}  {row.value:9.4f} {row.unit}'.rstrip()
    if row.quartiles is not None:
      line += f'  ({row.quartiles[0]:.4g} to {row.quartiles[1]:.4g})'
    if row.ratio is not None:
      line += f'  ratio {row.ratio:.3f}'
    if row.goal is not None:
      line += f'  goal {row.goal:g}: {"met" if row.met else "MISSED"}'
    print(line)
  if json_file:
    write(rows, json_file)
  return all(row.met is not False for row in rows)


def write(rows: Sequence[Row], json_file: str) -> None:
  """Writes the rows as a JSON list of objects."""
  text = json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + '\n'
  pathlib.Path(json_file).write_text(text)
