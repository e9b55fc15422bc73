"""From a video file to named feature arrays: the extractors there are, and how to run them.

An extractor is a network (a function from a batch of frames to arrays) and a choice of what to
keep of its outputs. Streams whose extractors share network and sampling share one pass over the
video. ``{extractor, version, sampling}`` says everything about a result: the same description
gives the same array whether a data set is extracted or one video captioned.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from data_prep import random_features, video
from vidcap_jax.errors import UserError

# Frames per forward pass: the last batch of a video is filled up with blank frames, so there is one
# compilation, and a video's features do not depend on what else is extracted.
BATCH = 8


# How many numbers the motion stream mixes a frame's 1280 channels into. Most channels are silent
# most of the time; mixtures of them tell nearly as much with a tenth of the weights to learn.
MIXED = 128


class ExtractorError(UserError):
  """An extractor, version or sampling that this program can't provide; says which there are."""


@dataclasses.dataclass(frozen=True)
class Extractor:
  """How one kind of feature is made.

  Attributes:
    kind: of the stream, a key of ``vidcap_jax.data.schema.KINDS``.
    shape: of one video's array, None where an axis is free, as in ``schema.Stream``.
    version: changes whenever the numbers do.
    network: key of ``NETWORKS``.
    outputs: the network's outputs that ``finish`` needs.
    finish: from those outputs of a video's frames, (T, …) each, to the stream's array.
    sampling: the default.
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


@dataclasses.dataclass(frozen=True)
class Network:
  """``size``: rows and columns of its frames; ``load()`` gives the function
  (frames uint8 (BATCH, size, size, 3), wanted outputs) -> {output: array (BATCH, …)}."""

  size: int
  load: Callable[[], Callable[[np.ndarray, tuple[str, ...]], dict[str, np.ndarray]]]


def _mixing(channels: int, mixed: int) -> np.ndarray:
  """Fixed signs (channels, mixed) over the root of channels: keeps sums of squares, nearly."""
  words = np.random.PCG64(0).random_raw(channels * mixed // 64)
  bits = words[:, None] >> np.arange(64, dtype=np.uint64) & 1
  return ((2.0 * bits - 1) / channels**0.5).astype(np.float32).reshape(channels, mixed)


def _load_efficientnet():
  import jax
  import jax.numpy as jnp

  from data_prep import efficientnet

  # Depthwise convolutions as shifted products are 9 times faster on CPUs, not on accelerators.
  depthwise = 'shifted' if jax.default_backend() == 'cpu' else 'grouped'
  parameters = jax.device_put(efficientnet.pretrained())
  places = jnp.arange(-3.0, 4.0)  # of the cells, from the middle of the frame
  mixing = jnp.asarray(_mixing(efficientnet.CHANNELS, MIXED))

  @functools.partial(jax.jit, static_argnums=1)
  def forward(frames, wanted):
    grid = efficientnet.feature_map(parameters, frames, depthwise)  # (B, 7, 7, D)

    def moments():
      mixed = grid @ mixing  # (B, 7, 7, MIXED)
      across = jnp.einsum('brcd,c->bd', mixed, places) / 49
      down = jnp.einsum('brcd,r->bd', mixed, places) / 49
      return jnp.concatenate([mixed.mean((1, 2)), across, down], -1)  # (B, 3 MIXED)

    outputs = {'pooled': lambda: grid.mean((1, 2)), 'grid': lambda: grid, 'moments': moments}
    return {name: outputs[name]() for name in wanted}

  return forward


NETWORKS = {
  'efficientnet_lite0': Network(224, _load_efficientnet),
  'random': Network(random_features.SIZE, random_features.load),
}


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


def _middles(array: np.ndarray) -> np.ndarray:
  """(T, …) to the middle frame of every three, of a last one or two the last: (ceil(T / 3), …)."""
  starts = np.arange(0, len(array), 3)
  return array[np.minimum(starts + 1, len(array) - 1)]


def _mean_of_each(frames: int, array: np.ndarray) -> np.ndarray:
  """Means of so many frames (T, …) at a time, the last perhaps of fewer."""
  return np.stack([array[i : i + frames].mean(0) for i in range(0, len(array), frames)])


def _random(
  kind: str, shape: tuple[int | None, ...], output: str, finish=_same, frames: int = 8
) -> Extractor:
  version, sampling = random_features.VERSION, {'uniform': frames}
  return Extractor(kind, shape, version, 'random', (output,), finish, sampling)


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
  'random_vector': _random('vector', (random_features.CHANNELS,), 'frame', _mean),
  'random_sequence': _random('sequence', (None, random_features.CHANNELS), 'frame'),
  'random_grid': _random('grid', (None, 7, 7, random_features.CELL_CHANNELS), 'cells'),
  'random_regions': _random('regions', (None, None, random_features.CELL_CHANNELS), 'regions'),
  # Of one of every three frames of the streams beside it, sampled as they are.
  'random_regions_of_third': _random(
    'regions', (None, None, random_features.CELL_CHANNELS), 'regions', _middles
  ),
  **_random_pyramid(),
}


def get(name: str) -> Extractor:
  """The extractor of that name; ExtractorError lists those there are."""
  if name not in REGISTRY:
    raise ExtractorError(f'unknown extractor {name!r}; known: {", ".join(sorted(REGISTRY))}')
  return REGISTRY[name]


def describe(name: str, sampling: Mapping[str, int | float] | None = None) -> dict:
  """What determines a stream's numbers, and its kind: as in ``schema.Stream`` and stream.json.

  Args:
    name: key of the registry.
    sampling: as in ``data_prep.video``; the extractor's default if None.

  Raises:
    ExtractorError: unknown extractor.
    ValueError: malformed sampling.
  """
  extractor = get(name)
  return {
    'kind': extractor.kind,
    'extractor': name,
    'version': extractor.version,
    'sampling': video.check_sampling(extractor.sampling if sampling is None else sampling),
  }


def check(stream: str, description: Mapping) -> dict:
  """A description as this program can carry it out; the inverse of keeping it in a manifest.

  Args:
    stream: its name, for the messages.
    description: ``extractor``, ``version`` and ``sampling``; other keys are ignored.

  Raises:
    ExtractorError: naming the stream: made by an unknown extractor, another version of it, or
      sampled in a way that is not known.
  """
  name = description.get('extractor')
  if not name:
    raise ExtractorError(
      f'stream {stream!r}: it is not known which extractor made it; give its features instead'
    )
  try:
    mine = describe(name, description.get('sampling') or {})
  except (ExtractorError, ValueError) as error:
    raise ExtractorError(f'stream {stream!r}: {error.args[0]}') from None
  if description.get('version') != mine['version']:
    raise ExtractorError(
      f'stream {stream!r}: made by {name} version {description.get("version")!r}, '
      f'this program has version {mine["version"]!r}; give its features instead'
    )
  return mine


@functools.cache
def _network(name: str):
  return NETWORKS[name].load()


def load(names: Iterable[str]) -> None:
  """Reads the weights that extractors need, ahead of the first video.

  Raises:
    ExtractorError: unknown extractor.
    ModuleNotFoundError: weights that are not installed; says how to install them.
  """
  for name in names:
    _network(get(name).network)


def _run(name: str, frames, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
  """The network's outputs for all frames of a video, (T, …) each; frames is an iterator."""
  network, size = _network(name), NETWORKS[name].size
  parts: dict[str, list[np.ndarray]] = {output: [] for output in wanted}
  batch = np.zeros((BATCH, size, size, 3), np.uint8)
  filled = 0

  def flush():
    batch[filled:] = 0
    for output, array in network(batch, wanted).items():
      parts[output].append(np.array(array[:filled], np.float32))

  for frame in frames:
    batch[filled] = frame.image
    filled += 1
    if filled == BATCH:
      flush()
      filled = 0
  if filled:
    flush()
  return {output: np.concatenate(arrays) for output, arrays in parts.items()}


