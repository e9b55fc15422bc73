"""Dropout keeps the expected value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.layers.dropout import drop, equal_masks

pytestmark = pytest.mark.usefixtures('strict_dtypes')


def test_dropout_keeps_the_expected_value():
  x = jnp.full((200, 500), 2.0)
  keep = jax.random.bernoulli(jax.random.key(0), 0.7, x.shape)
  out = np.asarray(jax.jit(drop, static_argnums=2)(x, keep, 0.3))
  np.testing.assert_allclose(np.unique(out), [0, 2 / 0.7], rtol=1e-6)
  assert abs(out.mean() - 2) < 0.05
  assert drop(x, None, 0.3) is x
  assert drop(x.astype(jnp.bfloat16), keep, 0.3).dtype == jnp.bfloat16


def test_equal_masks_differ_and_keep_their_share():
  masks = equal_masks(jax.random.key(0), 0.3, ('a', 'b'), (50, 200))
  assert {name: mask.shape for name, mask in masks.items()} == {'a': (50, 200), 'b': (50, 200)}
  for mask in masks.values():
    assert mask.dtype == bool
    assert abs(mask.mean() - 0.7) < 0.02
  assert abs((masks['a'] == masks['b']).mean() - 0.58) < 0.03  # 0.7 * 0.7 + 0.3 * 0.3
  assert equal_masks(jax.random.key(0), 0.0, ('a',), (3,)) == {}
