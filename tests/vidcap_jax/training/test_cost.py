"""Costs of programs against counts by hand and against programs without loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.training.cost import cost_of, cost_of_traced

ROWS, SIZE = 16, 32  # large enough that counting rounds costs next to nothing
PRODUCT = 2 * ROWS * SIZE * SIZE  # operations of one matrix product


def nested(x, w, unroll=1):
  """21 products, in a loop of 7 around one of 3."""

  def inner(c, _):
    return jnp.tanh(c @ w), None

  def outer(c, _):
    return jax.lax.scan(inner, c, None, length=3, unroll=unroll)[0], None

  return jax.lax.scan(outer, x, None, length=7, unroll=unroll)[0].sum()


def gradient(x, w, **options):
  # Of both: what only the first input's would need is left out of a straight program.
  return jax.grad(functools.partial(nested, **options), argnums=(0, 1))(x, w)


X = jax.ShapeDtypeStruct((ROWS, SIZE), jnp.float32)
W = jax.ShapeDtypeStruct((SIZE, SIZE), jnp.float32)


def test_loops_are_counted_as_often_as_they_run():
  assert cost_of(nested, X, W).flops == pytest.approx(21 * PRODUCT, rel=0.01)


@pytest.mark.parametrize('unroll', [1, 2, 3])
def test_a_program_with_loops_costs_what_it_does_without(unroll):
  straight = jax.jit(functools.partial(gradient, unroll=True)).lower(X, W).cost_analysis()
  assert straight['flops'] > 3 * 21 * PRODUCT
  found = cost_of(functools.partial(gradient, unroll=unroll), X, W)
  # From jax 0.12 on the straight program leaves out adding to the zeros that each of the eight
  # loops begins its sums with. One round more or less would be a product: several times as much.
  zeros = 8 * (SIZE * SIZE + ROWS * SIZE)
  assert zeros < PRODUCT / 2
  assert found.flops == pytest.approx(straight['flops'], abs=zeros + 0.001 * straight['flops'])


def test_loops_inside_other_operations_are_found():
  inside = jax.checkpoint(jax.jit(nested))
  assert cost_of(inside, X, W).flops == pytest.approx(21 * PRODUCT, rel=0.01)
  either = lambda x, w: jax.lax.cond(x.sum() > 0, nested, lambda x, w: x.sum(), x, w)  # noqa: E731
  assert cost_of(either, X, W).flops == pytest.approx(21 * PRODUCT, rel=0.01)


def test_bytes_of_a_product():
  product = cost_of(jnp.matmul, X, W)
  assert product.bytes == 4 * (2 * ROWS * SIZE + SIZE * SIZE)
  assert product.flops == PRODUCT


class _Uncounted:
  """A lowered program of a backend that counts nothing, as those of TPUs and GPUs."""

  def cost_analysis(self):
    return None


def test_a_program_of_another_backend_is_counted_on_the_cpu():
  traced = jax.jit(gradient).trace(X, W)
  counted = cost_of_traced(traced, traced.lower())
  assert counted.flops > 3 * 21 * PRODUCT
  assert cost_of_traced(traced, _Uncounted()) == counted


def test_constraints_on_shardings_cost_nothing():
  """They may name devices that are not there, so that they are left out of what is counted."""
  mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]), ('data',))
  sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data'))
  constrain = lambda x: jax.lax.with_sharding_constraint(x, sharding)  # noqa: E731
  product = lambda x, wrap: wrap(wrap(x) @ x)  # noqa: E731
  x = jnp.ones((64, 64))
  costs = [
    cost_of_traced(jax.jit(functools.partial(product, wrap=wrap)).trace(x)).flops
    for wrap in (constrain, lambda x: x)
  ]
  assert costs[0] == costs[1] == pytest.approx(2 * 64**3, rel=0.05)
