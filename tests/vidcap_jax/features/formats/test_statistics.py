"""Moments of features."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vidcap_jax.data.schema import Stream
from vidcap_jax.features.formats.statistics import Moments


@settings(max_examples=40)
@given(
  lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6),
  offset=st.sampled_from([0.0, 1e3, 1e6]),
  seed=st.integers(0, 99),
)
def test_moments_equal_those_of_all_rows_together(lengths, offset, seed):
  rng = np.random.default_rng(seed)
  stream = Stream('image', 'sequence', (None, 4), 'float32')
  arrays = [rng.normal(offset, 2, size=(n, 4)) for n in lengths]
  moments = Moments.zeros(4)
  for array in arrays:
    moments = moments.merge(Moments.from_array(array, stream))
  rows = np.concatenate(arrays)
  assert moments.count == len(rows)
  if len(rows):
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.std, rows.std(0), rtol=1e-6, atol=1e-9)
  assert Moments.from_dict(json.loads(json.dumps(moments.to_dict()))).std.tolist() == (
    moments.std.tolist()
  )


def test_moments_ignore_absent_regions():
  stream = Stream('boxes', 'regions', (None, None, 2))
  array = np.array([[[1, 3], [0, 0]], [[3, 0], [0, 0]]], np.float16)
  moments = Moments.from_array(array, stream)
  assert (moments.count, moments.mean.tolist(), moments.std.tolist()) == (2, [2, 1.5], [1, 1.5])
