"""Clips whose answer is known: what a caption must say, and where in the features it can be seen.

There is one probe for each claim that the models make. Features are made directly: every thing that
can be told has a prototype, a cell shows a prototype or nothing, and noise lies over all of it. So
what decides a caption is known, and what a mean over frames or cells knows of it, too.
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
FAINT = 0.35  # of a prototype: told in a cell by itself, lost in the mean of its frame


@dataclasses.dataclass(frozen=True)
class Answer:
  """A word that only the features can tell.

  Attributes:
    position: of the word in the caption, from 0.
    word: the right one.
    look: axis -> the indices on it that show the answer. Axes: ``frames`` (T), ``cells`` (N),
      ``slots`` (frame * N + cell), ``layers`` (from the lowest), ``branches`` (that of the frames,
      that of the regions).
  """

  position: int
  word: str
  look: Mapping[str, Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Clip:
  """One clip: its caption, the answers in it, and features by stream."""

  caption: str
  answers: tuple[Answer, ...]
  features: Mapping[str, np.ndarray]


Group = Callable[[int, np.random.Generator], Iterator[Clip]]


@dataclasses.dataclass(frozen=True)
class Probe:
  """A claim and the clips that try it.

  Attributes:
    claim: in words.
    chance: share of clips answered right by the best guess without the planted cue.
    kinds: of the streams, by name.
    make: from the generator of the prototypes to a function (i, generator) -> the clips of group
      i: one, or twins that belong into the same split.
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


def _says(caption: str, look: Mapping[str, Sequence[int]], *words: str) -> tuple[Answer, ...]:
  """The answers of a caption in which each of the words stands once, all seen in one place."""
  return tuple(Answer(caption.split().index(word), word, look) for word in words)


def _frames_of(cells: np.ndarray) -> np.ndarray:
  """Frame features (T, D): the mean over the cells of a grid (T, rows, columns, D)."""
  return cells.mean(axis=(1, 2))


# ------------------------------------------------------------------------------ temporal order


def _order(fixed: np.random.Generator) -> Group:
  """Two things one after the other, or one light that changes: twins are each other reversed."""
  *things, light = prototypes(fixed, len(THINGS) + 1)
  pairs = list(itertools.combinations(range(len(THINGS)), 2))
  T = 8

  def group(i, rng):
    cells, cell = _noise(rng, T, 2, 2, CHANNELS), rng.integers(4)
    at = (slice(None), *divmod(cell, 2))  # all frames of the cell
    if i % 2:
      cells[at] += np.linspace(0, 2, T)[:, None] * light
      template, told = 'the light {}', [['rises'], ['falls']]
    else:
      pair = pairs[i // 2 % len(pairs)]
      for begin, thing in zip(2 * np.sort(rng.choice(T // 2, 2, replace=False)), pair):
        cells[at][begin : begin + 2] += things[thing]
      names = [THINGS[thing] for thing in pair]
      template, told = 'a {} and then a {}', [names, names[::-1]]
    for words, shown in zip(told, (cells, cells[::-1])):
      caption = template.format(*words)
      answers = _says(caption, {'cells': [int(cell)]}, *words)
      yield Clip(caption, answers, {'image': _frames_of(shown), 'cells': shown})

  return group


# ------------------------------------------------------------------------------ a small object


def _object(fixed: np.random.Generator) -> Group:
  """Four things in one frame, each in a cell of its own, one of them marked: that one is here.

  The mark is strong, the things are faint: the mean of the frame tells that something is marked,
  but not what, since all four are in it. Of five clips one has no mark.
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
    answers = _says(caption, look, word)
    yield Clip(caption, answers, {'image': _frames_of(cells), 'cells': cells})

  return group


# ------------------------------------------------------------------------------ an event


EVENT_CLIP = 16  # frames


def _event(fixed: np.random.Generator) -> Group:
  """Two things one after the other in a short event; before and after it, scenes of no matter."""
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
      _says(caption, look, THINGS[first], THINGS[second]),
      {'image': _frames_of(cells), 'cells': cells},
    )

  return group


# ------------------------------------------------------------------------------ layers

# Frames, rows and columns to one of pool5. In a C3D network it is 8, 4, 2 and 1: 20 times the work.
LAYERS = {'pool2': 4, 'pool3': 3, 'pool4': 2, 'pool5': 1}


def _layers(fixed: np.random.Generator) -> Group:
  """A texture that only the lowest layer shows, a thing that only the highest one does."""
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
      *_says(caption, {'layers': [0]}, TEXTURES[texture]),
      *_says(caption, {'layers': [len(LAYERS) - 1]}, THINGS[thing]),
    )
    yield Clip(caption, answers, features)

  return group


# ------------------------------------------------------------------------------ key frame, region


HELD = THINGS[:3]  # what may be held


def _key(fixed: np.random.Generator) -> Group:
  """What is held in the event's frames: the thing in the one marked region of each.

  A unit is three frames, of which the middle one has regions: each thing twice, faintly, and
  nothing in the rest, in random places. In the units that the frames mark as the event one of the
  things is marked as held, in one of four clips none.
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
    yield Clip(caption, _says(caption, look, word), {**streams, 'objects': objects})

  return group


# ------------------------------------------------------------------------------ two branches


def _fusion(fixed: np.random.Generator) -> Group:
  """One half of the clips shows its thing to the frames alone, the other to the regions alone."""
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
    yield Clip(caption, _says(caption, look, THINGS[thing]), features)

  return group


# ------------------------------------------------------------------------------ all of them

_GRIDS = {'image': 'sequence', 'cells': 'grid'}

PROBES: Mapping[str, Probe] = {
  'order': Probe('temporal order is seen', 1 / 2, _GRIDS, _order),
  'object': Probe(
    'a small object in one cell of one frame is found',
    2 / 5,  # that nothing is marked shows in the mean; of the rest one of four
    _GRIDS,
    _object,
  ),
  'event': Probe('the key frame falls inside the event', 1 / 2, _GRIDS, _event),
  'layers': Probe(
    'each class of words looks at the layer that shows it',
    1 / 4,  # of a model that sees one of both layers
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
    5 / 8,  # of one branch: its half, and one of four in the other
    {'image': 'sequence', 'objects': 'regions', 'scene': 'vector'},
    _fusion,
  ),
}


def clips(name: str, seed: int, sizes: Mapping[str, int] = SIZES) -> dict[str, list[Clip]]:
  """The clips of a probe by split; they follow from the arguments alone.

  Raises:
    DataError: an unknown probe.
  """
  if name not in PROBES:
    raise DataError(f'unknown probe {name!r}; known: {", ".join(PROBES)}')
  number = list(PROBES).index(name)
  group = PROBES[name].make(np.random.default_rng([seed, number]))
  made = {}
  for part, (split, size) in enumerate(sizes.items(), 1):
    rng = np.random.default_rng([seed, number, part])
    endless = itertools.chain.from_iterable(group(i, rng) for i in itertools.count())
    made[split] = list(itertools.islice(endless, size))
  return made
