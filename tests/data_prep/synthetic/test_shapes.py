"""Clips of shapes: splits, and captions that can be parsed."""

import collections
import itertools

import numpy as np
import pytest

from configs import quickstart
from data_prep.synthetic import shapes
from data_prep.synthetic.shapes import Clip


def combination(clip: Clip):
  return tuple(getattr(clip, name) for name in shapes.ATTRIBUTES)


def clip(**facts) -> Clip:
  plain = {
    'video_id': 'x',
    'split': 'train',
    'colour': 'red',
    'shape': 'square',
    'action': 'slides',
    'direction': 'right',
    'order': '',
    'seed': 0,
  }
  return Clip(**{**plain, **facts})


def every_combination():
  return itertools.product(shapes.COLOURS, shapes.SHAPES, shapes.ACTIONS, shapes.DIRECTIONS)


@pytest.mark.parametrize('videos', [10, 61, 600, 3000])
def test_test_split_holds_unseen_combinations(videos):
  clips = shapes.plan(videos)
  assert len({c.video_id for c in clips}) == videos
  counts = collections.Counter(c.split for c in clips)
  assert counts['test'] == round(0.2 * videos)
  assert counts['val'] == round(0.1 * videos)
  seen = {combination(c) for c in clips if c.split != 'test'}
  unseen = {combination(c) for c in clips if c.split == 'test'}
  assert not seen & unseen


def test_every_fact_is_frequent_in_training():
  clips = shapes.plan(600)
  for split, least in (('train', 30), ('test', 5)):
    for name in (*shapes.ATTRIBUTES, 'order'):
      counts = collections.Counter(getattr(c, name) for c in clips if c.split == split)
      values = {
        'colour': shapes.COLOURS,
        'shape': shapes.SHAPES,
        'action': shapes.ACTIONS,
        'direction': shapes.DIRECTIONS,
        'order': shapes.ORDERS,
      }[name]
      assert set(counts) == set(values)
      assert min(counts.values()) >= least, (split, name)


def test_plan_follows_from_the_seed():
  assert shapes.plan(50, seed=1) == shapes.plan(50, seed=1)
  assert shapes.plan(50, seed=1) != shapes.plan(50, seed=2)
  with pytest.raises(ValueError, match='at least 10'):
    shapes.plan(9)


def test_captions_are_complete_and_can_be_parsed():
  longest = quickstart.get_config().data.max_words
  wording = set()
  for i, (facts, order) in enumerate(itertools.product(every_combination(), shapes.ORDERS)):
    clip_facts = dict(zip(shapes.ATTRIBUTES, facts, strict=True), order=order)
    captions = shapes.captions(clip(video_id=f'x{i}', **clip_facts))
    assert len(set(captions)) == 5
    for caption in captions:
      assert shapes.named(caption) == clip_facts, caption
      assert len(caption.split()) <= longest  # none is cut in training
    wording |= {word for caption in captions for word in caption.split()}
  assert 50 < len(wording) < 100


def test_named_is_strict():
  nothing = dict.fromkeys(shapes.ATTRIBUTES) | {'order': ''}
  assert shapes.named('') == nothing
  assert shapes.named('a man is cooking') == nothing
  assert shapes.named('A red Square.') == nothing | {'colour': 'red', 'shape': 'square'}
  assert shapes.named('a red box or a red square')['shape'] == 'square'
  assert shapes.named('a red square and a blue square')['colour'] is None
  assert shapes.named('it moves left')['action'] == 'slides'
  assert shapes.named('it is moving up while spinning')['action'] == 'spins'
  assert shapes.named('it slides and spins')['action'] is None
  assert shapes.named('it goes left and right')['direction'] is None
  assert shapes.named('a predator growls upstairs') == nothing
  assert shapes.named('it waits')['order'] == 'waits first'


@pytest.mark.parametrize('order', shapes.ORDERS)
@pytest.mark.parametrize('shape', ['square', 'star'])
def test_number_of_captions_is_exact(shape, order):
  shape_clip = clip(shape=shape, order=order)
  most = shapes.most_captions(shape_clip)
  assert most == (40 if not order else 24) // (1 if shape == 'square' else 2)
  assert len(set(shapes.captions(shape_clip, most))) == most
  with pytest.raises(ValueError, match=f'{most + 1} captions of x: .*{most}'):
    shapes.captions(shape_clip, most + 1)


def seen(image: np.ndarray) -> tuple[float, float, float]:
  """Middle (x, y, in pixels) and size of what is not gray; size 0 where there is nothing."""
  coloured = np.ptp(image.astype(int), axis=-1) > 60
  if not coloured.any():
    return 0.0, 0.0, 0.0
  y, x = np.nonzero(coloured)
  return x.mean(), y.mean(), coloured.sum() ** 0.5
