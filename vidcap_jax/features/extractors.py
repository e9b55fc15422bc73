r"""The registry of extractors, which turn a video's frames, windows of frames or sound into arrays.

An extractor is a network (``vidcap_jax.features.networks``) and a choice of its outputs.
``{extractor, version, sampling}`` determines the result: the same description gives the same array
whether a data set is extracted or one video captioned.

The inputs of a network depend on its ``reads``. It is called with batches of one size (for one
compilation), the last one of a video padded with zeros, and the names of the wanted outputs. A
video with fewer inputs is one batch of 1, as for a picture, or of an even number:

* 'frames':  ``forward(uint8 (batch, size, size, 3), wanted) -> {output: (batch, …)}``, RGB, the
  central square of the upright frame after scaling its shorter side to ``scale``; with ``stretch``
  the whole frame scaled to a square; if ``size`` is None, the whole frame in its own size, (batch,
  rows, columns, 3).
* 'windows': ``forward(uint8 (batch, frames, size, size, 3), wanted) -> {output: (batch, …)}``,
  windows of consecutive sampled frames.
* 'audio':   ``forward(float32 (batch, size), wanted) -> {output: (batch, …)}``, mono sound at
  ``rate`` samples a second, from -1 to 1, in segments of ``size`` samples that start every ``hop``
  seconds and may overlap; each is processed on its own. For VGGish, 15,600 samples are 96 frames of
  400 samples, 160 apart; with a hop of 0.96 seconds the next segment starts with the 97th frame.
  For a video without sound the network is not called, and its stream has T = 0.

Then ``finish(*outputs for the whole video)`` makes the stream's array; ``finish.join_windows`` does
so for an output with several steps a window, (windows, steps, …).

``FAMILIES`` gives networks by name, without an entry for each: ``FAMILIES['timm']('resnet152')``
returns the extractor and the network of ``timm/resnet152``.

A number after the name of a grid, as in ``efficientnet_lite2_grid3`` or ``timm/resnet152/grid7``,
gives the means of its blocks of cells, 3 x 3 or 7 x 7 of them.
"""

import dataclasses
import functools
import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from vidcap_jax.errors import UserError
from vidcap_jax.features import finish, networks, sampling, weights
from vidcap_jax.features.backbones import random as random_features
from vidcap_jax.features.networks import MIXED, NETWORKS, Network

# Ends the version of features whose frames and sound were placed by exact time stamps. Those made
# before have other frames only of the files that docs/video.md names.
EXACT_CLOCK = '+clock-2'


class ExtractorError(UserError):
  """An unknown extractor, version or sampling; lists the known ones."""


