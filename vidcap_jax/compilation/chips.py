"""Figures of accelerators, from ``chips/chips.json``."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping

from vidcap_jax.errors import UserError

FOLDER = pathlib.Path(__file__).parent / 'chips'
_PASSES = {'default': 1, 'high': 3, 'highest': 6}  # of a float32 product on a TPU, in bfloat16


@dataclasses.dataclass(frozen=True)
class Chip:
  """A kind of accelerator.

  Attributes:
    name: key of the table.
    platform: 'tpu' or 'cuda'.
    memory: bytes.
    bandwidth: of its memory, bytes a second.
    links: of all its links to other chips, in one direction, bytes a second.
    peaks: of dense products, FLOP/s by ``bfloat16``, ``tf32`` and ``float32``.
    clock: cycles a second of a TPU; 0 for others.
    axes: of a TPU's topology, e.g. 2 for 2x4; 0 for others.
    chip_config_name: of a TPU's topology, where it is not the default.
    target_config: what XLA compiles for, for a GPU; '' for others.
    source: of the figures.
  """

  name: str
  platform: str
  memory: int
  bandwidth: float
  links: float
  peaks: Mapping[str, float]
  clock: float
  axes: int
  chip_config_name: str
  target_config: str
  source: str

  def peak(self, dtype: str, precision: str) -> float:
    """FLOP/s of matrix products.

    Args:
      dtype: ``train.dtype``.
      precision: ``runtime.matmul_precision``.
    """
    if dtype == 'bfloat16':
      return self.peaks['bfloat16']
    if self.platform == 'tpu':
      return self.peaks['bfloat16'] / _PASSES[precision]
    return self.peaks['float32' if precision == 'highest' else 'tf32']


@functools.cache
def _table() -> dict[str, dict]:
  table = json.loads((FOLDER / 'chips.json').read_text())
  return {name: row for name, row in table.items() if name != 'comment'}


def chip_of(device_kind: str) -> Chip | None:
  """The chip of a device, by the beginning of its ``device_kind``; None if the table lacks it."""
  known = {kind: name for name, row in _table().items() for kind in row['device_kinds']}
  found = [kind for kind in known if device_kind.startswith(kind)]
  return find_chip(known[max(found, key=len)]) if found else None


def find_chip(name: str) -> Chip:
  """A chip by its name.

  Raises:
    UserError: the table has no such chip.
  """
  if name not in _table():
    raise UserError(f'--topology={name}: unknown chip; known: {", ".join(_table())}')
  row = _table()[name]
  file = row.get('target_config')
  return Chip(
    name=name,
    platform=row['platform'],
    memory=row['memory'] * 2**20,
    bandwidth=row['bandwidth'] * 1e9,
    links=row['links'] * 1e9,
    peaks={k: row[k] * 1e12 for k in ('bfloat16', 'tf32', 'float32') if k in row},
    clock=row.get('clock_ghz', 0) * 1e9,
    axes=row.get('axes', 0),
    chip_config_name=row.get('chip_config_name', ''),
    target_config=(FOLDER / file).read_text() if file else '',
    source=row['source'],
  )
