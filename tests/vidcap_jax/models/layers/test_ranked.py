"""Poolings by rank and their loss, against sums by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.layers.ranked import POOLINGS, TemporalPool, rank_loss

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H, E, P, A = 11, 8, 6, 7, 5

B, T, N, D = 3, 4, 3, 4


@functools.cache
def pool(pooling, seed=0, margin=1.0):
  """(frames, mask) -> pooled, loss; the LSTM's parameters are the same for all poolings."""
  module = TemporalPool(pooling, margin)
  with jax.numpy_dtype_promotion('strict'):
    params = TemporalPool('lstm').init(
      jax.random.key(seed), jnp.zeros((1, 1, 1, P)), jnp.ones((1, 1), bool)
    )
  return jax.jit(lambda frames, mask: module.apply(params, frames, mask))


def frames_and_mask(seed=0):
  frames = np.random.default_rng(seed).normal(size=(B, 2, T, P)).astype(np.float32)
  mask = np.arange(T)[None] < np.array([[T], [2], [1]])
  return np.where(mask[:, None, :, None], frames, 0).astype(np.float32), mask


def test_poolings():
  frames, mask = frames_and_mask()
  x, loss = ({p: np.asarray(pool(p)(frames, mask)[i]) for p in POOLINGS} for i in (0, 1))
  for row, count in enumerate((T, 2, 1)):
    np.testing.assert_allclose(
      x['mean'][row], frames[row, :, :count].mean(axis=1), rtol=1e-5, atol=1e-6
    )
  np.testing.assert_array_equal(x['ranked'], x['lstm'])
  np.testing.assert_array_equal(x['mean_ranked'], x['mean'] + x['lstm'])
  np.testing.assert_array_equal(x['mean_lstm'], x['mean'] + x['lstm'])
  for pooling in ('mean', 'lstm', 'mean_lstm'):
    np.testing.assert_array_equal(loss[pooling], 0)
  # The loss is of the LSTM's output, before the mean is added.
  np.testing.assert_array_equal(loss['ranked'], loss['mean_ranked'])
  assert (loss['ranked'][:2] > 0).all()
  np.testing.assert_array_equal(loss['ranked'][2], 0)  # one frame has no order

  backwards, whole = frames[:1, :, ::-1], mask[:1]
  np.testing.assert_allclose(pool('mean')(backwards, whole)[0], x['mean'][:1], rtol=1e-5, atol=1e-6)
  assert np.abs(pool('lstm')(backwards, whole)[0] - x['lstm'][:1]).max() > 1e-3


def test_padding_has_no_part_in_the_rank_loss():
  frames, mask = frames_and_mask()
  other = frames_and_mask(seed=1)[0]
  dirty = np.where(mask[:, None, :, None], frames, 100 * other).astype(np.float32)
  x, loss = pool('ranked')(frames, mask)
  x_dirty, loss_dirty = pool('ranked')(dirty, mask)
  np.testing.assert_array_equal(x_dirty, x)
  np.testing.assert_array_equal(loss_dirty, loss)
  short = pool('ranked')(frames[1:2, :, :2], mask[1:2, :2])
  np.testing.assert_allclose(short[1], loss[1:2], rtol=1e-5)


def test_rank_loss_by_hand():
  """Frames whose projections rise by more than the margin cost little, falling ones much."""
  frames = jnp.asarray([[[[0.0, 9], [2, 9], [5, 9]]]], jnp.float32)  # (1, 1, 3, 2)
  mask = jnp.ones((1, 3), bool)
  softplus = lambda z: np.log1p(np.exp(z))  # noqa: E731
  for direction, expected in ((1.0, (-1, -2)), (-1.0, (3, 4))):
    summary = jnp.asarray([[[direction, 0.0]]])
    loss = rank_loss(summary, frames, mask, 1.0)
    np.testing.assert_allclose(loss, [[sum(softplus(z) for z in expected)]], rtol=1e-6)
  # A gap in the mask is no pair.
  gap = rank_loss(jnp.asarray([[[1.0, 0.0]]]), frames, jnp.asarray([[True, False, True]]), 1.0)
  np.testing.assert_array_equal(gap, [[0]])
