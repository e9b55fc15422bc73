"""Features of frames and sound from fixed random weights: no downloads, no training, fast.

They represent colours and positions, loudness and pitch coarsely, enough to try a model that needs
a certain kind of stream on small clips. The seed is fixed, so values are the same everywhere.
"""

import functools

import numpy as np

VERSION = '1'
SIZE = 28  # rows and columns of a frame
CHANNELS = 128  # of a whole frame
CELL_CHANNELS = 64  # of a cell or region
CELLS = 7  # rows and columns of the grid
MAX_REGIONS = 10
# Layers like those of a 3D CNN: rows and columns, channels, frames of the video for one step.
PYRAMID = {'pool2': (14, 4, 1), 'pool3': (7, 8, 2), 'pool4': (4, 16, 4), 'pool5': (2, 16, 8)}
SAMPLES = 15_600  # of sound, as for VGGish: 0.975 seconds at 16 kHz
_PIECE = 400  # samples of one spectrum


def _weights(seed: int, inputs: int, outputs: int) -> np.ndarray:
  generator = np.random.Generator(np.random.PCG64(seed))
  weights = generator.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)
  return weights.astype(np.float32)


def _patches(frames: np.ndarray, rows: int) -> np.ndarray:
  """Frames (B, SIZE, SIZE, 3) cut into rows x rows cells: (B, rows^2, values of a cell)."""
  batch, pixels = len(frames), SIZE // rows
  patches = frames.reshape(batch, rows, pixels, rows, pixels, 3).transpose(0, 1, 3, 2, 4, 5)
  return patches.reshape(batch, rows * rows, -1)


def _regions(cells: np.ndarray, features: np.ndarray) -> np.ndarray:
  """The cells of highest contrast, (B, MAX_REGIONS, D), padded with rows of zeros."""
  count = cells.shape[1]
  contrast = np.abs(cells - cells.mean(1, keepdims=True)).mean(-1)  # (B, cells)
  order = np.argsort(-contrast, axis=1, kind='stable')[:, :MAX_REGIONS]
  # Every frame has at least one region: its cell of highest contrast.
  present = np.take_along_axis(contrast > 2 * contrast.mean(1, keepdims=True), order, 1)
  present[:, 0] = True
  # The first two channels are the position, as boxes would give it.
  places = np.stack(np.divmod(np.arange(count), CELLS), -1).astype(np.float32) / (CELLS - 1)
  features = features.copy()
  features[:, :, :2] = places
  chosen = np.take_along_axis(features, order[:, :, None], 1)
  return np.where(present[:, :, None], chosen, 0)


def load():
  """The function (frames uint8 (B, 28, 28, 3), wanted outputs) -> {output: float32 (B, …)}.

  Outputs: ``frame`` (B, 128), ``cells`` (B, 7, 7, 64), ``regions`` (B, 10, 64) with rows of zeros
  for absent regions, and the layers of ``PYRAMID`` (B, rows, rows, D).
  """
  pixels = lambda rows: (SIZE // rows) ** 2 * 3  # noqa: E731
  whole = _weights(1, pixels(1), CHANNELS)
  cell = _weights(2, pixels(CELLS), CELL_CHANNELS)
  layers = {
    name: _weights(3 + n, pixels(rows), channels)
    for n, (name, (rows, channels, _)) in enumerate(PYRAMID.items())
  }

  def layer(x, name):
    rows = PYRAMID[name][0]
    return np.maximum(_patches(x, rows) @ layers[name], 0).reshape(len(x), rows, rows, -1)

  def forward(frames: np.ndarray, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    x = frames.astype(np.float32) / 127.5 - 1
    batch = len(x)
    patches = _patches(x, CELLS)  # (B, 49, 48)
    features = np.maximum(patches @ cell, 0)  # (B, 49, 64)
    outputs = {
      'frame': lambda: np.maximum(x.reshape(batch, -1) @ whole, 0),
      'cells': lambda: features.reshape(batch, CELLS, CELLS, -1),
      'regions': lambda: _regions(patches, features),
    }
    outputs |= {name: functools.partial(layer, x, name) for name in PYRAMID}
    return {name: outputs[name]() for name in wanted}

  return forward


def load_windows():
  """The function (uint8 (B, frames, 28, 28, 3), wanted outputs) -> {'window': (B, 128)}.

  A window gives the mean of its frames, and the change from its first to its last half.
  """
  mean_weights, change_weights = (
    _weights(seed, SIZE * SIZE * 3, CHANNELS // 2) for seed in (11, 12)
  )

  def forward(windows: np.ndarray, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    x = (
      windows.astype(np.float32).reshape(*windows.shape[:2], -1) / 127.5 - 1
    )  # (B, frames, pixels)
    half = max(1, x.shape[1] // 2)
    change = x[:, -half:].mean(1) - x[:, :half].mean(1)
    outputs = np.concatenate([x.mean(1) @ mean_weights, change @ change_weights], 1)
    return dict.fromkeys(wanted, np.maximum(outputs, 0))

  return forward


def load_sound():
  """The function (float32 (B, SAMPLES), wanted outputs) -> {'sound': (B, 128)}.

  A segment gives the logarithm of its spectrum, averaged over time.
  """
  bins = _PIECE // 2 + 1
  weights = _weights(13, bins, CHANNELS)

  def forward(waves: np.ndarray, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    pieces = waves.reshape(len(waves), -1, _PIECE) * np.hanning(_PIECE)
    power = (np.abs(np.fft.rfft(pieces)) ** 2).mean(1)  # (B, bins)
    spectrum = np.log(power + 1e-4).astype(np.float32) / 4
    return dict.fromkeys(wanted, np.maximum(spectrum @ weights, 0))

  return forward
