"""The networks that extractors run; ``vidcap_jax.features.extractors`` documents their inputs."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import numpy as np

from vidcap_jax.features import weights
from vidcap_jax.features.backbones import random as random_features

# Number of random mixtures of a frame's 1280 channels in the motion stream. Most channels are near
# zero most of the time; mixtures carry nearly as much with a tenth of the weights to learn.
MIXED = 128

# (a batch of inputs, names of wanted outputs) -> {output: array (batch, …)}
Forward = Callable[[np.ndarray, tuple[str, ...]], dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Network:
  """A network and the inputs that it reads.

  Attributes:
    size: rows and columns of a frame, its central square; None: whole frames, of any shape. For
      sound: how many samples it reads at a time.
    load: returns the function from a batch of inputs to outputs; called once a process, with the
      paths of ``weights`` if the network has weights files.
    reads: 'frames', 'windows' or 'audio'.
    scale: rows or columns of the shorter side that a frame is scaled to before its central square
      is cut; None: ``size``.
    stretch: whole frames are scaled to ``size`` rows and columns instead, without keeping their
      proportions.
    batch: inputs of a batch; the last batch of a video is padded with zeros. A video with fewer
      inputs is one batch of 1 or of an even number.
    window: required number of frames of a window; None: any.
    rate: of sound, samples a second.
    weights: returns the paths of the weights files, or raises ``weights.WeightsError`` or
      ModuleNotFoundError with what to fetch or install; must not load anything.
  """

  size: int | None
  load: Callable[..., Forward]
  reads: str = 'frames'
  scale: int | None = None
  stretch: bool = False
  batch: int = 8
  window: int | None = None
  rate: int = 16_000
  weights: Callable[[], tuple[pathlib.Path, ...]] | None = None


def mixing(channels: int, mixed: int) -> np.ndarray:
  """A fixed random projection (channels, mixed): signs over sqrt(channels)."""
  words = np.random.PCG64(0).random_raw(channels * mixed // 64)
  bits = words[:, None] >> np.arange(64, dtype=np.uint64) & 1
  return ((2.0 * bits - 1) / channels**0.5).astype(np.float32).reshape(channels, mixed)


def _lite_weights(name: str) -> tuple[pathlib.Path, ...]:
  from vidcap_jax.features.backbones import efficientnet

  return (efficientnet.weights_path(efficientnet.VARIANTS[name]),)


def _load_lite(name: str, _: pathlib.Path) -> Forward:
  import jax
  import jax.numpy as jnp

  from vidcap_jax.features.backbones import efficientnet

  # Depthwise convolutions as shifted products are 9 times faster on CPUs, not on accelerators.
  depthwise = 'shifted' if jax.default_backend() == 'cpu' else 'grouped'
  variant = efficientnet.VARIANTS[name]
  parameters = jax.device_put(efficientnet.pretrained(variant))
  cells = variant.cells
  offsets = jnp.arange(cells) - (cells - 1) / 2  # of the cells from the middle of the frame
  signs = jnp.asarray(mixing(efficientnet.CHANNELS, MIXED))

  @functools.partial(jax.jit, static_argnums=1)
  def forward(frames, wanted):
    grid = efficientnet.feature_map(parameters, frames, depthwise, variant)  # (B, cells, cells, D)

    def moments():
      mixed = grid @ signs  # (B, cells, cells, MIXED)
      across = jnp.einsum('brcd,c->bd', mixed, offsets) / cells**2
      down = jnp.einsum('brcd,r->bd', mixed, offsets) / cells**2
      return jnp.concatenate([mixed.mean((1, 2)), across, down], -1)  # (B, 3 MIXED)

    outputs = {'pooled': lambda: grid.mean((1, 2)), 'grid': lambda: grid, 'moments': moments}
    return {name: outputs[name]() for name in wanted}

  return forward


def _lite(name: str, size: int) -> Network:
  find = functools.partial(_lite_weights, name)
  return Network(size, functools.partial(_load_lite, name), weights=find)


def _c3d_weights() -> tuple[pathlib.Path, ...]:
  from vidcap_jax.features.backbones import c3d

  mean = weights.find_optional(C3D_MEAN)
  return (weights.find('c3d', c3d.FETCH), *((mean,) if mean else ()))


def _load_c3d(whole: bool, path: pathlib.Path, mean: pathlib.Path | None = None) -> Forward:
  import jax

  from vidcap_jax.features.backbones import c3d

  parameters = jax.device_put(c3d.read_parameters(path))
  pixel_mean = c3d.MEAN if mean is None else c3d.read_mean(mean, whole=whole)

  @functools.partial(jax.jit, static_argnums=1)
  def forward(windows, wanted):
    return c3d.features(parameters, windows, wanted, pixel_mean)

  return forward


def _c3d(*, whole: bool, **form) -> Network:
  load = functools.partial(_load_c3d, whole)
  return Network(112, load, reads='windows', batch=2, window=16, weights=_c3d_weights, **form)


def _vggish_weights() -> tuple[pathlib.Path, ...]:
  from vidcap_jax.features.backbones import vggish

  return (weights.find('vggish', vggish.FETCH),)


def _vggish_and_pca() -> tuple[pathlib.Path, ...]:
  from vidcap_jax.features.backbones import vggish

  return (*_vggish_weights(), weights.find('vggish_pca', vggish.FETCH_PCA))


def _load_vggish(path: pathlib.Path, components: pathlib.Path | None = None) -> Forward:
  import jax

  from vidcap_jax.features.backbones import vggish

  parameters = jax.device_put(vggish.read_parameters(path))
  pca = None if components is None else vggish.read_pca(components)

  @functools.partial(jax.jit, static_argnums=1)
  def forward(waves, wanted):
    return vggish.features(parameters, waves, wanted, pca)

  return forward


C3D_MEAN = 'c3d_mean'  # name of the optional mean cube among the weights files
_VGGISH_SAMPLES = 15_600  # of one spectrogram

NETWORKS: dict[str, Network] = {
  'efficientnet_lite0': _lite('efficientnet_lite0', 224),
  'efficientnet_lite1': _lite('efficientnet_lite1', 240),
  'efficientnet_lite2': _lite('efficientnet_lite2', 260),
  'c3d': _c3d(whole=False, scale=128),
  'c3d_whole': _c3d(whole=True, stretch=True),
  'vggish': Network(_VGGISH_SAMPLES, _load_vggish, reads='audio', weights=_vggish_weights),
  'vggish_pca': Network(_VGGISH_SAMPLES, _load_vggish, reads='audio', weights=_vggish_and_pca),
  'random': Network(random_features.SIZE, random_features.load),
  'random_windows': Network(random_features.SIZE, random_features.load_windows, reads='windows'),
  'random_sound': Network(random_features.SAMPLES, random_features.load_sound, reads='audio'),
}


@functools.cache
def load_network(name: str) -> Forward:
  """Loads a network, once in each process.

  Raises:
    weights.WeightsError, ModuleNotFoundError: missing weights; says what to fetch or install.
  """
  network = NETWORKS[name]
  return network.load() if network.weights is None else network.load(*network.weights())
