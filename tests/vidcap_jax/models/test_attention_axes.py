"""Tests of the axes of attention weights; that models declare theirs is a contract."""

import numpy as np
import pytest

from vidcap_jax.errors import ModelError
from vidcap_jax.models.attention_axes import (
  Attention,
  AttentionAxes,
  entries_of,
  places_of,
  streams_of,
)

BOTH = AttentionAxes(('frames', 'places'), 'cells')


def test_frames_and_places_may_be_one_axis_or_two():
  assert BOTH.shape((12,), 4) == BOTH.shape((3, 4), 4) == (3, 4)
  picks = AttentionAxes(('picks', 'frames', 'places'), 'cells')
  assert picks.shape((2, 12), 4) == (2, 3, 4)


@pytest.mark.parametrize(
  ('axes', 'stored', 'places'),
  [
    (BOTH, (13,), 4),
    (BOTH, (3, 5), 4),
    (AttentionAxes(('places',), 'cells'), (5,), 4),
    (AttentionAxes(('layers',), names=('a', 'b')), (3,), 1),
    (AttentionAxes(('words',)), (3, 2), 1),
    (AttentionAxes(('entries', 'heads'), names=('a', 'b'), streams=('x',)), (5, 3), 1),
  ],
)
def test_other_shapes_are_refused(axes, stored, places):
  with pytest.raises(ValueError, match=axes.axes[-1]):
    axes.shape(stored, places)


@pytest.mark.parametrize(
  'wrong',
  [
    (('time',), 'image'),
    (('frames',),),
    (('branches',), 'image'),
    (('heads',), 'image'),
    (('entries',), 'image'),
  ],
)
def test_incomplete_declarations_are_refused(wrong):
  with pytest.raises(ModelError, match=wrong[0][0]):
    AttentionAxes(*wrong)


def test_a_sequence_has_one_place_a_frame():
  masks = {'image': np.ones((2, 5), bool), 'cells': np.ones((2, 5, 9), bool)}
  assert [places_of(masks, name) for name in ('image', 'cells', '')] == [1, 9, 1]


def test_the_entries_of_streams_one_after_another():
  shapes = {'image': (2, 5), 'cells': (2, 5, 9), 'audio': (2,)}
  masks = {name: np.ones(shape, bool) for name, shape in shapes.items()}
  assert {name: entries_of(masks, name) for name in masks} == {'image': 5, 'cells': 45, 'audio': 1}
  axes = AttentionAxes(('entries',), streams=('audio', 'cells', 'image'))
  assert axes.shape((51,), 1, 51) == (51,)
  with pytest.raises(ValueError, match="'entries': 51"):
    axes.shape((50,), 1, 51)
  assert list(streams_of(axes, masks)) == [
    (AttentionAxes((), 'audio'), slice(0, 1)),
    (AttentionAxes(('frames', 'places'), 'cells'), slice(1, 46)),
    (AttentionAxes(('frames',), 'image'), slice(46, 51)),
  ]


def test_weights_are_shown_by_their_axes():
  attention = Attention('spatial', BOTH, np.zeros((5, 3, 49)), np.arange(3), (7, 7))
  assert repr(attention) == (
    "Attention('spatial', words x frames x places of cells, weights (5, 3, 49))"
  )
