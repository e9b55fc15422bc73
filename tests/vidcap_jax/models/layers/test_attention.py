import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.x64 import enable_x64
from vidcap_jax.models.layers.attention import (
  AdditiveAttention,
  at_least_float32,
  masked_mean,
  weigh,
  wide,
)

pytestmark = pytest.mark.usefixtures('strict_dtypes')

SCORES = arrays.arrays(np.float32, (2, 3, 4), elements=st.floats(-200, 200, width=32))
MASKS = arrays.arrays(bool, (2, 1, 4))
weigh_x = jax.jit(functools.partial(weigh, 'x'))
GARBAGE = [np.nan, np.inf, -np.inf, 3e38]


@settings(max_examples=60, deadline=None)
@given(SCORES, MASKS, st.sampled_from(GARBAGE))
def test_weights_are_the_softmax_of_what_is_valid(scores, mask, garbage):
  whole = np.broadcast_to(mask, scores.shape)
  dirty = np.where(whole, scores, np.float32(garbage))
  weights = np.asarray(weigh_x(dirty, mask))
  wide_scores = np.where(whole, scores, -np.inf).astype(np.float64)
  odds = np.exp(wide_scores - np.where(whole, scores, -1e9).max(axis=-1, keepdims=True))
  total = odds.sum(axis=-1, keepdims=True)
  np.testing.assert_allclose(weights, np.divide(odds, total, where=total > 0, out=odds), atol=1e-6)
  assert (weights[~whole] == 0).all()
  sums = weights.sum(axis=-1)
  np.testing.assert_allclose(sums, np.broadcast_to(mask.any(-1), sums.shape), atol=1e-5)


gradient = jax.jit(jax.grad(lambda s, mask, weight: (weigh('x', s, mask) * weight).sum()))


@pytest.mark.parametrize('garbage', GARBAGE)
def test_gradients_are_finite_and_zero_at_masked_slots(garbage):
  scores = np.array([[1, 2, garbage], [garbage] * 3, [3, -1, 0.5]], np.float32)
  mask = np.array([[True, True, False], [False] * 3, [True] * 3])
  weight = np.array([[1, 2, 3]], np.float32)
  grads = np.asarray(gradient(scores, mask, weight))
  assert np.isfinite(grads).all()
  assert (grads[~mask] == 0).all()
  p = np.exp(scores[2]) / np.exp(scores[2]).sum()
  np.testing.assert_allclose(grads[2], p * (weight[0] - p @ weight[0]), rtol=1e-5)


def test_bfloat16_scores_are_weighed_in_float32():
  weights = weigh('x', jnp.zeros((1, 300), jnp.bfloat16), jnp.ones((1, 300), bool))
  assert weights.dtype == jnp.float32
  np.testing.assert_allclose(weights, 1 / 300, rtol=1e-6)


def test_edit_changes_the_weights_before_use():
  seen = []

  def edit(name, weights, mask):
    seen.append((name, weights.shape, mask.shape))
    return weights[..., ::-1]

  scores, mask = jnp.array([[[1.0, 2.0, 3.0]]]), jnp.ones((1, 1, 3), bool)
  edited = weigh('spatial', scores, mask, edit)
  assert seen == [('spatial', (1, 1, 3), (1, 1, 3))]
  np.testing.assert_allclose(edited, jax.nn.softmax(scores)[..., ::-1], rtol=1e-6)


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_masked_mean(dtype):
  x = jnp.array([[[1, 2], [3, 6]], [[5, 5], [np.nan, np.inf]], [[np.nan] * 2] * 2], dtype)
  mask = jnp.array([[True, True], [True, False], [False, False]])
  out = jax.jit(masked_mean)(x, mask)
  assert out.dtype == dtype
  np.testing.assert_array_equal(out, [[2, 4], [5, 5], [0, 0]])
  grads = jax.jit(jax.grad(lambda x: masked_mean(x, mask).astype(jnp.float32).sum()))(x)
  np.testing.assert_array_equal(grads[:, :, 0], [[0.5, 0.5], [1, 0], [0, 0]])


