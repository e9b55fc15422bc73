"""Which places of which frame are shown, and the heat on them."""

import numpy as np
import pytest

from tests.vidcap_jax.studies.explained import (
  EXPLAINED,
)
from vidcap_jax.studies import place_panels


def test_places_of_the_frame_with_the_largest_weight():
  by_name = EXPLAINED.attentions
  temporal = by_name['temporal'].weights
  for word, (place,) in enumerate(place_panels.strongest_places(by_name['ts_spatial'], by_name)):
    assert place.frame == temporal[word].argmax()
  for word, (place,) in enumerate(place_panels.strongest_places(by_name['all'], by_name)):
    frame = by_name['all'].weights[word].sum(1).argmax()
    assert place.frame == frame
    np.testing.assert_array_equal(place.weights, by_name['all'].weights[word, frame])
  for word, picks in enumerate(place_panels.strongest_places(by_name['spatial'], by_name)):
    assert [p.frame for p in picks] == by_name['keyframe'].weights[word].argmax(-1).tolist()
  assert place_panels.strongest_places(by_name['st_spatial'], by_name)[0][0].frame is None


def test_heat_is_where_the_weights_are():
  heat = place_panels.upsampled(np.array([[0.0, 0.0], [0.0, 1.0]]), 20, 40)
  assert heat.shape == (20, 40, 4)
  assert heat[:5, :10, 3].max() == 0
  assert heat[15:, 30:, 3].min() == heat[..., 3].max() == pytest.approx(0.75)
