"""What the PyTorch backbones share: the packages, the device, pixels in, numbers out, weights."""

import importlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vidcap_jax.features.backbones import state as states
from vidcap_jax.features.weights import WeightsError


def require(package: str) -> Any:
  """A package of the extra ``torch``; ModuleNotFoundError says how to install it."""
  try:
    return importlib.import_module(package)
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      f'{package} is needed ({error}): install the extra "torch", pip install \'vidcap_jax[torch]\''
    ) from error


def device() -> str:
  """The accelerator if there is one, else the CPU."""
  return 'cuda' if require('torch').cuda.is_available() else 'cpu'


def pixels(frames: np.ndarray, mean: Sequence[float], std: Sequence[float]):
  """Frames (…, rows, columns, 3) from 0 to 255 as a float32 tensor, less ``mean``, by ``std``.

  Both are of values from 0 to 1, per channel.
  """
  torch = require('torch')
  x = torch.from_numpy(np.ascontiguousarray(frames)).to(device(), torch.float32) / 255
  return (x - torch.tensor(mean, device=x.device)) / torch.tensor(std, device=x.device)


def numbers(tensor) -> np.ndarray:
  """A tensor as a float32 array."""
  return tensor.float().cpu().numpy()


def ready(model):
  """The model on the device, as it is used after training."""
  return model.to(device()).eval().requires_grad_(False)


def read_state(path: pathlib.Path) -> dict:
  """A state dict from a ``.safetensors`` file or one of ``torch.save``; no code is run.

  Raises:
    WeightsError: not such a file.
  """
  torch = require('torch')
  try:
    if path.suffix == '.safetensors':
      return require('safetensors.torch').load_file(path)
    found = torch.load(path, map_location='cpu', weights_only=True)
  except Exception as error:  # a damaged file raises almost anything
    told = str(error).partition('\n')[0]
    raise WeightsError(f'{path}: cannot be read as weights ({told})') from None
  if isinstance(found, dict) and isinstance(found.get('state_dict'), dict):
    found = found['state_dict']
  if not isinstance(found, dict) or not all(isinstance(v, torch.Tensor) for v in found.values()):
    raise WeightsError(f'{path}: holds no state dict')
  return found


def load_state(model, path: pathlib.Path) -> None:
  """Gives a model the weights of a file; WeightsError names keys and shapes that do not fit."""
  found = read_state(path)
  # Counters of training steps, which files from before PyTorch 0.4.1 lack.
  shapes = {
    name: tuple(tensor.shape)
    for name, tensor in model.state_dict().items()
    if name in found or not name.endswith('num_batches_tracked')
  }
  if told := states.faults({name: tuple(t.shape) for name, t in found.items()}, shapes):
    raise WeightsError(f'{path}: not the weights of this network: {told}')
  model.load_state_dict(found, strict=False)