def test_wide_dtypes():
  assert wide(jnp.dtype(jnp.bfloat16)) == wide(jnp.dtype(jnp.float16)) == jnp.float32
  assert at_least_float32(jnp.zeros(2, jnp.bfloat16)).dtype == jnp.float32
  with enable_x64(True):
    assert at_least_float32(jnp.zeros(2, jnp.float64)).dtype == jnp.float64


def test_additive_attention():
  rng = np.random.default_rng(0)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
  B, S, N, D, H, A = 3, 2, 5, 4, 6, 3
  query, values = draw(B, S, H), draw(B, N, D)
  mask = np.array([[True] * 5, [True, False, True, False, False], [False] * 5])
  values = np.where(mask[..., None], values, np.float32(np.nan))
  params = {'key': {'kernel': draw(D, A)}, 'query': {'kernel': draw(H, A)}, 'score': draw(A)}

  @jax.jit
  def run(query, values, mask):
    attend = AdditiveAttention('temporal', A).bind({'params': params})
    return attend(query, attend.keys(values), values, mask)

  context, weights = run(query, values, mask)

  clean = np.where(mask[..., None], values, 0).astype(np.float64)
  keys = clean @ params['key']['kernel']
  queries = np.asarray(query, np.float64) @ params['query']['kernel']
  scores = np.tanh(keys[:, None] + queries[:, :, None]) @ params['score']
  odds = np.exp(scores) * mask[:, None]
  expected = odds / np.maximum(odds.sum(-1, keepdims=True), 1e-30)
  np.testing.assert_allclose(weights, expected, atol=1e-5)
  np.testing.assert_allclose(context, np.einsum('bsn,bnd->bsd', expected, clean), atol=1e-5)
  assert (np.asarray(context[2]) == 0).all()  # nothing to attend to


def test_weights_for_keys_of_any_axes():
  """Shared keys weigh as in a call; rows' own keys and several sets each on their own."""
  rng = np.random.default_rng(0)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
  B, S, T, N, D, H, A = 2, 3, 4, 5, 4, 6, 3
  query, values = draw(B, S, H), draw(B, T * N, D)
  mask = rng.random((B, T * N)) < 0.7
  params = {'key': {'kernel': draw(D, A)}, 'query': {'kernel': draw(H, A)}, 'score': draw(A)}
  cold = np.array([1.0, 0.1], np.float32)

  @jax.jit
  def run(query, values, mask):
    attend = AdditiveAttention('temporal', A).bind({'params': params})
    keys = attend.keys(values)  # (B, T N, A)
    sets, set_mask = keys.reshape(B, 1, T, N, A), mask.reshape(B, 1, T, N)
    own = sets[:, 0, :S]  # set s for row s, (B, S, N, A)
    return {
      'call': attend(query, keys, values, mask)[1],
      'shared': attend.weights(query, keys[:, None], mask[:, None]),
      'sets': attend.weights(query, sets, set_mask),
      'own': attend.weights(query, own, set_mask[:, 0, :S]),
      'cold': attend.weights(query, keys[:, None], mask[:, None], cold),
    }

  got = {name: np.asarray(weights) for name, weights in run(query, values, mask).items()}
  np.testing.assert_allclose(got['shared'], got['call'], rtol=1e-5, atol=1e-7)
  sets = got['call'].reshape(B, S, T, N)
  total = sets.sum(axis=-1, keepdims=True)
  expected = sets / np.where(total > 0, total, 1)
  np.testing.assert_allclose(got['sets'], expected, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(got['own'], got['sets'][:, np.arange(S), np.arange(S)], rtol=1e-5)
  np.testing.assert_allclose(got['cold'][0], got['call'][0], rtol=1e-5)
  powers = got['call'][1].astype(np.float64) ** 10
  np.testing.assert_allclose(got['cold'][1], powers / powers.sum(-1, keepdims=True), atol=1e-4)
