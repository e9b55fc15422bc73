"""Clips of moving shapes: what happens in each clip, and its captions.

A clip shows one shape of one colour that moves in one direction in one manner; in some clips it
also waits before it moves, or stops after. Captions come from templates with varied words;
``named`` parses a caption back into facts, so that an evaluation can count the facts that a
captioner got right. The test split has combinations of colour, shape, action and direction that no
other split has. Everything depends only on the seed.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping

import numpy as np

COLOURS: Mapping[str, tuple[int, int, int]] = {
  'red': (225, 40, 40),
  'green': (40, 190, 70),
  'blue': (50, 80, 240),
  'yellow': (240, 220, 40),
  'purple': (170, 60, 200),
  'white': (245, 245, 245),
}
SHAPES = ('circle', 'square', 'triangle', 'star', 'cross')
ACTIONS = ('slides', 'spins', 'grows', 'shrinks', 'blinks')
# Unit steps to the right and downwards.
DIRECTIONS: Mapping[str, tuple[int, int]] = {
  'left': (-1, 0),
  'right': (1, 0),
  'up': (0, -1),
  'down': (0, 1),
}
# Order of rest and movement; in most clips the shape moves all the time.
ORDERS = ('', 'waits first', 'stops last')

ATTRIBUTES = ('colour', 'shape', 'action', 'direction')

_SPLIT_SHARES = {'val': 0.1, 'test': 0.2}

# Words for each fact, the most common first; verbs as (it) slides, (is) sliding.
_SHAPE_WORDS = {
  'circle': ('circle', 'disc'),
  'square': ('square', 'box'),
  'triangle': ('triangle',),
  'star': ('star',),
  'cross': ('cross', 'plus'),
}
_VERBS = {
  'slides': (('slides', 'sliding'), ('moves', 'moving')),
  'spins': (('spins', 'spinning'), ('rotates', 'rotating')),
  'grows': (('grows', 'growing'), ('expands', 'expanding')),
  'shrinks': (('shrinks', 'shrinking'), ('dwindles', 'dwindling')),
  'blinks': (('blinks', 'blinking'), ('flashes', 'flashing')),
}
_COURSES = {
  'left': ('to the left', 'leftwards'),
  'right': ('to the right', 'rightwards'),
  'up': ('to the top', 'upwards'),
  'down': ('to the bottom', 'downwards'),
}
_MOVING = {'moves', 'moving', 'move'}  # fit any action; without another verb they mean sliding

_TEMPLATES = {
  '': (
    'a {colour} {shape} {verb} {course}',
    'a {colour} {shape} is {ing} {course}',
    'there is a {colour} {shape} {ing} {course}',
    'the {shape} is {colour} and it {verb} {course}',
    'a {colour} {shape} {verb} {course} over a gray background',
  ),
  'waits first': (
    'first a {colour} {shape} waits then it {verb} {course}',
    'after a pause a {colour} {shape} {verb} {course}',
    'a {colour} {shape} {verb} {course} after it waits',
  ),
  'stops last': (
    'first a {colour} {shape} {verb} {course} then it stops',
    'a {colour} {shape} {verb} {course} and then stops',
    'a {colour} {shape} {verb} {course} until it stops',
  ),
}


@dataclasses.dataclass(frozen=True)
class Clip:
  """What happens in one clip; ``seed`` sets the details (places, background, pace)."""

  video_id: str
  split: str
  colour: str
  shape: str
  action: str
  direction: str
  order: str
  seed: int


def _words_of_facts() -> dict[str, tuple[str, str]]:
  """Word -> (attribute, value)."""
  words = {word: ('colour', word) for word in COLOURS}
  words |= {word: ('shape', shape) for shape, group in _SHAPE_WORDS.items() for word in group}
  for action, verbs in _VERBS.items():
    for word in itertools.chain(*verbs):
      if word not in _MOVING:
        words[word] = ('action', action)
  for direction, courses in _COURSES.items():
    for course in courses:
      words[course.split()[-1]] = ('direction', direction)
  for order, group in (
    ('waits first', ('waits', 'pause')),
    ('stops last', ('stops',)),
  ):
    words |= dict.fromkeys(group, ('order', order))
  return words


_FACTS = _words_of_facts()


def named(caption: str) -> dict[str, str | None]:
  """The facts in a caption: attribute -> value, for the four attributes and ``order``.

  A value is None if the caption has none for the attribute, or several. ``moves`` alone means the
  action ``slides``; ``order`` is '' if the caption mentions neither waiting nor stopping.
  """
  values_of: dict[str, set[str]] = {attribute: set() for attribute in (*ATTRIBUTES, 'order')}
  words = re.findall('[a-z]+', caption.lower())
  for word in words:
    if word in _FACTS:
      attribute, value = _FACTS[word]
      values_of[attribute].add(value)
  if not values_of['action'] and _MOVING & set(words):
    values_of['action'].add('slides')
  if not values_of['order']:
    values_of['order'].add('')
  return {name: values.pop() if len(values) == 1 else None for name, values in values_of.items()}


def facts(clip: Clip) -> dict[str, str]:
  """The facts of a clip, as ``named`` returns them for a complete and correct caption."""
  return {name: getattr(clip, name) for name in (*ATTRIBUTES, 'order')}


def plan(videos: int, seed: int = 0) -> list[Clip]:
  """Plans what happens in the clips: about 70 % train, 10 % val and 20 % test.

  A fifth of all combinations of colour, shape, action and direction is reserved for the test split.
  Within a split, combinations repeat only after each was used once.

  Raises:
    ValueError: fewer than 10 videos.
  """
  if videos < 10:
    raise ValueError(f'{videos} videos: at least 10 are needed for three splits')
  generator = np.random.Generator(np.random.PCG64([seed, 0]))
  combinations = [
    (colour, shape, action, direction)
    for colour, shape, action, direction in itertools.product(COLOURS, SHAPES, ACTIONS, DIRECTIONS)
    if (shape, action) != ('circle', 'spins')  # it would not be visible
  ]
  shuffled = [combinations[i] for i in generator.permutation(len(combinations))]
  reserved = round(len(shuffled) * _SPLIT_SHARES['test'])
  counts = {name: round(videos * share) for name, share in _SPLIT_SHARES.items()}
  counts = {'train': videos - sum(counts.values()), **counts}
  seen, unseen = itertools.cycle(shuffled[reserved:]), itertools.cycle(shuffled[:reserved])
  clips: list[Clip] = []
  for split, count in counts.items():
    for _ in range(count):
      colour, shape, action, direction = next(unseen if split == 'test' else seen)
      order = ORDERS[generator.choice(3, p=(0.8, 0.1, 0.1))]
      name = f'shapes{len(clips):05d}'
      clips.append(Clip(name, split, colour, shape, action, direction, order, seed))
  return clips


def most_captions(clip: Clip) -> int:
  """The number of different captions of a clip."""
  words = (_SHAPE_WORDS[clip.shape], _VERBS[clip.action], _COURSES[clip.direction])
  return len(_TEMPLATES[clip.order]) * math.prod(map(len, words))


def captions(clip: Clip, count: int = 5) -> list[str]:
  """Makes ``count`` different captions of a clip, all of them correct and complete.

  Raises:
    ValueError: a clip has fewer captions.
  """
  if count > (most := most_captions(clip)):
    raise ValueError(f'{count} captions of {clip.video_id}: there are {most} different ones')
  generator = np.random.Generator(np.random.PCG64([clip.seed, 1, *clip.video_id.encode()]))

  def pick(choices):
    # The most common word three times in four, else another one.
    common = len(choices) == 1 or generator.random() < 0.75
    return choices[0 if common else generator.integers(1, len(choices))]

  templates = _TEMPLATES[clip.order]
  result: list[str] = []
  while len(result) < count:
    for i in generator.permutation(len(templates)):
      verb, ing = pick(_VERBS[clip.action])
      caption = templates[i].format(
        colour=clip.colour,
        shape=pick(_SHAPE_WORDS[clip.shape]),
        verb=verb,
        ing=ing,
        course=pick(_COURSES[clip.direction]),
      )
      if caption not in result and len(result) < count:
        result.append(caption)
  return result
