r"""Makes the answers that the JAX backbones' tests compare with, by PyTorch and NumPy.

    PYTHONPATH=. python tests/vidcap_jax/features/backbones/make_expected.py

writes ``expected.npz`` beside this file. It needs torch (2.13.0 made the file that is here) and
NumPy alone. The networks are written in the shapes of the usual PyTorch ports, with few channels;
their weights come from ``seeded``. The spectrogram is computed in float64, piece by piece.
"""

import pathlib

import numpy as np
import torch
from torch import nn

from tests.vidcap_jax.features import seeded


class C3D(nn.Module):
  """With the last pooling as Caffe does it, rounding up."""

  def __init__(self):
    super().__init__()
    inputs = 3
    for name, size in zip(seeded.C3D_CONVOLUTIONS, seeded.C3D_CHANNELS, strict=True):
      setattr(self, name, nn.Conv3d(inputs, size, 3, padding=1))
      inputs = size
    self.fc6 = nn.Linear(inputs * 16, seeded.C3D_UNITS)
    self.fc7 = nn.Linear(seeded.C3D_UNITS, seeded.C3D_UNITS)

  def forward(self, x):  # (B, 3, 16, 112, 112), B, G, R less the mean
    found = {}
    levels = ('1',), ('2',), ('3a', '3b'), ('4a', '4b'), ('5a', '5b')
    for level, names in enumerate(levels, 1):
      for name in names:
        x = torch.relu(getattr(self, f'conv{name}')(x))
      x = nn.functional.max_pool3d(x, (1 if level == 1 else 2, 2, 2), ceil_mode=True)
      found[f'pool{level}'] = x
    found['fc6'] = torch.relu(self.fc6(x.flatten(1)))
    found['fc7'] = torch.relu(self.fc7(found['fc6']))
    return {k: v.movedim(1, -1) if v.ndim == 5 else v for k, v in found.items()}


class VGGish(nn.Module):
  def __init__(self):
    super().__init__()
    layers, inputs = [], 1
    for size, pools in zip(seeded.VGGISH_CHANNELS, (1, 1, 0, 1, 0, 1), strict=True):
      layers += [nn.Conv2d(inputs, size, 3, padding=1), nn.ReLU()]
      layers += [nn.MaxPool2d(2)] if pools else []
      inputs = size
    self.features = nn.Sequential(*layers)
    inputs *= 24
    layers = []
    for size in seeded.VGGISH_UNITS:
      layers += [nn.Linear(inputs, size), nn.ReLU()]
      inputs = size
    self.embeddings = nn.Sequential(*layers)

  def forward(self, x):  # (B, 1, 96, 64)
    x = self.features(x).permute(0, 2, 3, 1).flatten(1)
    return self.embeddings[:-1](x), self.embeddings(x)


def load(module, arrays):
  module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
  return module.double().eval()


def c3d() -> dict[str, np.ndarray]:
  network = load(C3D(), seeded.state(seeded.c3d_shapes(), 1))
  answers = {}
  cube = np.random.Generator(np.random.PCG64(3)).uniform(80, 110, (16, 112, 112, 3))
  for name, mean in (('plain', np.array([90.0, 98.0, 102.0])), ('cube', cube)):
    frames = seeded.windows(2)[..., ::-1] - mean
    found = network(torch.from_numpy(frames.transpose(0, 4, 1, 2, 3).copy()))
    for output, array in found.items():
      answers[f'c3d_{name}_{output}'] = seeded.sample(array)
      answers[f'c3d_{name}_{output}_shape'] = np.array(array.shape, np.int32)
  return answers


def mel(hertz):
  return 1127.0 * np.log(1.0 + hertz / 700.0)


def spectrograms(wave: np.ndarray) -> np.ndarray:
  """(examples, 96, 64) of 0.96 seconds each, by plain sums in place of the fast transform."""
  hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
  frequencies = np.arange(257)
  turns = np.exp(-2j * np.pi * frequencies[:, None] * np.arange(400) / 512)  # (257, 400)
  edges = np.linspace(mel(125.0), mel(7500.0), 66)
  triangles = np.zeros((257, 64))
  for i in range(1, 257):
    place = mel(frequencies[i] * 8000.0 / 256)
    for band in range(64):
      low, middle, high = edges[band : band + 3]
      sides = (place - low) / (middle - low), (high - place) / (high - middle)
      triangles[i, band] = max(0.0, min(sides))
  pieces = [wave[i : i + 400].astype(np.float64) for i in range(0, len(wave) - 399, 160)]
  rows = [np.log(np.abs(turns @ (hann * piece)) @ triangles + 0.01) for piece in pieces]
  return np.stack(rows[: len(rows) // 96 * 96]).reshape(-1, 96, 64)


def vggish() -> dict[str, np.ndarray]:
  network = load(VGGish(), seeded.state(seeded.vggish_shapes(), 4))
  inputs = spectrograms(seeded.waves())
  embedding, after = (a.numpy() for a in network(torch.from_numpy(inputs[:, None])))
  pca = seeded.pca()
  components = (pca['pca_eigen_vectors'] @ (embedding.T - pca['pca_means'])).T
  scaled = (np.clip(components, -2, 2) + 2) * (255 / 4)
  return {
    'log_mel': seeded.sample(inputs, 600),
    'log_mel_shape': np.array(inputs.shape, np.int32),
    'vggish_embedding': embedding,
    'vggish_relu': after,
    'vggish_scaled': scaled,
  }


def main() -> None:
  with torch.inference_mode():
    answers = c3d() | vggish()
  stored = {k: v.astype(np.float32) if v.dtype.kind == 'f' else v for k, v in answers.items()}
  path = pathlib.Path(__file__).parent / 'expected.npz'
  np.savez_compressed(path, **stored)
  print(f'{path}: {len(stored)} arrays, {path.stat().st_size} bytes, torch {torch.__version__}')
  for name, array in stored.items():
    if not name.endswith('_shape'):
      print(f'  {name:<20}{array.shape!s:<12}mean {array.mean():8.3f} std {array.std():8.3f}')


if __name__ == '__main__':
  main()
