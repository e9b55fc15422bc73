"""The networks that extractors run; ``data_prep.extractors`` says how they are fed."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import numpy as np

from data_prep import random_features

# How many numbers the motion stream mixes a frame's 1280 channels into. Most channels are silent
# most of the time; mixtures of them tell nearly as much with a tenth of the weights to learn.
MIXED = 128

# (a batch of inputs, names of wanted outputs) -> {output: array (batch, …)}
Forward = Callable[[np.ndarray, tuple[str, ...]], dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Network:
  """A network, and what it wants to read.

  Attributes:
    size: rows and columns of a frame, its central square; None: whole frames, of any shape. For
      sound: how many samples it reads at a time.
    load: gives the function from a batch of inputs to outputs; called once a process, with the
      paths of ``weights``, if there are any.
    reads: 'frames', 'windows' or 'audio'.
    scale: rows or columns of the shorter side that a frame is scaled to before its central square
      is cut; None: ``size``.
    batch: inputs of a batch. The last batch of a video is filled up with zeros.
    window: frames that windows must have; None: any number.
    rate: samples of sound a second.
    weights: gives the paths of the weights files, or raises ``weights.WeightsError`` or
      ModuleNotFoundError saying what to fetch or install; must not load anything.
  """

  size: int | None
  load: Callable[..., Forward]
  reads: str = 'frames'
  scale: int | None = None
  batch: int = 8
  window: int | None = None
  rate: int = 16_000
  weights: Callable[[], tuple[pathlib.Path, ...]] | None = None


def mixing(channels: int, mixed: int) -> np.ndarray:
  """Fixed signs (channels, mixed) over the root of channels: keeps sums of squares, nearly."""
  words = np.random.PCG64(0).random_raw(channels * mixed // 64)
  bits = words[:, None] >> np.arange(64, dtype=np.uint64) & 1
  return ((2.0 * bits - 1) / channels**0.5).astype(np.float32).reshape(channels, mixed)


def _lite0_weights() -> tuple[pathlib.Path, ...]:
  from data_prep import efficientnet

  return (efficientnet.weights_path(),)


def _load_lite0(_: pathlib.Path) -> Forward:
  import jax
  import jax.numpy as jnp

  from data_prep import efficientnet

  # Depthwise convolutions as shifted products are 9 times faster on CPUs, not on accelerators.
  depthwise = 'shifted' if jax.default_backend() == 'cpu' else 'grouped'
  parameters = jax.device_put(efficientnet.pretrained())
  places = jnp.arange(-3.0, 4.0)  # of the cells, from the middle of the frame
  signs = jnp.asarray(mixing(efficientnet.CHANNELS, MIXED))

  @functools.partial(jax.jit, static_argnums=1)
  def forward(frames, wanted):
    grid = efficientnet.feature_map(parameters, frames, depthwise)  # (B, 7, 7, D)

    def moments():
      mixed = grid @ signs  # (B, 7, 7, MIXED)
      across = jnp.einsum('brcd,c->bd', mixed, places) / 49
      down = jnp.einsum('brcd,r->bd', mixed, places) / 49
      return jnp.concatenate([mixed.mean((1, 2)), across, down], -1)  # (B, 3 MIXED)

    outputs = {'pooled': lambda: grid.mean((1, 2)), 'grid': lambda: grid, 'moments': moments}
    return {name: outputs[name]() for name in wanted}

  return forward


NETWORKS: dict[str, Network] = {
  'efficientnet_lite0': Network(224, _load_lite0, weights=_lite0_weights),
  'random': Network(random_features.SIZE, random_features.load),
  'random_windows': Network(random_features.SIZE, random_features.load_windows, reads='windows'),
  'random_sound': Network(random_features.SAMPLES, random_features.load_sound, reads='audio'),
}


@functools.cache
def loaded(name: str) -> Forward:
  """A network ready to run.

  Raises:
    weights.WeightsError, ModuleNotFoundError: weights that are not there; says what to do.
  """
  network = NETWORKS[name]
  return network.load() if network.weights is None else network.load(*network.weights())
