"""Choosing K of N: properties of the sampler (its values: tests/end_to_end/papers)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.layers.gumbel import argmax_top_k, top_k

pytestmark = pytest.mark.usefixtures('strict_dtypes')
TAU = 1e-4


def weights_of(*shape, seed=0):
  return jnp.asarray(np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1]), 'f4')


def pick(weights, mask=None, noise=None, picks=2, **options):
  mask = jnp.ones(weights.shape, bool) if mask is None else mask
  return top_k('keyframe', weights, mask, noise, picks=picks, **{'tau': TAU, **options})


def test_without_noise_the_largest_come_one_after_the_other():
  weights = weights_of(20, 6)
  order = np.argsort(-weights, axis=-1)[:, :3]
  for picks in (
    pick(weights, picks=3),
    argmax_top_k('keyframe', weights, jnp.ones(weights.shape, bool), picks=3),
  ):
    assert picks.shape == (20, 3, 6)
    np.testing.assert_array_equal(picks.argmax(-1), order)
    np.testing.assert_allclose(picks.max(-1), 1, rtol=1e-5)


def test_what_is_drawn_follows_the_weights():
  """The first pick of weight w comes with probability w, as the maximum of Gumbel noise does."""
  weights = jnp.tile(jnp.asarray([[0.5, 0.3, 0.15, 0.05]], jnp.float32), (4000, 1))
  noise = jax.random.gumbel(jax.random.key(0), (4000, 2, 4), jnp.float32)
  picks = pick(weights, noise=noise).argmax(-1)
  shares = np.bincount(picks[:, 0], minlength=4) / 4000
  np.testing.assert_allclose(shares, weights[0], atol=0.03)
  assert (picks[:, 0] != picks[:, 1]).all()  # a frame that has been picked is used up
  # The second pick: of those left, again by their weights.
  after_first = picks[picks[:, 0] == 0, 1]
  shares = np.bincount(after_first, minlength=4) / len(after_first)
  np.testing.assert_allclose(shares, [0, 0.6, 0.3, 0.1], atol=0.04)


@pytest.mark.parametrize('sampler', ['gumbel', 'argmax'])
def test_only_valid_slots_are_picked(sampler):
  """Also where fewer are valid than are picked; of one valid slot every pick is that slot."""
  weights = weights_of(5, 4)
  mask = jnp.arange(4)[None] < jnp.asarray([4, 3, 2, 1, 0])[:, None]
  if sampler == 'argmax':
    picks = argmax_top_k('keyframe', weights, mask, picks=3)
  else:
    noise = jax.random.gumbel(jax.random.key(1), (5, 3, 4), jnp.float32)
    picks = pick(weights, mask, noise, picks=3)
  assert (np.asarray(picks)[~np.broadcast_to(mask[:, None], picks.shape)] == 0).all()
  np.testing.assert_allclose(picks.sum(-1), [[1] * 3] * 4 + [[0] * 3], rtol=1e-5)
  np.testing.assert_allclose(picks[3, :, 0], 1, rtol=1e-5)


def test_argmax_takes_the_first_of_equals_and_gives_no_gradient():
  weights = jnp.full((1, 3), 1 / 3, jnp.float32)
  mask = jnp.ones((1, 3), bool)
  picks = argmax_top_k('keyframe', weights, mask, picks=2)
  np.testing.assert_array_equal(picks[0], [[1, 0, 0], [0, 1, 0]])
  slope = jax.grad(lambda w: argmax_top_k('keyframe', w, mask, picks=2)[..., 1].sum())(weights)
  np.testing.assert_array_equal(slope, 0)


def test_the_scale_cancels():
  weights, noise = weights_of(6, 5), jax.random.gumbel(jax.random.key(2), (6, 2, 5), jnp.float32)
  for tau in (TAU, 0.5):
    # The one power of two that changes no rounding.
    twice = pick(weights, noise=noise, tau=tau, scale=16.0)
    np.testing.assert_allclose(pick(weights, noise=noise, tau=tau, scale=8.0), twice, atol=1e-6)


def slopes(weights, noise, **options):
  """Gradient of what the picks select of fixed values, with respect to the weights."""
  values = jnp.asarray(np.random.default_rng(4).normal(size=weights.shape[-1]), jnp.float32)
  select = lambda w: (pick(w, noise=noise, **options) * values[None, None]).sum()  # noqa: E731
  return np.asarray(jax.jit(jax.grad(select))(weights))


def test_straight_through_keeps_the_picks_and_gives_a_gradient():
  weights, noise = weights_of(8, 5), jax.random.gumbel(jax.random.key(3), (8, 2, 5), jnp.float32)
  hard, through = pick(weights, noise=noise), pick(weights, noise=noise, backward_tau=0.5)
  np.testing.assert_array_equal(through, hard)
  assert np.median(np.abs(slopes(weights, noise))) < 1e-6
  assert (np.abs(slopes(weights, noise, backward_tau=0.5)).max(-1) > 1e-3).all()
  # Of a single pick it is the gradient of the softer distribution itself.
  np.testing.assert_allclose(
    slopes(weights, noise, picks=1, backward_tau=0.5),
    slopes(weights, noise, picks=1, tau=0.5),
    rtol=1e-4,
    atol=1e-6,
  )


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize('backward_tau', [0.0, 0.5])
def test_nothing_is_ever_nan(dtype, backward_tau):
  """One-hot, even, vanishing and absent weights, with and without noise."""
  tiny = np.finfo(np.float32).tiny
  weights = [[1, 0, 0], [1 / 3] * 3, [tiny, 1e-13, 0.3], [0, 0, 0], [0.5, 0.5, 0]]
  weights = jnp.asarray(weights, dtype)
  mask = jnp.asarray([[1, 1, 1]] * 3 + [[0, 0, 0], [1, 0, 0]], bool)
  noise = jax.random.gumbel(jax.random.key(5), (5, 3, 3), jnp.float32)

  def total(weights, noise):
    picks = pick(weights, mask, noise, picks=3, backward_tau=backward_tau)
    return (picks * jnp.arange(3, dtype=jnp.float32)[None, None]).sum(), picks

  for each in (noise, None):
    (_, picks), slope = jax.value_and_grad(total, has_aux=True)(weights, each)
    assert picks.dtype == jnp.float32
    assert np.isfinite(picks).all()
    assert np.isfinite(np.asarray(slope, np.float32)).all()
