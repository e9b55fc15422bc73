r"""The registry of extractors: what a video's frames, windows of frames or sound are turned into.

An extractor is a network (``vidcap_jax.features.networks``) and a choice of what to keep of its
outputs.
``{extractor, version, sampling}`` says everything about a result: the same description gives the
same array whether a data set is extracted or one video captioned.

How a network is fed, by its ``reads``. It is called with a batch of always the same size (one
compilation), the last one of a video filled up with zeros, and the outputs wanted:

* 'frames':  ``forward(uint8 (batch, size, size, 3), wanted) -> {output: (batch, …)}``, RGB, the
  upright frame scaled so that its shorter side is ``scale`` and its central square cut out; with
  ``size`` None the whole frame, (batch, rows, columns, 3), as large as the video's are.
* 'windows': ``forward(uint8 (batch, frames, size, size, 3), wanted) -> {output: (batch, …)}``, of
  windows of consecutive sampled frames.
* 'audio':   ``forward(float32 (batch, size), wanted) -> {output: (batch, …)}``, mono sound at
  ``rate`` samples a second, within -1 and 1, in stretches of ``size`` samples that begin each
  ``hop`` seconds. They may overlap: whatever the network computes of a stretch (a spectrogram of
  overlapping pieces, say) it computes of that stretch alone. VGGish: 15,600 samples for 96 pieces
  of 400, 160 apart; a hop of 0.96 seconds goes on with the 97th. A video without sound is fed
  nothing and its stream has T = 0.

Then ``finish(*outputs of the whole video)`` makes the stream's array; an output with several
steps a window, (windows, steps, …), is laid end to end by ``joined``.

``FAMILIES`` holds networks by name without an entry each: ``FAMILIES['timm']('resnet152')`` gives
the extractor and the network that ``timm/resnet152`` means.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from vidcap_jax.errors import UserError
from vidcap_jax.features import networks, sampling, weights
from vidcap_jax.features.backbones import random as random_features
from vidcap_jax.features.networks import MIXED, NETWORKS, Network


class ExtractorError(UserError):
  """An extractor, version or sampling that this program can't provide; says which there are."""


@dataclasses.dataclass(frozen=True)
class Extractor:
  """How one kind of feature is made.

  Attributes:
    kind: of the stream, a key of ``vidcap_jax.data.schema.KINDS``; of sound, one with an axis T.
    shape: of one video's array, None where an axis is free, as in ``schema.Stream``.
    version: changes whenever the numbers do. ``{weights}`` in it stands for the first 8 digits of
      the SHA-256 of each of the network's weights files, with + between.
    network: key of ``networks.NETWORKS``.
    outputs: the network's outputs that ``finish`` needs.
    finish: from those outputs of all a video's inputs, (T, …) each, to the stream's array.
    sampling: the default; what another one does not say is taken from it, see
      ``sampling.complete``.
  """

  kind: str
  shape: tuple[int | None, ...]
  version: str
  network: str
  outputs: tuple[str, ...]
  finish: Callable[..., np.ndarray]
  sampling: Mapping[str, int | float] = dataclasses.field(default_factory=lambda: {'uniform': 20})

  @property
  def channels(self) -> int | None:
    """Size of one feature vector."""
    return self.shape[-1]


def joined(array: np.ndarray) -> np.ndarray:
  """(windows, steps, …) to (windows * steps, …)."""
  return array.reshape(-1, *array.shape[2:])


def _change(moments: np.ndarray) -> np.ndarray:
  """(T, D) to each frame's change to the next one and the size of it, (T - 1, 2 D).

  A model that averages over time sees the net change in the one and how much there was in all, to
  and fro, in the other. A single frame gives one row of zeros.
  """
  change = np.diff(moments, axis=0) if len(moments) > 1 else np.zeros_like(moments)
  return np.concatenate([change, np.abs(change)], axis=1)


def _same(array: np.ndarray) -> np.ndarray:
  return array


def _mean(array: np.ndarray) -> np.ndarray:
  return array.mean(0)


def _mean_of_each(frames: int, array: np.ndarray) -> np.ndarray:
  """Means of so many frames (T, …) at a time, the last perhaps of fewer."""
  return np.stack([array[i : i + frames].mean(0) for i in range(0, len(array), frames)])


