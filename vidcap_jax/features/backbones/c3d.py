"""C3D in JAX: features of windows of 16 frames from each of its levels, from published weights.

The network of Tran et al. 2015: eight convolutions of 3 x 3 x 3 with ReLU in five levels, each
followed by max-pooling, then two layers of 4096 units. Weights are those of a PyTorch state dict of
the Sports-1M model, converted from Caffe: it reads frames as B, G, R from 0 to 255 minus a mean;
its last pooling has a window for the seventh row and column alone (Caffe rounds sizes up). Arrays
are (B, T, rows, columns, channels).
"""

import pathlib
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from vidcap_jax.features.backbones import state as states
from vidcap_jax.features.weights import WeightsError

SIZE = 112  # rows and columns of a frame
WINDOW = 16  # frames that fc6 and fc7 need
UNITS = 4096  # of fc6 and fc7
# The convolutions of each level, and how many channels they give.
LEVELS: tuple[tuple[tuple[str, ...], int], ...] = (
  (('conv1',), 64),
  (('conv2',), 128),
  (('conv3a', 'conv3b'), 256),
  (('conv4a', 'conv4b'), 512),
  (('conv5a', 'conv5b'), 512),
)
MEAN = (90.0, 98.0, 102.0)  # of Sports-1M's pixels, B, G, R, if no mean cube is given
FETCH = (
  'the Sports-1M weights of C3D as a PyTorch state dict (c3d.pickle of the project '
  'DavideA/c3d-pytorch, or c3d-pretrained.pth of jfzhang95/pytorch-video-recognition)'
)

_CUBE_SIDES = (128, 171)  # rows and columns of Caffe's mean cube, of which the middle is used


def _shapes() -> dict[str, tuple[int, ...]]:
  shapes: dict[str, tuple[int, ...]] = {}
  inputs = 3
  for names, channels in LEVELS:
    for name in names:
      shapes |= {f'{name}.weight': (channels, inputs, 3, 3, 3), f'{name}.bias': (channels,)}
      inputs = channels
  shapes |= {'fc6.weight': (UNITS, inputs * 16), 'fc6.bias': (UNITS,)}
  return shapes | {'fc7.weight': (UNITS, UNITS), 'fc7.bias': (UNITS,)}


SHAPES = _shapes()


def _spellings() -> dict[str, str]:
  """Other names of parameters: those of files that number layers as ``nn.Sequential`` does."""
  convolutions = [name for names, _ in LEVELS for name in names]
  places = dict(zip((0, 3, 6, 8, 11, 13, 16, 18), convolutions, strict=True))
  layers = {f'features.{i}': name for i, name in places.items()}
  layers |= {'classifier.0': 'fc6', 'classifier.3': 'fc7', 'classifier.6': 'fc8'}
  return {f'{a}.{p}': f'{b}.{p}' for a, b in layers.items() for p in ('weight', 'bias')}


def read_parameters(path: pathlib.Path) -> dict:
  """Parameters from a weights file; WeightsError names keys and shapes that are wrong."""
  # The classifier is not used; its size differs between fine-tuned models.
  state = states.read(path, SHAPES, unused=('fc8.',), spellings=_spellings())
  return parameters_from_state(state)


def parameters_from_state(state: Mapping[str, np.ndarray]) -> dict:
  """Parameters from a PyTorch state dict's arrays, of any numbers of channels."""
  parameters = {}
  for name in (name for names, _ in LEVELS for name in names):
    kernel = state[f'{name}.weight'].transpose(2, 3, 4, 1, 0)  # (3, 3, 3, in, out)
    parameters[name] = {'kernel': kernel, 'bias': state[f'{name}.bias'][None, None, None, None]}
  channels = state['conv5b.bias'].size
  # PyTorch flattens pool5 as (channels, rows, columns), here it is (rows, columns, channels).
  fc6 = state['fc6.weight'].reshape(-1, channels, 4, 4).transpose(2, 3, 1, 0)
  parameters['fc6'] = {
    'kernel': fc6.reshape(16 * channels, -1),
    'bias': state['fc6.bias'][None],
  }
  parameters['fc7'] = {'kernel': state['fc7.weight'].T, 'bias': state['fc7.bias'][None]}
  return parameters


