"""The refocused encoder, equations 4-21, through the modules that training runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.captioner import Inputs, bind
from vidcap_jax.models.refocus import Refocus, RefocusConfig
from vidcap_jax.objectives.refocus import REWARD_LOSSES, key_frame_log_probs, reward

GATES = 'ifgo'


def gru(d, name):
  """The oracle's GRU under our names: the state's bias of n lies inside the reset."""
  join = lambda form: np.concatenate([d[f'{name}/{form.format(g)}'] for g in 'rzn'], axis=-1)  # noqa: E731
  return {
    'input': {'kernel': join('i{}'), 'bias': join('i{}_bias')},
    'state': {'kernel': join('h{}')},
    'bias': d[f'{name}/hn_bias'],
  }


def attention(d, name, score, value, query):
  return {
    'key': {'kernel': d[f'{name}/{value}']},
    'query': {'kernel': d[f'{name}/{query}']},
    'score': d[f'{name}/{score}'],
  }


def load_params(d, audio, dtype):
  """The oracle's weights under the names of our modules' parameters."""
  D, D_audio = d['in/Vf'].shape[-1], d['in/va'].shape[-1]
  V, E = d['embedding'].shape
  inputs = np.concatenate([d[f'dec/i{g}'] for g in GATES], axis=1)  # [v_T; v_S; v_a; o or word]
  assert len(inputs) == 2 * D + D_audio + E
  temporal, spatial, sound, word = np.split(inputs, np.cumsum([D, D, D_audio]))
  suffix = '' if audio else '_noaudio'
  params = {
    'encoder': {
      'left': gru(d, 'gru_left'),
      'right': gru(d, 'gru_right'),
      'join': {'kernel': d['Wc'], 'bias': d['bc']},
    },
    'code': {'kernel': d[f'Wa{suffix}'], 'bias': d[f'ba{suffix}']},
    'merge': {'kernel': d['Wm'], 'bias': d['bm']},
    'refocus': attention(d, 'refocus', 'W_alpha', 'W_v', 'W_o'),
    'attend_temporal': attention(d, 'att_T', 'W', 'W_v', 'W_h'),
    'attend_spatial': attention(d, 'att_S', 'W', 'W_v', 'W_h'),
    'lstm_temporal': {'kernel': temporal},
    'lstm_spatial': {'kernel': spatial},
    'lstm_word': {'kernel': word},
    'lstm_state': {
      'kernel': np.concatenate([d[f'dec/h{g}'] for g in GATES], axis=1),
      'bias': np.concatenate([d[f'dec/h{g}_bias'] for g in GATES]),
    },
    'words': {'embedding': d['embedding']},
    'output': {'kernel': np.zeros((E, V)), 'bias': np.zeros(V)},  # the oracle stops before it
  }
  if audio:
    params['lstm_audio'] = {'kernel': sound}
  return jax.tree.map(lambda x: jnp.asarray(x, dtype), params)


def setup(d, audio, dtype, key_frame=None):
  """The module, the oracle's weights and inputs: V_f as a sequence, v_s as a grid of one frame."""
  V, E = d['embedding'].shape
  config = RefocusConfig(
    vocab_size=V,
    spatial_stream='cells',
    audio_stream='audio' if audio else '',
    hidden=E,
    embed=E,
    attention=d['att_T/W'].size,
    dropout=0.0,
    dtype=dtype,
    param_dtype=dtype,
  )
  B, K, _ = d['in/Vf'].shape
  N = d['in/vs'].shape[1]
  inputs = Inputs(
    features={
      'image': jnp.asarray(d['in/Vf'], dtype),
      'cells': jnp.asarray(d['in/vs'], dtype)[:, None],
      'audio': jnp.asarray(d['in/va'], dtype),
    },
    masks={
      'image': jnp.asarray(np.arange(K)[None] < d['in/length'][:, None]),
      'cells': jnp.ones((B, 1, N), bool),
      'audio': jnp.ones(B, bool),
    },
    key_frame=key_frame,
  )
  return Refocus(config), load_params(d, audio, dtype), inputs


def test_kbigru_from_every_key_frame(oracle, precision, close, strict_dtypes):
  """First, last and all between, as the second pass runs it: with the key frame given."""
  d = oracle('vre_eq4_21')
  module, params, inputs = setup(d, True, precision)

  @jax.jit
  def run(params, inputs, key):
    def encode(m):
      frames, mask = m.temporal_features(inputs)
      return m.encoder(m.encoder.inputs(frames), mask, key)

    return module.apply({'params': params}, method=encode)

  B, K, _ = d['in/Vf'].shape
  valid = np.arange(K)[None] < d['in/length'][:, None]
  h = np.stack([run(params, inputs, jnp.full(B, k, jnp.int32)) for k in range(K)], axis=1)
  close(np.where(valid[..., None], h, 0), d['out/kbigru/h_all_keys'])
  # Each video from a key frame of its own.
  keys = d['out/audio/ikey2'].astype(np.int32)
  mixed = run(params, inputs, jnp.asarray(keys))
  close(mixed, d['out/kbigru/h_all_keys'][np.arange(B), keys])


