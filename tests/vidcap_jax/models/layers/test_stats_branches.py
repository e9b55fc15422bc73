"""The branches of STaTS."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.vidcap_jax.models.test_stats import grid
from vidcap_jax.models.layers.stats_branches import Branches

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H, E, P, A = 11, 8, 6, 7, 5

B, T, N, D = 3, 4, 3, 4


def make_branches(kind, x, mask, seed=0, **changes):
  """Branches with parameters, as a function of a method's name and arguments; and a view."""
  module = Branches(**{'variant': 'stats', 'pooling': 'mean_ranked', **changes}, kind=kind,
                    project=P, attention=A)  # fmt: skip
  temperature = jnp.full(B, 0.5)

  def touch(module):
    return module(queries(), module.view(x, mask), temperature, train=True)

  params = jax.jit(lambda key: module.init(key, method=touch)['params'])(jax.random.key(seed))

  def call(method, *args, **train):
    return module.apply({'params': params}, *args, method=method, **train)

  call = jax.jit(call, static_argnums=0, static_argnames='train')
  return call, params, call('view', x, mask)


def queries(S=2):
  return np.random.default_rng(9).normal(size=(B, S, H)).astype(np.float32)


def test_cells_keep_their_weight_in_all_frames_of_a_grid_but_regions_do_not():
  x, mask = grid(frames=(T, T, 2))
  for kind, shape in (('grid', (B, 2, N)), ('regions', (B, 2, T, N))):
    call, _, view = make_branches(kind, x, mask)
    frames, weights = call('attended_frames', queries(), view)
    assert weights.shape == shape
    assert frames.shape == (B, 2, T, P)
    total = np.asarray(weights.sum(axis=-1))
    np.testing.assert_allclose(total[:2], 1, rtol=1e-6)
  np.testing.assert_array_equal(total[2, :, 2:], 0)  # frames that are not there
  assert np.abs(np.diff(weights[:2], axis=2)).max() > 1e-3
  swapped = call('view', x[:, ::-1], mask[:, ::-1])
  back = call('attended_frames', queries(), swapped)[1]
  np.testing.assert_allclose(back[:2, :, ::-1], weights[:2], rtol=1e-5)


def test_a_sequence_is_a_grid_of_one_cell():
  """Its pooling is taken once for all words, with the same result."""
  x, mask = grid()
  one, valid = x[:, :, :1], mask[:, :, :1]
  of_grid, params, view = make_branches('grid', one, valid)
  x_grid, loss_grid, _ = of_grid('__call__', queries(), view, jnp.full(B, 0.5), train=True)
  spatial = ('st_spatial', 'ts_spatial')
  params = {name: value for name, value in params.items() if name not in spatial}
  module = Branches('sequence', 'stats', 'mean_ranked', P, A)
  run = lambda m: m(queries(), m.view(one[:, :, 0], valid[:, :, 0]), jnp.full(B, 0.5), train=True)  # noqa: E731
  x, loss, attention = jax.jit(lambda p: module.apply({'params': p}, method=run))(params)
  np.testing.assert_allclose(x, x_grid, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(loss, loss_grid, rtol=1e-5)
  assert set(attention) == {'ts_temporal', 'branch'}


def test_hard_choices_have_the_soft_one_s_gradient():
  x, mask = grid()
  temperature = jnp.full(B, 0.5)
  weight = np.random.default_rng(1).normal(size=(B, 2, T)).astype(np.float32)

  def choices(kind, train, **changes):
    call, _, view = make_branches(kind, x, mask, **changes)

    def loss(query):
      chosen = call('choose_frame', query, view, temperature, train=train)
      return (chosen * weight).sum(), chosen

    (_, chosen), grad = jax.value_and_grad(loss, has_aux=True)(queries())
    return np.asarray(chosen), grad

  soft, grad = choices('grid', False)
  assert ((soft > 0) == np.broadcast_to(mask[:, None, :, 0], soft.shape)).all()
  for kind, train, hard_at_test in (('regions', True, False), ('grid', False, True)):
    hard, hard_grad = choices(kind, train, hard_at_test=hard_at_test)
    np.testing.assert_array_equal(hard, np.eye(T)[soft.argmax(axis=-1)])
    np.testing.assert_allclose(hard_grad, grad, rtol=1e-5, atol=1e-7)
  np.testing.assert_array_equal(choices('grid', True, hard_at_test=True)[0], soft)
