"""VATEX 2019, equations 1-5, through the modules that training runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.models.captioner import Inputs, bind
from vidcap_jax.models.temporal_spatial import Carry, TemporalSpatial, TemporalSpatialConfig
from vidcap_jax.objectives.cross_entropy import summed
from vidcap_jax.objectives.word_log_probs import smoothed_log_probs, token_log_probs

GATES = 'ifgo'


def load_params(d, branch, dtype):
  """The oracle's weights under the names of our modules' parameters."""
  P, H = d['global/kernel'].shape[1], d['state0/h1'].shape[1]

  def inputs(cell):
    return np.concatenate([d[f'{cell}/i{g}'] for g in GATES], axis=1)

  def recurrent(cell):
    return np.concatenate([d[f'{cell}/h{g}'] for g in GATES], axis=1)

  def bias(cell):
    return np.concatenate([d[f'{cell}/h{g}_bias'] for g in GATES])

  # lstm1 reads [mean; word; h2].
  mean, word, h2 = np.split(inputs('lstm1'), [P, P + d['embedding'].shape[1]])
  assert h2.shape[0] == H
  params = {
    'global_embed': {'kernel': d['global/kernel'], 'bias': d['global/bias']},
    'memory_embed': {'kernel': d[f'{branch}_embed/kernel'], 'bias': d[f'{branch}_embed/bias']},
    'attend': {
      'key': {'kernel': d['att/W_vc']},
      'query': {'kernel': d['att/W_hc']},
      'score': d['att/w_c'],
    },
    'words': {'embedding': d['embedding']},
    'lstm1_mean': {'kernel': mean},
    'lstm1_word': {'kernel': word},
    'lstm1_state': {'kernel': np.concatenate([h2, recurrent('lstm1')]), 'bias': bias('lstm1')},
    'lstm2_state': {
      'kernel': np.concatenate([inputs('lstm2'), recurrent('lstm2')]),
      'bias': bias('lstm2'),
    },
    'output': {'kernel': d['out/kernel'], 'bias': d['out/bias']},
  }
  return jax.tree.map(lambda x: jnp.asarray(x, dtype), params)


def setup(d, branch, dtype):
  """The captioner with the oracle's weights, and its inputs."""
  V, E = d['embedding'].shape
  config = TemporalSpatialConfig(
    vocab_size=V,
    variant=branch,
    hidden=d['state0/h1'].shape[1],
    embed=E,
    project=d['global/kernel'].shape[1],
    attention=d['att/w_c'].size,
    dropout=0.0,
    dtype=dtype,
    param_dtype=dtype,
  )
  array = lambda name: jnp.asarray(d[name], dtype)  # noqa: E731
  segments = jnp.asarray(d['in/segment_mask'])
  inputs = Inputs(
    features={
      'image': array('in/image'),
      'motion': array('in/motion'),
      'audio': array('in/audio'),
      'objects': array('in/objects')[:, None],  # one frame of 8 object slots
    },
    masks={
      'image': segments,
      'motion': segments,
      'audio': jnp.asarray(d['in/audio_present']),
      'objects': jnp.asarray(d['in/object_mask'])[:, None],
    },
  )
  return bind(TemporalSpatial(config), load_params(d, branch, dtype)), inputs


@pytest.mark.parametrize('branch', ['temporal', 'spatial'])
def test_encoder_and_one_step(oracle, precision, close, branch, strict_dtypes):
  d = oracle('vatex_decoder_eq1_5')
  captioner, inputs = setup(d, branch, precision)
  memory = captioner.encode(inputs, None, train=False)
  close(memory.mean, d['out/vbar'])
  valid = np.asarray(memory.mask)[..., None]
  close(np.where(valid, memory.values, 0), np.where(valid, d[f'out/{branch}/memory'], 0))

  state = {k: jnp.asarray(d[f'state0/{k}'], precision)[:, None] for k in ('h1', 'c1', 'h2', 'c2')}
  carry = Carry(**state, position=jnp.zeros((4, 1), jnp.int32))
  x = captioner.embed(jnp.asarray(d['in/prev_word'], jnp.int32)[:, None], None)
  carry, hidden, extras = captioner.step(carry, x, memory, None, train=False)
  for name in ('h1', 'c1', 'h2', 'c2'):
    close(getattr(carry, name)[:, 0], d[f'out/{branch}/step/{name}'])
  close(extras.attention[branch][:, 0], d[f'out/{branch}/step/alpha'])
  close(jax.nn.log_softmax(captioner.logits(hidden))[:, 0], d[f'out/{branch}/step/log_probs'])
  np.testing.assert_array_equal(carry.position, 1)


@pytest.mark.parametrize('branch', ['temporal', 'spatial'])
def test_context_vector(oracle, precision, close, branch, strict_dtypes):
  """Equation 3 from the oracle's query; no objects and fully padded memories give zeros."""
  d = oracle('vatex_decoder_eq1_5')
  captioner, inputs = setup(d, branch, precision)
  memory = captioner.encode(inputs, None, train=False)
  config = TemporalSpatialConfig(
      vocab_size=13, variant=branch, hidden=7, embed=5, project=6, attention=4, dtype=precision,
      param_dtype=precision,
  )  # fmt: skip
  query = jnp.asarray(d[f'out/{branch}/step/h1'], precision)[:, None]
  context, _ = TemporalSpatial(config).apply(
    {'params': load_params(d, branch, precision)},
    query,
    memory,
    method=lambda m, q, memory: m.attend(q, memory.keys, memory.values, memory.mask),
  )
  close(context[:, 0], d[f'out/{branch}/step/context'])


@pytest.mark.parametrize('branch', ['temporal', 'spatial'])
def test_teacher_forced_run(oracle, precision, close, branch, strict_dtypes):
  d = oracle('vatex_decoder_eq1_5')
  captioner, inputs = setup(d, branch, precision)
  memory = captioner.encode(inputs, None, train=False)
  # The oracle's captions under the caption mask; PAD (0) elsewhere masks words.
  targets = jnp.asarray(np.where(d['in/caption_mask'], d['in/captions'], 0), jnp.int32)[:, None]
  unrolled = teacher_forcing(captioner, memory, targets)
  logits = jnp.moveaxis(captioner.logits(unrolled.hidden), 0, 2)  # (B, S, L, V)
  mask = d['in/caption_mask']
  log_probs = jax.nn.log_softmax(logits)[:, 0]
  expected = d[f'out/{branch}/teacher_forced_log_probs']
  close(np.where(mask[..., None], log_probs, 0), np.where(mask[..., None], expected, 0))
  found = np.where(mask, token_log_probs(logits, targets)[:, 0], 0).astype(precision)
  close(found, d[f'out/{branch}/token_log_prob'])
  close(-found.sum(axis=1), d[f'out/{branch}/xe_sum_per_sequence'])
  total, count = summed(smoothed_log_probs(logits, targets), targets)
  close(total / count, d[f'out/{branch}/xe_token_mean'])
