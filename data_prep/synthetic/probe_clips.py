"""Clips with known answers: the words of each caption, and where in the features they are visible.

There is one probe for each claim about the models. Features are made directly, without videos: each
thing is represented by a prototype vector, a cell holds a prototype or nothing, and noise is added
everywhere. So it is known which features decide a caption, and what a mean over them preserves.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from vidcap_jax.errors import DataError

SIZES = {'train': 1920, 'val': 40, 'test': 200}  # clips of each split

THINGS = ('cup', 'ball', 'key', 'ring')
TEXTURES = ('striped', 'dotted', 'woven', 'cracked')
CHANNELS = 16
NOISE = 0.3  # per channel; a prototype's channels have mean square 1
FAINT = 0.35  # times a prototype: visible in a single cell, lost in the mean of its frame


@dataclasses.dataclass(frozen=True)
class Answer:
  """A word of a caption that only the features determine.

  Attributes:
    position: of the word in the caption, from 0.
    word: the correct word.
    look: axis -> the indices on it where the answer is visible. Axes: ``frames`` (T), ``cells``
      (N), ``slots`` (frame * N + cell), ``layers`` (from the lowest), ``branches`` (0: frames,
      1: regions).
  """

  position: int
  word: str
  look: Mapping[str, Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Clip:
  """A clip: its caption, the answers in it, and its features by stream."""

  caption: str
  answers: tuple[Answer, ...]
  features: Mapping[str, np.ndarray]


# (index of the group, generator) -> its clips: one, or two that must be in the same split.
Group = Callable[[int, np.random.Generator], Iterator[Clip]]


@dataclasses.dataclass(frozen=True)
class Probe:
  """A claim about a model, and clips that test it.

  Attributes:
    claim: in words.
    chance: share of correct answers of the best guess without the decisive features.
    kinds: of the streams, by name.
    make: (generator of the prototypes) -> ``Group``.
  """

  claim: str
  chance: float
  kinds: Mapping[str, str]
  make: Callable[[np.random.Generator], Group]


def prototypes(rng: np.random.Generator, count: int, channels: int = CHANNELS) -> np.ndarray:
  """Orthogonal vectors (count, channels) whose channels have mean square 1."""
  basis, _ = np.linalg.qr(rng.normal(size=(channels, channels)))
  return basis[:count] * np.sqrt(channels)


def _noise(rng: np.random.Generator, *shape: int) -> np.ndarray:
  return NOISE * rng.normal(size=shape)


def _answers(caption: str, look: Mapping[str, Sequence[int]], *words: str) -> tuple[Answer, ...]:
  """The answers for words that occur once each in the caption and are visible in the same place."""
  return tuple(Answer(caption.split().index(word), word, look) for word in words)


def _frames_of(cells: np.ndarray) -> np.ndarray:
  """Frame features (T, D): the mean over the cells of a grid (T, rows, columns, D)."""
  return cells.mean(axis=(1, 2))


# ------------------------------------------------------------------------------ temporal order


def _order(fixed: np.random.Generator) -> Group:
  """Two things in sequence, or a light that changes; each group has a clip and its reverse."""
  *things, light = prototypes(fixed, len(THINGS) + 1)
  pairs = list(itertools.combinations(range(len(THINGS)), 2))
  T = 8

  def group(i, rng):
    cells, cell = _noise(rng, T, 2, 2, CHANNELS), rng.integers(4)
    at = (slice(None), *divmod(cell, 2))  # all frames of the cell
    if i % 2:
      cells[at] += np.linspace(0, 2, T)[:, None] * light
      template, words_of_clips = 'the light {}', [['rises'], ['falls']]
    else:
      pair = pairs[i // 2 % len(pairs)]
      for begin, thing in zip(2 * np.sort(rng.choice(T // 2, 2, replace=False)), pair):
        cells[at][begin : begin + 2] += things[thing]
      names = [THINGS[thing] for thing in pair]
      template, words_of_clips = 'a {} and then a {}', [names, names[::-1]]
    for words, shown in zip(words_of_clips, (cells, cells[::-1])):
      caption = template.format(*words)
      answers = _answers(caption, {'cells': [int(cell)]}, *words)
      yield Clip(caption, answers, {'image': _frames_of(shown), 'cells': shown})

  return group


# ------------------------------------------------------------------------------ a small object


def _object(fixed: np.random.Generator) -> Group:
  """Four things in different cells of one frame; the caption names the marked one.

  The mark is strong, the things are faint: the mean of the frame shows that something is marked,
  but not what, since it contains all four. One in five clips has no mark.
  """
  mark, *kinds = prototypes(fixed, 1 + len(THINGS))
  T, rows = 5, 4

  def group(i, rng):
    kind = i % (len(THINGS) + 1)
    cells = _noise(rng, T, rows, rows, CHANNELS)
    frame, places = int(rng.integers(T)), rng.permutation(rows * rows)[: len(THINGS)]
    for place, thing in zip(places, kinds):
      cells[(frame, *divmod(place, rows))] += FAINT * thing
    look: dict[str, list[int]] = {}
    word, caption = 'nothing', 'nothing is here'
    if kind < len(THINGS):
      word, cell = THINGS[kind], int(places[kind])
      caption = f'a {word} is here'
      cells[(frame, *divmod(cell, rows))] += 2 * mark
      look = {'frames': [frame], 'cells': [cell], 'slots': [frame * rows * rows + cell]}
    answers = _answers(caption, look, word)
    yield Clip(caption, answers, {'image': _frames_of(cells), 'cells': cells})

  return group


# ------------------------------------------------------------------------------ an event


EVENT_CLIP = 16  # frames


def _event(fixed: np.random.Generator) -> Group:
  """Two things in sequence in a short event, between irrelevant scenes."""
  known = prototypes(fixed, 2 * len(THINGS))
  things, scenes = known[: len(THINGS)], known[len(THINGS) :]
  pairs = list(itertools.permutations(range(len(THINGS)), 2))
  T, length = EVENT_CLIP, 4

  def group(i, rng):
    first, second = pairs[i % len(pairs)]
    begin = int(rng.integers(1, T - length))  # at least one frame before it and one after
    frames = np.empty((T, CHANNELS))
    frames[:begin], frames[begin:] = scenes[rng.choice(len(scenes), 2, replace=False)]
    frames[begin : begin + length] = np.repeat(things[[first, second]], length // 2, axis=0)
    cells = frames[:, None, None] + _noise(rng, T, 2, 2, CHANNELS)
    look = {'frames': list(range(begin, begin + length))}
    caption = f'a {THINGS[first]} and then a {THINGS[second]}'
    yield Clip(
      caption,
      _answers(caption, look, THINGS[first], THINGS[second]),
      {'image': _frames_of(cells), 'cells': cells},
    )

  return group


# ------------------------------------------------------------------------------ layers

# Frames, rows and columns for one of pool5's. In C3D they are 8, 4, 2 and 1: 20 times the work.
LAYERS = {'pool2': 4, 'pool3': 3, 'pool4': 2, 'pool5': 1}


def _layers(fixed: np.random.Generator) -> Group:
  """A texture visible only in the lowest layer, and a thing visible only in the highest."""
  textures = prototypes(fixed, len(TEXTURES))
  things = prototypes(fixed, len(THINGS))
  units = 2

  def group(i, rng):
    texture, thing = i % len(TEXTURES), i // len(TEXTURES) % len(THINGS)
    features = {
      name: _noise(rng, units * size, size, size, CHANNELS) for name, size in LAYERS.items()
    }
    features['pool2'] += textures[texture]
    features['pool5'] += things[thing]
    features['fc7'] = _noise(rng, units, CHANNELS)
    caption = f'the {TEXTURES[texture]} {THINGS[thing]} moves'
    answers = (
      *_answers(caption, {'layers': [0]}, TEXTURES[texture]),
      *_answers(caption, {'layers': [len(LAYERS) - 1]}, THINGS[thing]),
    )
    yield Clip(caption, answers, features)

  return group


# ------------------------------------------------------------------------------ key frame, region


HELD = THINGS[:3]  # things that can be held


def _key(fixed: np.random.Generator) -> Group:
  """The thing that is held in the event: the one in the marked region of each of its frames.

  A unit is three frames, the middle one of which has regions: each thing twice, faintly, in random
  places, and empty ones. Frames mark the units of the event, in which one region is marked as held;
  in one of four clips none is.
  """
  *things, held, event_mark = prototypes(fixed, len(HELD) + 2)
  units, regions, picks = 6, 8, 2

  def group(i, rng):
    kind = i % (len(HELD) + 1)
    event = sorted(int(u) for u in rng.choice(units, picks, replace=False))
    objects, slots = _noise(rng, units, regions, CHANNELS), []
    for unit in range(units):
      places = rng.permutation(regions)[: 2 * len(HELD)].reshape(-1, 2)  # of each thing
      objects[unit, places] += FAINT * np.array(things)[:, None]
      if unit in event and kind < len(HELD):
        place = int(places[kind, 0])
        objects[unit, place] += 2 * held
        slots.append(unit * regions + place)
    streams = {name: _noise(rng, 3 * units, CHANNELS) for name in ('image', 'motion')}
    for unit in event:
      for frames in streams.values():
        frames[3 * unit : 3 * unit + 3] += event_mark
    word = HELD[kind] if slots else 'nothing'
    caption = f'someone holds {word}'
    look = {'frames': event, 'slots': slots} if slots else {}
    yield Clip(caption, _answers(caption, look, word), {**streams, 'objects': objects})

  return group


# ------------------------------------------------------------------------------ two branches


def _fusion(fixed: np.random.Generator) -> Group:
  """The thing is visible only in the frames in half of the clips, only in the regions in others."""
  in_frames, in_regions = prototypes(fixed, len(THINGS)), prototypes(fixed, len(THINGS))
  T, regions = 4, 3

  def group(i, rng):
    thing = i // 2 % len(THINGS)
    frames, objects = _noise(rng, T, CHANNELS), _noise(rng, T, regions, CHANNELS)
    frame, region = int(rng.integers(T)), int(rng.integers(regions))
    if i % 2:
      frames[frame] += in_frames[thing]
      look = {'branches': [0], 'frames': [frame]}
    else:
      objects[frame, region] += in_regions[thing]
      look = {'branches': [1], 'slots': [frame * regions + region]}
    caption = f'a {THINGS[thing]} is there'
    features = {'image': frames, 'objects': objects, 'scene': _noise(rng, CHANNELS)}
    yield Clip(caption, _answers(caption, look, THINGS[thing]), features)

  return group


# ------------------------------------------------------------------------------ all of them

_GRIDS = {'image': 'sequence', 'cells': 'grid'}

PROBES: Mapping[str, Probe] = {
  'order': Probe('temporal order is seen', 1 / 2, _GRIDS, _order),
  'object': Probe(
    'a small object in one cell of one frame is found',
    2 / 5,  # the mean shows whether anything is marked; of four things one is guessed
    _GRIDS,
    _object,
  ),
  'event': Probe('the key frame falls inside the event', 1 / 2, _GRIDS, _event),
  'layers': Probe(
    'each class of words looks at the layer that shows it',
    1 / 4,  # for a model that uses only one of the two layers
    {**dict.fromkeys(LAYERS, 'grid'), 'fc7': 'sequence'},
    _layers,
  ),
  'key': Probe(
    'key frames and their region are chosen',
    1 / 4,
    {'image': 'sequence', 'motion': 'sequence', 'objects': 'regions'},
    _key,
  ),
  'fusion': Probe(
    'late fusion joins what two branches know',
    5 / 8,  # for one branch: its half, and one of four in the other half
    {'image': 'sequence', 'objects': 'regions', 'scene': 'vector'},
    _fusion,
  ),
}


def clips(name: str, seed: int, sizes: Mapping[str, int] = SIZES) -> dict[str, list[Clip]]:
  """The clips of a probe by split; they depend only on the arguments.

  Raises:
    DataError: an unknown probe.
  """
  if name not in PROBES:
    raise DataError(f'unknown probe {name!r}; known: {", ".join(PROBES)}')
  number = list(PROBES).index(name)
  group = PROBES[name].make(np.random.default_rng([seed, number]))
  by_split = {}
  for part, (split, size) in enumerate(sizes.items(), 1):
    rng = np.random.default_rng([seed, number, part])
    endless = itertools.chain.from_iterable(group(i, rng) for i in itertools.count())
    by_split[split] = list(itertools.islice(endless, size))
  return by_split