def extract_video(
  path: str | pathlib.Path,
  streams: Mapping[str, Mapping],
  notes: list[str] | None = None,
) -> dict[str, np.ndarray]:
  """The features of one video file.

  Args:
    path: the file.
    streams: name -> description as of ``describe`` (a manifest's streams as dicts will do).
    notes: gets a line for a file that is damaged in part; see ``video.sample``.

  Returns:
    name -> float32 array, axes by kind as in ``schema.KINDS``.

  Raises:
    ExtractorError: a stream that can't be reproduced.
    video.VideoError: a file that gives no frame.
    ModuleNotFoundError: PyAV or the weights are not installed.
  """
  checked = {name: check(name, description) for name, description in streams.items()}
  passes: dict[tuple, list[str]] = {}
  for name, description in checked.items():
    ((how, amount),) = description['sampling'].items()
    passes.setdefault((get(description['extractor']).network, how, amount), []).append(name)
  result = {}
  lines: list[str] = []
  for (network, how, amount), names in passes.items():
    wanted = {o for name in names for o in get(checked[name]['extractor']).outputs}
    frames = video.sample(path, {how: amount}, NETWORKS[network].size, lines)
    outputs = _run(network, frames, tuple(sorted(wanted)))
    for name in names:
      extractor = get(checked[name]['extractor'])
      result[name] = extractor.finish(*(outputs[o] for o in extractor.outputs))
  if notes is not None:
    notes.extend(dict.fromkeys(lines))
  return {name: result[name] for name in streams}
