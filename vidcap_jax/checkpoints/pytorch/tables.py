"""Maps the arrays of a state dict to the parameters of a model, as a table says."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from vidcap_jax.errors import DataError, first_few

Convert = Callable[..., np.ndarray]
Order = slice | Sequence[int]  # which elements of an axis are taken, in which order
ALL = slice(None)


@dataclasses.dataclass(frozen=True)
class Entry:
  """How one parameter is made.

  Attributes:
    path: of the parameter in the model here, 'attend/key/kernel'.
    keys: of the arrays in the state dict that it is made of.
    convert: makes it of these arrays; their order is that of ``keys``.
  """

  path: str
  keys: tuple[str, ...]
  convert: Convert


@dataclasses.dataclass(frozen=True)
class Table:
  """The parameters of a model.

  Attributes:
    entries: one for each parameter of the model here.
    without_effect: regular expressions of keys that change no output, so that they are not read.
  """

  entries: Sequence[Entry]
  without_effect: Sequence[str] = ()


def convert(
  table: Table, arrays: Mapping[str, np.ndarray], shapes: Any, where: str
) -> dict[str, Any]:
  """The parameters (float32, nested by path) that a table makes of a state dict.

  Args:
    table: of the model.
    arrays: the state dict.
    shapes: the model's parameters as ``jax.ShapeDtypeStruct``.
    where: the file of the state dict, for messages.

  Raises:
    DataError: keys are missing, or unknown to the table; an array has the wrong shape or values
      that are not finite.
  """
  used = {key for entry in table.entries for key in entry.keys}
  ignored = re.compile('|'.join(table.without_effect) or '(?!)')
  missing = sorted(used - arrays.keys())
  unknown = sorted(key for key in arrays.keys() - used if not ignored.fullmatch(key))
  if missing or unknown:
    differences = {'missing': missing, 'the model here has nothing like': unknown}
    listed = [f'{what}: {first_few(keys)}' for what, keys in differences.items() if keys]
    raise DataError(
      f'{where}: not the parameters of this model with the options of its infos; '
      f'{"; ".join(listed)}; give the weights and the infos of one training',
      [f'{what}: {key}' for what, keys in differences.items() for key in keys],
    )
  expected = {
    '/'.join(part.key for part in path): leaf for path, leaf in jax.tree.leaves_with_path(shapes)
  }
  made = {e.path: _make(e, arrays, expected[e.path].shape, where) for e in table.entries}
  assert made.keys() == expected.keys(), made.keys() ^ expected.keys()
  return _nested(made)


def _make(
  entry: Entry, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...], where: str
) -> np.ndarray:
  parts = [arrays[key] for key in entry.keys]
  found = ', '.join(f'{key} {part.shape}' for key, part in zip(entry.keys, parts))
  try:
    # Sums and products of weights are taken in float64, so that they are rounded once.
    made = entry.convert(*(part.astype(np.float64) for part in parts)).astype(np.float32)
  except (ValueError, IndexError) as error:
    raise DataError(f'{where}: {found} do not fit together ({error})') from None
  if made.shape != shape:
    raise DataError(
      f'{where}: {found} gives {entry.path} of shape {made.shape}; with the options and the '
      f'vocabulary of its infos it must be {shape}'
    )
  if not np.isfinite(made).all():
    raise DataError(f'{where}: {found}: not all values are finite')
  return made


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
  """{'a/b': x} to {'a': {'b': x}}."""
  tree: dict[str, Any] = {}
  for path, value in flat.items():
    *folders, name = path.split('/')
    inner = tree
    for folder in folders:
      inner = inner.setdefault(folder, {})
    inner[name] = value
  return tree


# ------------------------------------------------------------------------------ how arrays convert


def total(*arrays: np.ndarray) -> np.ndarray:
  """The sum, of biases that are added to the same outputs."""
  return np.stack(arrays).sum(axis=0)


def flat(array: np.ndarray) -> np.ndarray:
  """All elements in one axis."""
  return array.reshape(-1)


def kernel(inputs: Order = ALL, outputs: Order = ALL) -> Convert:
  """Weights of ``nn.Linear``, (outputs, inputs), as a kernel, (inputs, outputs).

  Args:
    inputs, outputs: which of them, in which order.
  """
  return lambda weight: weight.T[inputs][:, outputs]


def stacked(*parts: Convert) -> Convert:
  """A kernel whose inputs are those of several arrays, one after another."""
  return lambda *arrays: np.concatenate([part(a) for part, a in zip(parts, arrays, strict=True)])


def chosen(order: Order) -> Convert:
  """The elements of a vector in another order."""
  return lambda array: array[order]