@dataclasses.dataclass(frozen=True)
class Extractor:
  """How one kind of feature is made.

  Attributes:
    kind: of the stream, a key of ``vidcap_jax.data.schema.KINDS``; for sound, one with an axis T.
    shape: of one video's array, None for an axis of varying size, as in ``schema.Stream``.
    version: changes whenever the values do. ``{weights}`` in it is replaced by the first 8 digits
      of the SHA-256 of each of the network's weights files, joined with +.
    network: key of ``networks.NETWORKS``.
    outputs: the network's outputs that ``finish`` needs.
    finish: turns these outputs for all inputs of a video, (T, …) each, into the stream's array.
    sampling: the default, which also completes other samplings, see ``sampling.complete``.
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


def _coarser(name: str, cells: int) -> Extractor:
  """The extractor of a grid with its cells averaged to ``cells`` rows and columns."""
  extractor = get(name)
  *time, rows, columns, channels = extractor.shape
  if rows is None or columns is None or rows % cells or columns % cells:
    raise ExtractorError(
      f'unknown extractor {name + str(cells)!r}: {name} has {rows} x {columns} cells, which are '
      f'not {cells} x {cells} equal blocks'
    )

  def means(*outputs: np.ndarray) -> np.ndarray:
    return finish.mean_cells(cells, extractor.finish(*outputs))

  return dataclasses.replace(extractor, shape=(*time, cells, cells, channels), finish=means)


def _c3d(network: str, version: str) -> dict[str, Extractor]:
  """NETWORK_fc7, and NETWORK_pool2 … of adjacent windows: 8, 4, 2 and 1 steps a window."""
  how: dict[str, int | float] = {'fps': 2.0, 'window': 16}
  version = f'{version}/{{weights}}'
  fc7 = Extractor(
    'sequence', (None, 4096), version, network, ('fc7',), finish.identity, how | {'stride': 8}
  )
  grids = {
    f'{network}_{level}': Extractor(
      'grid', (None, *shape), version, network, (level,), finish.join_windows, how | {'stride': 16}
    )
    for level, shape in {
      'pool2': (28, 28, 128),
      'pool3': (14, 14, 256),
      'pool4': (7, 7, 512),
      'pool5': (4, 4, 512),
    }.items()
  }
  return {f'{network}_fc7': fc7, **grids}


def _vggish(output: str, network: str = 'vggish') -> Extractor:
  shape, version = (None, 128), 'vggish-1/{weights}'
  return Extractor('sequence', shape, version, network, (output,), finish.identity, {'hop': 0.96})


def _random(
  kind: str,
  shape: tuple[int | None, ...],
  output: str,
  finish=finish.identity,
  frames: int = 8,
  **more: int,
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
      functools.partial(finish.mean_frames, frames),
      frames=16,
    )
    for layer, (rows, channels, frames) in random_features.PYRAMID.items()
  }


def _lite(name: str, version: str, cells: int) -> dict[str, Extractor]:
  """EfficientNet-Lite: the pooled features, the grid and the motion of frames."""
  moments = f'{version}/moments-2'
  return {
    name: Extractor('sequence', (None, 1280), version, name, ('pooled',), finish.identity),
    f'{name}_grid': Extractor(
      'grid', (None, cells, cells, 1280), version, name, ('grid',), finish.identity
    ),
    # The first moments within the frame show the direction of movement, which pooled features
    # don't.
    f'{name}_motion': Extractor(
      'sequence', (None, 6 * MIXED), moments, name, ('moments',), finish.change
    ),
  }


REGISTRY: dict[str, Extractor] = {
  **_lite('efficientnet_lite0', 'efficientnet-lite0-57934424', 7),
  **_lite('efficientnet_lite1', 'efficientnet-lite1-77cc7160', 8),
  **_lite('efficientnet_lite2', 'efficientnet-lite2-9656183e', 9),
  **_c3d('c3d', 'c3d-1'),  # of the central square, as the network was trained
  **_c3d('c3d_whole', 'c3d-whole-1'),  # of whole frames, as dualAFR reads them
  'vggish': _vggish('embedding'),
  'vggish_relu': _vggish('relu'),
  'vggish_pca': _vggish('quantised', 'vggish_pca'),
  'random_vector': _random('vector', (random_features.CHANNELS,), 'frame', finish.mean),
  'random_sequence': _random('sequence', (None, random_features.CHANNELS), 'frame'),
  'random_grid': _random('grid', (None, 7, 7, random_features.CELL_CHANNELS), 'cells'),
  'random_regions': _random('regions', (None, None, random_features.CELL_CHANNELS), 'regions'),
  # Of one in every three frames of other streams with the same sampling.
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
    finish.identity,
    {'every': 1, 'window': 16, 'stride': 8},
  ),
  'random_sound': Extractor(
    'sequence',
    (None, random_features.CHANNELS),
    random_features.VERSION,
    'random_sound',
    ('sound',),
    finish.identity,
    {'hop': 0.96},
  ),
}


def _family(module: str) -> Callable[[str], tuple[Extractor, Network]]:
  def family(rest: str) -> tuple[Extractor, Network]:
    return importlib.import_module(f'vidcap_jax.features.backbones.{module}').family(rest)

  return family


# Prefix -> function from a name without the prefix to its extractor and network; raises
# ExtractorError.
FAMILIES: dict[str, Callable[[str], tuple[Extractor, Network]]] = {
  'timm': _family('timm_images'),
  'torchvision': _family('torchvision_models'),
  'transformers': _family('transformers_models'),
}


def get(name: str) -> Extractor:
  """The extractor of that name; ExtractorError lists the known ones or says what is wrong."""
  if name in REGISTRY:
    return REGISTRY[name]
  if coarse := re.fullmatch(r'(.*grid)([1-9][0-9]*)', name):
    return _coarser(coarse[1], int(coarse[2]))
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
  """A stream's kind, extractor, version and sampling, as in ``schema.Stream`` and stream.json.

  Args:
    name: key of the registry.
    given: sampling; missing keys are taken from the extractor's default.

  Raises:
    ExtractorError: unknown extractor.
    weights.WeightsError: missing weights.
    ModuleNotFoundError: a package with weights is not installed.
    ValueError: a malformed sampling, or one that the network can't read.
  """
  extractor, network = get(name), network_of(name)
  how = sampling.complete(given or {}, extractor.sampling)
  how = sampling.check(how, network.reads)
  if network.window not in (None, how.get('window')):
    raise ValueError(f'sampling window={how["window"]}: {name} reads {network.window} frames')
  version = extractor.version
  if network.weights is not None:
    files = network.weights()  # raises if they are missing, even if the version does not need them
    if '{weights}' in version:
      version = version.replace('{weights}', '+'.join(map(weights.digest, files)))
  version += EXACT_CLOCK
  return {'kind': extractor.kind, 'extractor': name, 'version': version, 'sampling': how}


def network_version(version: str | None) -> str | None:
  """A version without what it says of the choice of frames."""
  return version and version.removesuffix(EXACT_CLOCK)


def describe_all(streams: Mapping[str, str], default: Mapping[str, Any]) -> dict[str, dict]:
  """Descriptions of streams by name.

  Args:
    streams: name -> EXTRACTOR or EXTRACTOR@SAMPLING, as of ``sampling.parse``.
    default: sampling for streams without one, of networks that read single frames.

  Raises:
    ExtractorError: as ``describe``, naming the stream.
    ModuleNotFoundError: a package with weights is not installed.
  """
  described = {}
  for stream, text in streams.items():
    name, has_sampling, how = text.partition('@')
    try:
      given = sampling.parse(how) if has_sampling else default
      if not has_sampling and network_of(name).reads != 'frames':
        given = {}
      described[stream] = describe(name, given)
    except ValueError as error:
      raise ExtractorError(f'stream {stream!r}: {error}') from None
  return described


def check(stream: str, description: Mapping) -> dict:
  """Checks that a stored description can be reproduced; returns it in its current form.

  A version without ``EXACT_CLOCK`` passes: of most files its frames are the same.

  Args:
    stream: its name, for messages.
    description: ``extractor``, ``version`` and ``sampling``; other keys are ignored.

  Raises:
    ExtractorError: an unknown extractor or another version of it, an unknown sampling, or missing
      weights; names the stream.
  """
  name = description.get('extractor')
  if not name:
    raise ExtractorError(f'stream {stream!r}: its extractor is unknown; give its features instead')
  how = description.get('sampling')
  try:
    if not how:
      raise ValueError(f'sampling {how!r}: the sampling of its frames is unknown')
    current = describe(name, how)
  except ValueError as error:
    raise ExtractorError(f'stream {stream!r}: {error.args[0]}; give its features instead') from None
  if network_version(description.get('version')) != network_version(current['version']):
    raise ExtractorError(
      f'stream {stream!r}: made by {name} version {description.get("version")!r}, '
      f'this program has version {current["version"]!r}; give its features instead'
    )
  return current


def load(names: Iterable[str]) -> None:
  """Loads the networks of extractors before the first video.

  Raises:
    ExtractorError: unknown extractor.
    ModuleNotFoundError: a package with weights is not installed; says how to install it.
    weights.WeightsError: missing weights; says what to fetch.
  """
  for name in names:
    networks.load_network(get(name).network)
