"""Shared by the PyTorch backbones: packages, device, conversion of arrays, weights."""

import importlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vidcap_jax.features.backbones import state as states
from vidcap_jax.features.weights import WeightsError


def require(package: str) -> Any:
  """Imports a package of the extra ``torch``; ModuleNotFoundError says how to install it."""
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
  """Normalizes frames (…, rows, columns, 3) from 0 to 255 into a float32 tensor on the device.

  ``mean`` and ``std`` are per channel, for values from 0 to 1.
  """
  torch = require('torch')
  x = torch.from_numpy(np.ascontiguousarray(frames)).to(device(), torch.float32) / 255
  return (x - torch.tensor(mean, device=x.device)) / torch.tensor(std, device=x.device)


def to_numpy(tensor) -> np.ndarray:
  """A tensor as a float32 array."""
  return tensor.float().cpu().numpy()


def prepare(model):
  """The model on the device, in evaluation mode and without gradients."""
  return model.to(device()).eval().requires_grad_(False)


def read_state(path: pathlib.Path) -> dict:
  """Reads a state dict from a ``.safetensors`` or ``torch.save`` file, without running code.

  Raises:
    WeightsError: an unreadable file, or one without a state dict.
  """
  torch = require('torch')
  try:
    if path.suffix == '.safetensors':
      return require('safetensors.torch').load_file(path)
    state = torch.load(path, map_location='cpu', weights_only=True)
  except Exception as error:  # a damaged file raises almost anything
    reason = str(error).partition('\n')[0]
    raise WeightsError(f'{path}: cannot be read as weights ({reason})') from None
  if isinstance(state, dict) and isinstance(state.get('state_dict'), dict):
    state = state['state_dict']
  if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
    raise WeightsError(f'{path}: holds no state dict')
  return state


def load_state(model, path: pathlib.Path) -> None:
  """Loads weights into a model; WeightsError names keys and shapes that do not fit."""
  state = read_state(path)
  # Files from before PyTorch 0.4.1 lack the counters of training steps, num_batches_tracked.
  shapes = {
    name: tuple(tensor.shape)
    for name, tensor in model.state_dict().items()
    if name in state or not name.endswith('num_batches_tracked')
  }
  if problems := states.faults({name: tuple(t.shape) for name, t in state.items()}, shapes):
    raise WeightsError(f'{path}: not the weights of this network: {problems}')
  model.load_state_dict(state, strict=False)
