import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from vidcap_jax.models.layers import recurrent

pytestmark = pytest.mark.usefixtures('strict_dtypes')


def test_lstm_is_flax_lstm_with_the_same_weights():
  H, D, B = 5, 3, 4
  rng = np.random.default_rng(0)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
  state, words = (draw(B, H), draw(B, H)), draw(6, B, D)  # (cell, output)
  gates = {f'i{gate}': {'kernel': draw(D, H)} for gate in 'ifgo'}
  gates |= {f'h{gate}': {'kernel': draw(H, H), 'bias': draw(H)} for gate in 'ifgo'}
  inputs, outputs = (
    np.concatenate([gates[side + gate]['kernel'] for gate in 'ifgo'], axis=1) for side in 'ih'
  )
  bias = np.concatenate([gates[f'h{gate}']['bias'] for gate in 'ifgo'])[None]

  @jax.jit
  def run(cell, h):
    def step(state, x):
      h, cell = state
      return recurrent.lstm(x @ inputs + h @ outputs + bias, cell), None

    return jax.lax.scan(step, (h, cell), words)[0][::-1]

  @jax.jit
  def run_flax(cell, h):
    step = lambda state, x: nn.LSTMCell(H).apply({'params': gates}, state, x)  # noqa: E731
    return jax.lax.scan(step, (cell, h), words)[0]

  # Flax adds a bias to rows, which counts as rank promotion.
  with jax.numpy_rank_promotion('allow'):
    expected = run_flax(*state)
  jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), run(*state), expected)


def test_a_float32_cell_adds_up_what_bfloat16_gates_give():
  """1,000 additions of about 0.004 to a cell near 1: bfloat16 sums would stand still."""
  large, small = 20.0, 0.00390625
  gates = jnp.array([[large, large, small, large]], jnp.bfloat16)  # input, forget, cell, output
  cell = jnp.ones((1, 1), jnp.float32)
  _, cell = jax.lax.fori_loop(
    0, 1000, lambda _, s: recurrent.lstm(gates, s[1]), (jnp.zeros_like(cell), cell)
  )
  assert cell.dtype == jnp.float32
  np.testing.assert_allclose(cell, 1 + 1000 * np.tanh(small), rtol=1e-3)


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_gru_is_flax_gru_with_the_same_weights(dtype):
  H, D, B = 5, 3, 4
  rng = np.random.default_rng(1)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
  h, words = draw(B, H), draw(6, B, D)
  flax = {f'i{gate}': {'kernel': draw(D, H), 'bias': draw(H)} for gate in 'rzn'}
  flax |= {f'h{gate}': {'kernel': draw(H, H)} for gate in 'rzn'}
  flax['hn']['bias'] = draw(H)
  joined = lambda side, what: np.concatenate([flax[side + g][what] for g in 'rzn'], -1)  # noqa: E731
  params = {
    'input': {'kernel': joined('i', 'kernel'), 'bias': joined('i', 'bias')},
    'state': {'kernel': joined('h', 'kernel')},
    'bias': flax['hn']['bias'],
  }
  cell = recurrent.GRU(H, dtype=dtype).bind({'params': params})

  @jax.jit
  def run(h):
    return jax.lax.scan(lambda h, x: (cell(x, h), None), h, cell.inputs(words))[0]

  @jax.jit
  def run_flax(h):
    step = lambda h, x: nn.GRUCell(H).apply({'params': flax}, h, x)  # noqa: E731
    return jax.lax.scan(step, h, words)[0]

  with jax.numpy_rank_promotion('allow'):
    expected = run_flax(h)
    found = run(h)
  assert found.dtype == jnp.float32
  np.testing.assert_allclose(found, expected, atol=1e-5 if dtype == jnp.float32 else 0.1)


