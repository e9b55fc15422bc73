"""Traced settings leave the same words as fixed ones, by one compiled program."""

import itertools

import jax
import numpy as np
import pytest

from vidcap_jax.decoding import traced_sampling
from vidcap_jax.decoding.traced_sampling import TracedSampling
from vidcap_jax.decoding.unroll import Sampling, filter_logits


@pytest.fixture(scope='module')
def logits():
  """Words with different, equal and impossible logits."""
  rng = np.random.default_rng(0)
  values = rng.normal(size=(4, 12)).astype(np.float32) * 3
  values[1, ::2] = values[1, 0]
  values[2, 3:] = -np.inf
  values[3] = 0
  return values


def test_the_same_words_remain_as_by_fixed_settings(logits):
  compiled = jax.jit(traced_sampling.filter_logits)
  for T, k, p in itertools.product((0.5, 1.0, 3.0), (0, 1, 5, 12, 99), (0.1, 0.7, 1.0)):
    expected = filter_logits(logits, Sampling(T, k, p))
    got = compiled(logits, TracedSampling(*map(np.float32, (T, k, p))))
    np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=f'{T} {k} {p}')
  assert compiled._cache_size() == 1


def test_unroll_takes_traced_settings(logits):
  sampling = TracedSampling(*map(np.float32, (0.7, 3, 0.9)))
  np.testing.assert_array_equal(
    filter_logits(logits, sampling), traced_sampling.filter_logits(logits, sampling)
  )