@pytest.mark.parametrize('audio', [True, False], ids=['audio', 'noaudio'])
def test_both_passes(oracle, precision, close, audio, strict_dtypes):
  """Algorithm 1."""
  d = oracle('vre_eq4_21')
  module, params, inputs = setup(d, audio, precision)
  expected = lambda name: d[f'out/{"audio" if audio else "noaudio"}/{name}']  # noqa: E731
  memory = jax.jit(bind(module, params).encode)(inputs, None)
  close(memory.passes.code[:, 0], expected('o1'))
  valid = np.asarray(memory.focus.mask)
  # b moves all scores alike: the softmax does not see it, and our module does without.
  scores = memory.focus.scores + jnp.asarray(d['refocus/b_alpha'], precision)[None]
  close(np.where(valid, scores, 0), np.where(valid, expected('a'), 0))
  close(memory.focus.weights, expected('alpha'))
  np.testing.assert_array_equal(memory.focus.key_frame, expected('ikey2'))
  close(memory.passes.code[:, 1], expected('o2'))


@pytest.mark.parametrize('audio', [True, False], ids=['audio', 'noaudio'])
@pytest.mark.parametrize('own', [True, False])
def test_key_frames_from_outside(oracle, precision, close, audio, own, strict_dtypes):
  """The oracle's second key frame given, or unknown: the same second pass."""
  d = oracle('vre_eq4_21')
  keys = d[f'out/{"audio" if audio else "noaudio"}/ikey2'].astype(np.int32)
  keys[0] = -1 if own else keys[0]
  module, params, inputs = setup(d, audio, precision, jnp.asarray(keys))
  memory = jax.jit(bind(module, params).encode)(inputs, None)
  close(memory.passes.code[:, 1], d[f'out/{"audio" if audio else "noaudio"}/o2'])


def test_two_steps_of_the_decoder(oracle, precision, close, strict_dtypes):
  """Algorithm 2 from o_1, as ``each_pass`` unrolls it."""
  d = oracle('vre_eq4_21')
  module, params, inputs = setup(d, True, precision)
  captioner = bind(module, params)

  @jax.jit
  def run(inputs, word):
    def unroll(memory):
      carry, states = captioner.start(memory, 1, 2), []
      # What is read at t = 0 is replaced by o_i.
      for words in (jnp.full_like(word, 7), word):
        x = captioner.embed(words, None)
        carry, _, extras = captioner.step(carry, x, memory, None, train=False)
        states.append((carry, extras.attention))
      return states

    return captioner.encode(inputs, None).each_pass(unroll)

  states = run(inputs, jnp.asarray(d['in/word0'], jnp.int32)[:, None])
  for t, (carry, attention) in enumerate(states):
    close(attention['temporal'][0, :, 0], d[f'out/dec/t{t}/alpha_T'])
    close(attention['spatial'][0, :, 0], d[f'out/dec/t{t}/alpha_S'])
    close(carry.h[0, :, 0], d[f'out/dec/t{t}/h'])
    close(carry.c[0, :, 0], d[f'out/dec/t{t}/c'])


@pytest.mark.parametrize(
  ('name', 'value', 'gradient'),
  [
    ('eq19', 'L_R_eq19', 'grad_eq19'),
    ('eq21_printed', 'L_Rplus_as_printed_eq21', 'grad_eq21_as_printed'),
    ('eq21', 'L_Rplus_intended', 'grad_eq21_intended'),
  ],
)
def test_rewards_and_their_losses(oracle, precision, close, name, value, gradient, strict_dtypes):
  """Equations 19-21, with gradients to the key frame's logits; some of its alphas are near 1."""
  d = oracle('vre_eq4_21')
  array = lambda key: jnp.asarray(d[f'rl/{key}'], precision)  # noqa: E731
  R = reward(-array('xe_step1'), -array('xe_step2'))
  close(R, d['rl/R'])
  key_frame = jnp.asarray(d['rl/ikey'], jnp.int32)

  def loss(logits):
    chosen, others = key_frame_log_probs(logits, jnp.ones(logits.shape, bool), key_frame)
    each = REWARD_LOSSES[name](R - array('R_prev'), chosen, others)
    return each.sum(), (each, jnp.exp(chosen))

  (_, (each, alpha)), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(array('logits'))
  close(alpha, d['rl/alpha_key'])
  close(each, d[f'rl/{value}'])
  close(grads, d[f'rl/{gradient}'])