def _c3d(kind: str, shape: tuple[int | None, ...], output: str, stride: int) -> Extractor:
  how = {'fps': 2.0, 'window': 16, 'stride': stride}
  finish = joined if kind == 'grid' else _same
  return Extractor(kind, shape, 'c3d-1/{weights}', 'c3d', (output,), finish, how)


def _vggish(output: str, network: str = 'vggish') -> Extractor:
  shape, version = (None, 128), 'vggish-1/{weights}'
  return Extractor('sequence', shape, version, network, (output,), _same, {'hop': 0.96})


def _random(
  kind: str, shape: tuple[int | None, ...], output: str, finish=_same, frames: int = 8, **more: int
) -> Extractor:
  version, how = random_features.VERSION, {'uniform': frames, **more}
  return Extractor(kind, shape, version, 'random', (output,), finish, how)


def _random_pyramid() -> dict[str, Extractor]:
  """A grid for each layer, all on one clock: random_pool2, …, random_pool5."""
  return {
    f'random_{layer}': _random(
      'grid',
      (None, rows, rows, channels),
      layer,
      functools.partial(_mean_of_each, frames),
      frames=16,
    )
    for layer, (rows, channels, frames) in random_features.PYRAMID.items()
  }


_LITE0 = 'efficientnet-lite0-57934424'

REGISTRY: dict[str, Extractor] = {
  'efficientnet_lite0': Extractor(
    'sequence', (None, 1280), _LITE0, 'efficientnet_lite0', ('pooled',), _same
  ),
  'efficientnet_lite0_grid': Extractor(
    'grid', (None, 7, 7, 1280), _LITE0, 'efficientnet_lite0', ('grid',), _same
  ),
  # The shift of the responses within the frame shows which way things move; pooled features can't.
  'efficientnet_lite0_motion': Extractor(
    'sequence',
    (None, 6 * MIXED),
    f'{_LITE0}/moments-2',
    'efficientnet_lite0',
    ('moments',),
    _change,
  ),
  'c3d_fc7': _c3d('sequence', (None, 4096), 'fc7', 8),
  # Of windows side by side, all on one clock: 8, 4, 2 steps and one a window.
  'c3d_pool2': _c3d('grid', (None, 28, 28, 128), 'pool2', 16),
  'c3d_pool3': _c3d('grid', (None, 14, 14, 256), 'pool3', 16),
  'c3d_pool4': _c3d('grid', (None, 7, 7, 512), 'pool4', 16),
  'c3d_pool5': _c3d('grid', (None, 4, 4, 512), 'pool5', 16),
  'vggish': _vggish('embedding'),
  'vggish_relu': _vggish('relu'),
  'vggish_pca': _vggish('quantised', 'vggish_pca'),
  'random_vector': _random('vector', (random_features.CHANNELS,), 'frame', _mean),
  'random_sequence': _random('sequence', (None, random_features.CHANNELS), 'frame'),
  'random_grid': _random('grid', (None, 7, 7, random_features.CELL_CHANNELS), 'cells'),
  'random_regions': _random('regions', (None, None, random_features.CELL_CHANNELS), 'regions'),
  # Of one of every three frames of the streams beside it, sampled as they are.
  'random_regions_of_third': _random(
    'regions', (None, None, random_features.CELL_CHANNELS), 'regions', one_in=3
  ),
  **_random_pyramid(),
  'random_windows': Extractor(
    'sequence',
    (None, random_features.CHANNELS),
    random_features.VERSION,
    'random_windows',
    ('window',),
    _same,
    {'every': 1, 'window': 16, 'stride': 8},
  ),
  'random_sound': Extractor(
    'sequence',
    (None, random_features.CHANNELS),
    random_features.VERSION,
    'random_sound',
    ('sound',),
    _same,
    {'hop': 0.96},
  ),
}


def _family(module: str) -> Callable[[str], tuple[Extractor, Network]]:
  def family(rest: str) -> tuple[Extractor, Network]:
    return importlib.import_module(f'vidcap_jax.features.backbones.{module}').family(rest)

  return family


