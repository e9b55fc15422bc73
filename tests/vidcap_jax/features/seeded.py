"""Weights and inputs of the backbones' tests: the same values with PyTorch and without."""

from collections.abc import Mapping

import numpy as np

# Channels of small networks of the published ones' structure.
C3D_CHANNELS = (4, 5, 6, 6, 7, 7, 8, 8)  # of conv1 … conv5b
C3D_UNITS = 9
C3D_CONVOLUTIONS = (
  *('conv1', 'conv2', 'conv3a', 'conv3b'),
  *('conv4a', 'conv4b', 'conv5a', 'conv5b'),
)
VGGISH_CHANNELS = (4, 5, 6, 6, 7, 7)
VGGISH_UNITS = (9, 10, 128)
VGGISH_CONVOLUTIONS = tuple(f'features.{i}' for i in (0, 3, 6, 8, 11, 13))
VGGISH_LAYERS = tuple(f'embeddings.{i}' for i in (0, 2, 4))
RATE = 16_000


def _layers(names, channels, inputs: int, kernel: tuple[int, ...]) -> dict[str, tuple]:
  shapes: dict[str, tuple] = {}
  for name, size in zip(names, channels, strict=True):
    shapes |= {f'{name}.weight': (size, inputs, *kernel), f'{name}.bias': (size,)}
    inputs = size
  return shapes


def c3d_shapes() -> dict[str, tuple]:
  inputs = C3D_CHANNELS[-1] * 16
  return _layers(C3D_CONVOLUTIONS, C3D_CHANNELS, 3, (3, 3, 3)) | _layers(
    ('fc6', 'fc7'), (C3D_UNITS, C3D_UNITS), inputs, ()
  )


def vggish_shapes() -> dict[str, tuple]:
  return _layers(VGGISH_CONVOLUTIONS, VGGISH_CHANNELS, 1, (3, 3)) | _layers(
    VGGISH_LAYERS, VGGISH_UNITS, VGGISH_CHANNELS[-1] * 24, ()
  )


def state(shapes: Mapping[str, tuple], seed: int) -> dict[str, np.ndarray]:
  """Arrays that keep a ReLU network's values of one size from layer to layer."""
  generator = np.random.Generator(np.random.PCG64(seed))
  arrays = {}
  for name, shape in shapes.items():
    spread = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.2
    arrays[name] = (generator.standard_normal(shape) * spread).astype(np.float32)
  return arrays


def windows(seed: int, count: int = 2, side: int = 112) -> np.ndarray:
  """Frames with coarse shapes and noise, R, G, B: uint8 (count, 16, side, side, 3)."""
  generator = np.random.Generator(np.random.PCG64(seed))
  coarse = generator.integers(0, 200, (count, 4, 7, 7, 3))
  frames = coarse.repeat(4, 1).repeat(side // 7, 2).repeat(side // 7, 3)
  return (frames + generator.integers(0, 56, frames.shape)).astype(np.uint8)


def waves() -> np.ndarray:
  """Two seconds of a rising tone, a click and noise: float32 (32,000,)."""
  generator = np.random.Generator(np.random.PCG64(5))
  seconds = np.arange(2 * RATE) / RATE
  tone = 0.4 * np.sin(2 * np.pi * (200 + 1500 * seconds) * seconds)
  noise = 0.05 * generator.standard_normal(2 * RATE)
  noise[:RATE] *= seconds[:RATE]
  tone[RATE] += 0.5
  return (tone + noise).astype(np.float32)


def pca() -> dict[str, np.ndarray]:
  """PCA parameters in the published shapes."""
  shapes = {'pca_eigen_vectors': (128, 128), 'pca_means': (128, 1)}
  return {name: array / 2 for name, array in state(shapes, 9).items()}


def sample(array: np.ndarray, count: int = 120) -> np.ndarray:
  """Entries of an array spread over all of it, the first and the last too."""
  flat = np.asarray(array).reshape(-1)
  return flat[np.linspace(0, flat.size - 1, min(count, flat.size)).astype(int)]
