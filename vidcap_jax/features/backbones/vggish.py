"""VGGish in JAX: 128 numbers for each 0.96 seconds of sound, from published weights.

The network of Hershey et al. 2017: six 3 x 3 convolutions with ReLU and four poolings over a
log-mel spectrogram of 96 pieces by 64 bands, then layers of 4096, 4096 and 128 units. Arrays are
(B, pieces, bands, channels).
"""

import pathlib
import zipfile
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from vidcap_jax.features import torch_pickle
from vidcap_jax.features.backbones import log_mel
from vidcap_jax.features.backbones import state as states
from vidcap_jax.features.weights import WeightsError

PIECES = 96  # of a spectrogram
SAMPLES = (PIECES - 1) * log_mel.HOP + log_mel.PIECE  # of a spectrogram's sound: 0.975 seconds
SECONDS = PIECES * log_mel.HOP / log_mel.RATE  # from one spectrogram to the next: 0.96
CHANNELS = 128
FETCH = (
  'the weights of VGGish as a PyTorch state dict (vggish-10086976.pth of the project '
  'harritaylor/torchvggish)'
)
FETCH_PCA = (
  'the PCA parameters of VGGish (vggish_pca_params-970ea276.pth of harritaylor/torchvggish, or '
  'vggish_pca_params.npz of the AudioSet models)'
)

# Key in the state dict -> channels, and whether a pooling follows.
_CONVOLUTIONS = {
  'features.0': (64, True),
  'features.3': (128, True),
  'features.6': (256, False),
  'features.8': (256, True),
  'features.11': (512, False),
  'features.13': (512, True),
}
_LAYERS = {'embeddings.0': 4096, 'embeddings.2': 4096, 'embeddings.4': CHANNELS}
_PCA = {'pca_eigen_vectors': (CHANNELS, CHANNELS), 'pca_means': (CHANNELS,)}
_CLIP = 2.0  # the quantised values' range, either side of 0


def _shapes() -> dict[str, tuple[int, ...]]:
  shapes: dict[str, tuple[int, ...]] = {}
  inputs = 1
  for name, (channels, _) in _CONVOLUTIONS.items():
    shapes |= {f'{name}.weight': (channels, inputs, 3, 3), f'{name}.bias': (channels,)}
    inputs = channels
  inputs *= (PIECES // 16) * (log_mel.BANDS // 16)
  for name, units in _LAYERS.items():
    shapes |= {f'{name}.weight': (units, inputs), f'{name}.bias': (units,)}
    inputs = units
  return shapes


SHAPES = _shapes()


def read_parameters(path: pathlib.Path) -> dict:
  """Parameters from a weights file; WeightsError names keys and shapes that are wrong."""
  return parameters_from_state(states.read(path, SHAPES, unused=('pproc.',)))


def parameters_from_state(state: Mapping[str, np.ndarray]) -> dict:
  """Parameters from a PyTorch state dict's arrays, of any numbers of channels."""
  parameters = {}
  for name in _CONVOLUTIONS:
    kernel = state[f'{name}.weight'].transpose(2, 3, 1, 0)  # (3, 3, in, out)
    parameters[name] = {'kernel': kernel, 'bias': state[f'{name}.bias'][None, None, None]}
  for name in _LAYERS:  # the first reads (pieces, bands, channels), as here
    parameters[name] = {'kernel': state[f'{name}.weight'].T, 'bias': state[f'{name}.bias'][None]}
  return parameters


def read_pca(path: pathlib.Path) -> dict[str, np.ndarray]:
  """``pca_eigen_vectors`` (128, 128) and ``pca_means`` (128,) from a ``.pth`` or ``.npz`` file.

  Raises:
    WeightsError: an unreadable file, or arrays that are missing or of another shape.
  """
  try:
    if path.suffix == '.npz':
      with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    else:
      arrays = torch_pickle.load_state_dict(path)
  except torch_pickle.WeightsError as error:
    raise WeightsError(str(error)) from None
  except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
    raise WeightsError(f'{path}: cannot be read ({error})') from None
  for name, shape in _PCA.items():
    if name not in arrays:
      raise WeightsError(f'{path}: not the PCA parameters of VGGish: missing {name}')
    array = arrays[name]
    if name == 'pca_means' and array.shape == (CHANNELS, 1):
      array = array[:, 0]
    if array.shape != shape or array.dtype.kind != 'f':
      raise WeightsError(
        f'{path}: {name} is {array.dtype} {array.shape}, expected real numbers {shape}'
      )
    arrays[name] = array.astype(np.float32)
  return {name: arrays[name] for name in _PCA}


def feature_map(parameters: dict, spectrograms):
  """The last feature map of spectrograms (B, pieces, 64): (B, pieces / 16, 4, 512)."""
  x = jnp.asarray(spectrograms, jnp.float32)[..., None]
  for name, (_, pools) in _CONVOLUTIONS.items():
    layer = parameters[name]
    x = jax.lax.conv_general_dilated(
      x, layer['kernel'], (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
    )
    x = jax.nn.relu(x + layer['bias'])
    if pools:
      size = (1, 2, 2, 1)
      x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, size, size, 'VALID')
  return x


def features(parameters: dict, waves, wanted: Sequence[str], pca: Mapping | None = None) -> dict:
  """The outputs for segments of sound.

  Args:
    parameters: of ``read_parameters`` or ``parameters_from_state``.
    waves: (B, 15600) from -1 to 1, 16,000 samples a second.
    wanted: names of outputs.
    pca: of ``read_pca``; 'quantised' needs it.

  Returns:
    'embedding' (B, 128): the last layer, before any ReLU, as in the published model; 'relu'
    (B, 128): after a ReLU, as in the common PyTorch port; 'quantised' (B, 128): the embedding's
    whitened principal components, clipped to -2 … 2 and quantised to whole numbers from 0 to 255,
    as published for AudioSet and YouTube-8M.
  """
  x = feature_map(parameters, log_mel.log_mel(waves))
  x = x.reshape(len(x), -1)  # (B, 6 * 4 * 512)
  for name in _LAYERS:
    embedding = x @ parameters[name]['kernel'] + parameters[name]['bias']
    x = jax.nn.relu(embedding)
  outputs = {'embedding': embedding, 'relu': x}
  if 'quantised' in wanted:
    assert pca is not None
    outputs['quantised'] = _quantised(embedding, pca)
  return {name: outputs[name] for name in wanted}


def _quantised(embedding, pca: Mapping):
  components = (embedding - pca['pca_means'][None]) @ pca['pca_eigen_vectors'].T
  return jnp.floor((jnp.clip(components, -_CLIP, _CLIP) + _CLIP) * (255.0 / (2 * _CLIP)))
