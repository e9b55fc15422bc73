"""Tests of the axes of attention weights; that models declare theirs is a contract."""

import numpy as np
import pytest

from vidcap_jax.errors import ModelError
from vidcap_jax.models.attention_axes import AttentionAxes, places_of

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
  ],
)
def test_other_shapes_are_refused(axes, stored, places):
  with pytest.raises(ValueError, match=axes.axes[-1]):
    axes.shape(stored, places)


@pytest.mark.parametrize('wrong', [(('time',), 'image'), (('frames',),), (('branches',), 'image')])
def test_incomplete_declarations_are_refused(wrong):
  with pytest.raises(ModelError, match=wrong[0][0]):
    AttentionAxes(*wrong)


def test_a_sequence_has_one_place_a_frame():
  masks = {'image': np.ones((2, 5), bool), 'cells': np.ones((2, 5, 9), bool)}
  assert [places_of(masks, name) for name in ('image', 'cells', '')] == [1, 9, 1]
