"""Measurements with a goal: each prints a table, and writes it with ``--json=FILE``."""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Sequence

from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output


@dataclasses.dataclass(frozen=True)
class Row:
  """One measured value; ``goal`` is what it should reach or reproduce, ``met`` whether it does;
  ``ratio`` is to what it is compared with, ``quartiles`` are of several measurements."""

  name: str
  value: float
  unit: str = ''
  ratio: float | None = None
  goal: float | None = None
  met: bool | None = None
  quartiles: tuple[float, float] | None = None


def add_json(parser: argparse.ArgumentParser) -> None:
  """Adds ``--json``; whether it can be written is seen before anything is measured."""
  parser.add_argument('--json', type=_writable, metavar='FILE', help='also write the rows there')


def _writable(path: str) -> str:
  try:
    check_output('--json', path)
  except UserError as error:
    raise argparse.ArgumentTypeError(str(error)) from None
  return path


def report(rows: Sequence[Row], json_file: str | None = None) -> bool:
  """Prints the rows, writes them if a file is named, and tells whether every goal is met."""
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
  """Writes the rows as a list of objects."""
  text = json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + '\n'
  pathlib.Path(json_file).write_text(text)
