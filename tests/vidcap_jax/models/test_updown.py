"""The up-down captioner against plain numpy in float64, and its settings."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import CASES, UPDOWN, V
from tests.made_up import B, L, S, Setup, differences_without_masks
from tests.x64 import enable_x64
from vidcap_jax import models
from vidcap_jax.decoding.unroll import shift_right, teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Noise, bind
from vidcap_jax.models.updown import UpDown

pytestmark = pytest.mark.usefixtures('strict_dtypes')

NAMES = ('updown', 'updown_sequence')


@functools.cache
def setup(name: str = 'updown') -> Setup:
  return Setup(next(case for case in CASES if case.name == name))


# ------------------------------------------------------------------------------ the equations


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


def relu(x):
  return np.maximum(x, 0)


def lstm(gates, cell):
  i, f, g, o = np.split(gates, 4)
  cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
  return sigmoid(o) * np.tanh(cell), cell


def mean_of(x, mask):
  valid = x[mask]
  return valid.mean(axis=0) if len(valid) else np.zeros(x.shape[-1])


def plain_logits(p, config, features, masks, words):
  """One video and caption, a word at a time: logits (L, V), and weights (L, N)."""
  dense = lambda name, x: x @ p[name]['kernel'] + p[name].get('bias', 0.0)  # noqa: E731
  means = [mean_of(features[name], masks[name]) for name in config.global_streams]
  mean = relu(dense('global_embed', np.concatenate(means)))
  mask = masks[config.attended_stream].reshape(-1)
  stream = features[config.attended_stream]
  entries = relu(dense('memory_embed', stream.reshape(-1, stream.shape[-1])))
  attend = p['attend']
  h1 = c1 = h2 = c2 = np.zeros(config.hidden)
  logits, all_weights = [], []
  for word in words:
    x = relu(p['words']['embedding'][word])
    gates = dense('lstm1_mean', mean) + dense('lstm1_word', x)
    h1, c1 = lstm(gates + dense('lstm1_state', np.concatenate([h2, h1])), c1)
    weights = np.zeros(len(entries))
    for n in np.flatnonzero(mask):
      key = entries[n] @ attend['key']['kernel'] + attend['key']['bias']
      weights[n] = np.exp(np.tanh(key + h1 @ attend['query']['kernel']) @ attend['score'])
    if mask.any():
      weights /= weights.sum()
    h2, c2 = lstm(dense('lstm2_state', np.concatenate([weights @ entries, h1, h2])), c2)
    logits.append(dense('output', h2))
    all_weights.append(weights)
  return np.stack(logits), np.stack(all_weights)


@pytest.mark.parametrize('name', NAMES)
def test_logits_and_weights_of_plain_numpy(name):
  """Videos with all regions, some and none, in float64."""
  made = setup(name)
  with enable_x64(True):
    config = dataclasses.replace(made.module.config, dtype=jnp.float64, param_dtype=jnp.float64)
    widen = lambda x: x.astype(np.float64) if x.dtype == np.float32 else x  # noqa: E731
    params, inputs = jax.tree.map(widen, (made.params, made.inputs))

    @jax.jit
    def run(params, inputs):
      captioner = bind(UpDown(config), params)
      memory = captioner.encode(inputs, None, train=False)
      unrolled = teacher_forcing(captioner, memory, made.targets, attention=True)
      return captioner.logits(unrolled.hidden), unrolled.attention['entries']

    logits, weights = jax.device_get(run(params, inputs))
  words = np.asarray(shift_right(made.targets))
  assert logits.dtype == np.float64
  for b, s in ((0, 0), (1, 0), (2, 1), (3, 1)):
    features, masks = ({n: x[b] for n, x in d.items()} for d in (inputs.features, inputs.masks))
    expected = plain_logits(params, config, features, masks, words[:, b, s])
    np.testing.assert_allclose(logits[:, b, s], expected[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(weights[:, b, s], expected[1], rtol=0, atol=1e-10)


def test_entries_have_no_order():
  made = setup()
  flip = lambda d: {**d, 'boxes': np.flip(d['boxes'], (1, 2))}  # noqa: E731
  inputs = made.inputs.replace(features=flip(made.inputs.features), masks=flip(made.inputs.masks))
  np.testing.assert_allclose(made.logits(inputs), made.logits(made.inputs), rtol=0, atol=1e-5)


# ------------------------------------------------------------------------------ shapes and settings


def test_parameters():
  H, E, P, A = (UPDOWN[size] for size in ('hidden', 'embed', 'project', 'attention'))
  shapes = {
    '/'.join(k.key for k in path): x.shape for path, x in jax.tree.leaves_with_path(setup().params)
  }
  assert shapes == {
    'global_embed/kernel': (3 + 5, P),
    'global_embed/bias': (P,),
    'memory_embed/kernel': (5, P),
    'memory_embed/bias': (P,),
    'attend/key/kernel': (P, A),
    'attend/key/bias': (A,),
    'attend/query/kernel': (H, A),
    'attend/score': (A,),
    'words/embedding': (V, E),
    'lstm1_mean/kernel': (P, 4 * H),
    'lstm1_word/kernel': (E, 4 * H),
    'lstm1_state/kernel': (2 * H, 4 * H),
    'lstm1_state/bias': (4 * H,),
    'lstm2_state/kernel': (P + 2 * H, 4 * H),
    'lstm2_state/bias': (4 * H,),
    'output/kernel': (H, V),
    'output/bias': (V,),
  }


@pytest.mark.parametrize('part', ['encoder', 'steps'])
def test_every_dropout_mask_is_used(part):
  differences = differences_without_masks(setup(), part)
  assert set(differences) == ({'mean', 'values'} if part == 'encoder' else {'word', 'hidden'})
  assert min(differences.values()) > 1e-3


def test_no_dropout_masks_at_rate_0():
  made = setup()
  module = UpDown(dataclasses.replace(made.module.config, dropout=0.0))
  assert module.apply({}, jax.random.key(0), made.inputs, S, L, method='noise') == Noise({}, {})


def test_the_memory_is_a_videos_and_the_carry_a_rows():
  made, K = setup(), 7
  captioner = bind(made.module, made.params)
  memory = jax.eval_shape(lambda x: captioner.encode(x, None, train=False), made.inputs)
  carry = jax.eval_shape(lambda m: captioner.start(m, K, L), memory)
  assert [x.shape for x in jax.tree.leaves(memory)] == [(B, 32), (B, 12, 7), (B, 12, 5), (B, 12)]
  assert [x.shape for x in jax.tree.leaves(carry)] == [(B, K, 8)] * 4 + [(B, K)]


def test_needs_and_attentions():
  config = setup().module.config
  attended = ('regions', 'grid', 'sequence')
  any_kind = ('vector', 'sequence', 'regions', 'grid')
  assert dict(config.needs.streams) == {'audio': any_kind, 'boxes': attended}
  assert config.attentions == {'entries': AttentionAxes(('entries',), streams=('boxes',))}


@pytest.mark.parametrize('field', ['global_streams', 'attended_stream'])
def test_settings_that_do_not_fit(field):
  with pytest.raises(ConfigError, match=f'model.{field}'):
    models.build({'name': 'updown', field: '' if field == 'attended_stream' else ()}, V)
