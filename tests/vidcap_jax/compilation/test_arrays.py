"""The largest arrays of a program before it is compiled."""

import jax
import jax.numpy as jnp

from vidcap_jax.compilation.arrays import arrays_of


def test_results_by_size_inside_loops_too():
  def body(state, _):
    with jax.named_scope('attention'):
      wide = jnp.outer(state, jnp.ones(300, jnp.bfloat16))
    return wide.sum(axis=1), wide[:, 0]

  @jax.jit
  def run(state):
    last, _ = jax.lax.scan(body, state, None, length=3)
    return last + jnp.ones((1000, 40), jnp.float32).sum(axis=1)

  first, second, *_ = arrays_of(run.trace(jax.ShapeDtypeStruct((1000,), jnp.float32)))
  assert (first.bytes, first.shape) == (4 * 1000 * 300, 'float32[1000,300]')
  assert 'scan' in first.name
  assert 'attention' in first.name
  assert second.bytes <= first.bytes


def test_keys_of_random_numbers_have_no_size():
  run = jax.jit(lambda key: jax.random.uniform(jax.random.split(key)[0], (50,)))
  found = arrays_of(run.trace(jax.random.key(0)))
  assert found[0].bytes == 200