def read_mean(path: pathlib.Path, *, whole: bool = False) -> np.ndarray:
  """The mean of Sports-1M's windows from a ``.npy`` file, B, G, R: (16, 112, 112, 3) float32.

  The file holds (3, 16, 128, 171), as Caffe's ``train01_16_128_171_mean`` is laid out, or
  (16, 128, 171, 3), or either with 112 rows and columns, the middle cut out already; an axis of 1
  before these is dropped.

  Args:
    path: of the file.
    whole: scale 128 rows and 171 columns to 112 x 112, as whole frames are, instead of cutting out
      the middle.

  Raises:
    WeightsError: an unreadable file, or an array of another form.
  """
  try:
    cube = np.load(path, allow_pickle=False)
  except (OSError, ValueError, EOFError) as error:
    raise WeightsError(f'{path}: the mean cube cannot be read ({error})') from None
  array = np.asarray(cube)
  if array.ndim == 5 and len(array) == 1:
    array = array[0]
  if array.ndim == 4 and array.shape[0] == 3:
    array = array.transpose(1, 2, 3, 0)
  sides = array.shape[1:3]
  if array.ndim != 4 or len(array) != WINDOW or array.shape[3] != 3 or array.dtype.kind != 'f':
    sides = ()
  if sides == _CUBE_SIDES and whole:
    shape = (WINDOW, SIZE, SIZE, 3)
    array = np.asarray(jax.image.resize(array.astype(np.float32), shape, 'linear'))
  elif sides == _CUBE_SIDES:
    array = array[:, 8 : 8 + SIZE, 30 : 30 + SIZE]
  elif sides != (SIZE, SIZE):
    raise WeightsError(
      f'{path}: the mean cube is {cube.dtype} {cube.shape}; expected real numbers '
      '(3, 16, 128, 171) or (16, 128, 171, 3), or 112 x 112 in place of 128 x 171'
    )
  if not np.isfinite(array).all():
    raise WeightsError(f'{path}: the mean cube holds NaN or infinity')
  return array.astype(np.float32)


def _convolve(layer, x):
  out = jax.lax.conv_general_dilated(
    x, layer['kernel'], (1, 1, 1), 'SAME', dimension_numbers=('NDHWC', 'DHWIO', 'NDHWC')
  )
  return jax.nn.relu(out + layer['bias'])


def _pool(x, frames: int):
  """Max-pooling over ``frames`` x 2 x 2; an odd last row or column is pooled by itself."""
  ends = [(0, 0)] * 2 + [(0, n % 2) for n in x.shape[2:4]] + [(0, 0)]
  size = (1, frames, 2, 2, 1)
  return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, size, size, ends)


def features(parameters: dict, windows, wanted: Sequence[str], mean=MEAN) -> dict:
  """The outputs of levels for windows of frames.

  Args:
    parameters: of ``read_parameters`` or ``parameters_from_state``.
    windows: (B, T, rows, columns, 3), R, G, B, 0 to 255, any dtype. T, rows and columns may be
      any for the pools, which drop an odd last frame; fc6 and fc7 need 16 x 112 x 112.
    wanted: names of outputs.
    mean: subtracted, B, G, R: (3,), or (T, rows, columns, 3) as of ``read_mean``.

  Returns:
    'pool1' (B, T, rows / 2, columns / 2, 64), 'pool2' … 'pool5' (B, T / 2, rows / 4, columns / 4,
    128) … (B, T / 16, rows / 32, columns / 32, 512), rows and columns rounded up; 'fc6', 'fc7'
    (B, 4096); all after their ReLU.
  """
  x = jnp.asarray(windows, jnp.float32)[..., ::-1]
  x = x - jnp.broadcast_to(jnp.asarray(mean, jnp.float32), x.shape)
  outputs = {}
  for level, (names, _) in enumerate(LEVELS, 1):
    for name in names:
      x = _convolve(parameters[name], x)
    x = outputs[f'pool{level}'] = _pool(x, 1 if level == 1 else 2)
  if not {'fc6', 'fc7'}.isdisjoint(wanted):
    x = x.reshape(len(x), -1)  # (B, 16 * 512)
    for name in ('fc6', 'fc7'):
      x = jax.nn.relu(x @ parameters[name]['kernel'] + parameters[name]['bias'])
      outputs[name] = x
  return {name: outputs[name] for name in wanted}