def test_an_encoder_says_what_the_lstm_holds_after_the_last_valid_frame():
  H, D = 5, 3
  x = np.random.default_rng(2).normal(size=(3, 6, D)).astype(np.float32)
  mask = np.arange(6)[None] < np.array([[6], [2], [0]])
  module = recurrent.LSTMEncoder(H, state_init=recurrent.orthogonal_gates)
  params = module.init(jax.random.key(0), x, mask)['params']
  out = module.apply({'params': params}, np.where(mask[..., None], x, np.nan), mask)
  h, cell = np.zeros((2, H), np.float32), np.zeros((2, H), np.float32)
  for t in range(6):
    gates = x[:2, t] @ params['input']['kernel'] + params['input']['bias'][None]
    new = recurrent.lstm(gates + h @ params['state'], jnp.asarray(cell))
    h, cell = (np.where(mask[:2, t, None], a, b) for a, b in zip(new, (h, cell)))
  np.testing.assert_allclose(out[:2], h, atol=1e-6)
  np.testing.assert_array_equal(out[2], 0)
  for gate in np.split(np.asarray(params['state']), 4, axis=1):
    np.testing.assert_allclose(gate.T @ gate, np.eye(H), atol=1e-5)


def kept_for_the_gradient(update, gates, state):
  """(dtype, width) of what a scan of update(gates, state) keeps of its rounds for the gradient."""

  def loss(gates, state):
    return jax.lax.scan(lambda state, x: (update(x, state), None), state, gates)[0].sum()

  program = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(gates, state)
  forward = next(e for e in program.eqns if e.primitive.name == 'scan')
  kept = forward.outvars[forward.params['num_carry'] :]
  return [(str(v.aval.dtype), v.aval.shape[-1]) for v in kept]


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_a_scan_keeps_no_derivatives_and_no_float32_beside_the_state(dtype):
  """Of an LSTM in float32: i, f, g, o, the cell and its tanh; of a GRU: r, z, n, its part, h."""
  T, B, H = 6, 2, 5
  gates = lambda n: jnp.ones((T, B, n * H), dtype)  # noqa: E731
  state = jnp.ones((B, H))
  lstm = kept_for_the_gradient(lambda x, cell: recurrent.lstm(x, cell)[0], gates(4), state)
  gru = kept_for_the_gradient(lambda x, h: recurrent.gru(x, 2 * x, jnp.ones(H), h), gates(3), state)
  if dtype == 'float32':
    assert lstm == [('float32', H)] * 6
    assert gru == [('float32', H)] * 5
  else:
    for kept in lstm, gru:
      assert [width for name, width in kept if name == 'float32'] == [H]
      assert sum(width for _, width in kept) <= 7 * H


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_what_is_computed_again_does_not_change_gradients(dtype):
  rng = np.random.default_rng(2)
  B, H = 4, 5
  draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
  x, y = draw(B, 4 * H).astype(dtype), draw(B, 3 * H).astype(dtype)
  bias, state = draw(H), draw(B, H)

  def plain_lstm(gates, cell):
    i, f, g, o = jnp.split(gates.astype(cell.dtype), 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell

  def gradients(lstm):
    return jax.grad(lambda *a: sum(jnp.sin(part).sum() for part in lstm(*a)), (0, 1))(x, state)

  jax.tree.map(np.testing.assert_array_equal, gradients(recurrent.lstm), gradients(plain_lstm))

  def plain_gru(inputs, products, bias, h):
    inputs, products = inputs.astype(h.dtype), products.astype(h.dtype)
    r_in, z_in, n_in = jnp.split(inputs, 3, axis=-1)
    r_h, z_h, n_h = jnp.split(products, 3, axis=-1)
    r, z = jax.nn.sigmoid(r_in + r_h), jax.nn.sigmoid(z_in + z_h)
    n = jnp.tanh(n_in + r * (n_h + bias[None]))
    return (1 - z) * n + z * h

  def gradients_of(gru):
    return jax.grad(lambda *a: jnp.sin(gru(*a)).sum(), (0, 1, 2, 3))(y, 2 * y, bias, state)

  jax.tree.map(np.testing.assert_array_equal, gradients_of(recurrent.gru), gradients_of(plain_gru))
