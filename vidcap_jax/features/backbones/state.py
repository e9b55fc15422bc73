"""State dicts as networks need them: every expected array there, of its shape, and no other."""

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
  """The arrays of a PyTorch state dict, checked, as float32; PyTorch is not needed.

  Args:
    path: a file that ``torch.save`` wrote; a checkpoint's ``state_dict`` inside it will do.
    shapes: of every array that must be there.
    unused: how the names of arrays begin that may be there and are left out.
    spellings: other names that some files have for arrays -> the name in ``shapes``.

  Raises:
    WeightsError: not such a file, or arrays are missing, unknown or of another shape; names them.
  """
  try:
    found = torch_pickle.load_state_dict(path)
  except torch_pickle.WeightsError as error:
    raise WeightsError(str(error)) from None
  renamed: dict[str, np.ndarray] = {}
  for name, array in found.items():
    name = name.removeprefix('module.')  # nn.DataParallel's
    name = (spellings or {}).get(name, name)
    if not name.startswith(tuple(unused)):
      renamed[name] = array
  if told := faults({name: array.shape for name, array in renamed.items()}, shapes):
    raise WeightsError(f'{path}: not the weights of this network: {told}')
  return {name: renamed[name].astype(np.float32) for name in shapes}


def faults(found: Mapping[str, Shape], expected: Mapping[str, Shape]) -> str:
  """What is missing, unknown or of another shape among arrays; '' if nothing is."""
  wrong = [
    f'{name} is {found[name]}, expected {shape}'
    for name, shape in expected.items()
    if name in found and found[name] != shape
  ]
  more = [f'and {len(wrong) - _SHOWN} other shapes'] if len(wrong) > _SHOWN else []
  missing = _names('missing', expected.keys() - found.keys())
  unknown = _names('unknown', found.keys() - expected.keys())
  return '; '.join(filter(None, [missing, unknown, *wrong[:_SHOWN], *more]))


def _names(what: str, names) -> str:
  shown = sorted(names)[:_SHOWN]
  more = f' and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''
  return f'{what} {", ".join(shown)}{more}' if names else ''