# Prefix -> what gives extractor and network of a name without it; raises ExtractorError.
FAMILIES: dict[str, Callable[[str], tuple[Extractor, Network]]] = {
  'timm': _family('timm_images'),
  'torchvision': _family('torchvision_models'),
  'transformers': _family('transformers_models'),
}


def get(name: str) -> Extractor:
  """The extractor of that name; ExtractorError lists those there are."""
  if name in REGISTRY:
    return REGISTRY[name]
  prefix, slash, rest = name.partition('/')
  if slash and rest and prefix in FAMILIES:
    extractor, network = FAMILIES[prefix](rest)
    NETWORKS.setdefault(extractor.network, network)
    return extractor
  known = [*sorted(REGISTRY), *(f'{family}/NAME' for family in FAMILIES)]
  raise ExtractorError(f'unknown extractor {name!r}; known: {", ".join(known)}')


def network_of(name: str) -> Network:
  """The network of the extractor of that name."""
  return NETWORKS[get(name).network]


def describe(name: str, given: Mapping[str, Any] | None = None) -> dict:
  """What determines a stream's numbers, and its kind: as in ``schema.Stream`` and stream.json.

  Args:
    name: key of the registry.
    given: sampling; what it does not say is the extractor's default.

  Raises:
    ExtractorError: unknown extractor.
    weights.WeightsError: weights that are not there.
    ModuleNotFoundError: a package with weights that is not installed.
    ValueError: malformed sampling, or one that the network can't read.
  """
  extractor, network = get(name), network_of(name)
  how = sampling.complete(given or {}, extractor.sampling)
  how = sampling.check(how, network.reads)
  if network.window not in (None, how.get('window')):
    raise ValueError(f'sampling window={how["window"]}: {name} reads {network.window} frames')
  version = extractor.version
  if network.weights is not None:
    files = network.weights()  # also where the version does not depend on them: they must be there
    if '{weights}' in version:
      version = version.replace('{weights}', '+'.join(map(weights.digest, files)))
  return {'kind': extractor.kind, 'extractor': name, 'version': version, 'sampling': how}


def describe_all(streams: Mapping[str, str], usual: Mapping[str, Any]) -> dict[str, dict]:
  """Descriptions of streams by name.

  Args:
    streams: name -> EXTRACTOR or EXTRACTOR@SAMPLING, as of ``sampling.parse``.
    usual: sampling of networks that read single frames, where the stream has none of its own.

  Raises:
    ExtractorError: naming the stream; and whatever else ``describe`` finds.
    ModuleNotFoundError: a package with weights that is not installed.
  """
  described = {}
  for stream, made_by in streams.items():
    name, own, how = made_by.partition('@')
    try:
      given = sampling.parse(how) if own else usual
      if not own and network_of(name).reads != 'frames':
        given = {}
      described[stream] = describe(name, given)
    except ValueError as error:
      raise ExtractorError(f'stream {stream!r}: {error}') from None
  return described


def check(stream: str, description: Mapping) -> dict:
  """A description as this program can carry it out; the inverse of keeping it in a manifest.

  Args:
    stream: its name, for the messages.
    description: ``extractor``, ``version`` and ``sampling``; other keys are ignored.

  Raises:
    ExtractorError: naming the stream: made by an unknown extractor, another version of it, or
      sampled in a way that is not known; or its weights are not there.
  """
  name = description.get('extractor')
  if not name:
    raise ExtractorError(
      f'stream {stream!r}: it is not known which extractor made it; give its features instead'
    )
  how = description.get('sampling')
  try:
    if not how:
      raise ValueError(f'sampling {how!r}: it is not known how frames were chosen')
    mine = describe(name, how)
  except ValueError as error:
    raise ExtractorError(f'stream {stream!r}: {error.args[0]}; give its features instead') from None
  if description.get('version') != mine['version']:
    raise ExtractorError(
      f'stream {stream!r}: made by {name} version {description.get("version")!r}, '
      f'this program has version {mine["version"]!r}; give its features instead'
    )
  return mine


def load(names: Iterable[str]) -> None:
  """Makes the networks that extractors need ready, ahead of the first video.

  Raises:
    ExtractorError: unknown extractor.
    ModuleNotFoundError: weights that are not installed; says how to install them.
    weights.WeightsError: weights that are not there; says what to fetch.
  """
  for name in names:
    networks.loaded(get(name).network)
