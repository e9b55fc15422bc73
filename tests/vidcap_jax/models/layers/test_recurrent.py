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
