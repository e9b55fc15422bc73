"""Reads state dicts and checks that they have all expected arrays, their shapes, and no others."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from vidcap_jax.features import torch_pickle
from vidcap_jax.features.weights import WeightsError

_SHOWN = 4  # names in a message

Shape = tuple[int, ...]


def read(
  path: pathlib.Path,
  shapes: Mapping[str, Shape],
  unused: Sequence[str] = (),
  spellings: Mapping[str, str] | None = None,
) -> dict[str, np.ndarray]:
  """Reads and checks the arrays of a PyTorch state dict, as float32, without PyTorch.

  Args:
    path: a file that ``torch.save`` wrote, of a state dict or a checkpoint with ``state_dict``.
    shapes: of all required arrays, by name.
    unused: prefixes of the names of arrays to ignore.
    spellings: other names of arrays in some files -> the name in ``shapes``.

  Raises:
    WeightsError: an unreadable file, or arrays that are missing, unknown or of another shape.
  """
  try:
    state = torch_pickle.load_state_dict(path)
  except torch_pickle.WeightsError as error:
    raise WeightsError(str(error)) from None
  renamed: dict[str, np.ndarray] = {}
  for name, array in state.items():
    name = name.removeprefix('module.')  # added by nn.DataParallel
    name = (spellings or {}).get(name, name)
    if not name.startswith(tuple(unused)):
      renamed[name] = array
  if problems := faults({name: array.shape for name, array in renamed.items()}, shapes):
    raise WeightsError(f'{path}: not the weights of this network: {problems}')
  return {name: renamed[name].astype(np.float32) for name in shapes}


def faults(actual: Mapping[str, Shape], expected: Mapping[str, Shape]) -> str:
  """Describes missing, unknown and wrongly shaped arrays; '' if there are none."""
  wrong = [
    f'{name} is {actual[name]}, expected {shape}'
    for name, shape in expected.items()
    if name in actual and actual[name] != shape
  ]
  more = [f'and {len(wrong) - _SHOWN} other shapes'] if len(wrong) > _SHOWN else []
  missing = _names('missing', expected.keys() - actual.keys())
  unknown = _names('unknown', actual.keys() - expected.keys())
  return '; '.join(filter(None, [missing, unknown, *wrong[:_SHOWN], *more]))


def _names(what: str, names) -> str:
  shown = sorted(names)[:_SHOWN]
  more = f' and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''
  return f'{what} {", ".join(shown)}{more}' if names else ''
