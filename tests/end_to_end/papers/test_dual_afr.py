"""dualAFR, equations 1-9 and 12-18, through the modules that training runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.captioner import Inputs, bind
from vidcap_jax.models.dual_afr import Carry, DualAFR, DualAFRConfig
from vidcap_jax.models.layers import draws, tiled_convolution
from vidcap_jax.models.layers.alignment import Align
from vidcap_jax.models.layers.attention import weigh
from vidcap_jax.objectives.multi_sample import bound, log_geometric_means, score_term, signals

LAYERS = ('pool2', 'pool3', 'pool4', 'pool5')
GATES = 'ifgo'


def load_params(d, dtype):
  """The oracle's weights under the names of our modules' parameters; its omitted biases are 0."""
  E, A = d['embedding'].shape[1], d['att/w_alpha'].size
  gates = lambda part: np.concatenate([d[f'lstm/{part}{g}'] for g in GATES], axis=1)  # noqa: E731
  word, context = np.split(gates('i'), [E])

  def attention(values, query, score):
    return {
      'key': {'kernel': d[f'att/{values}'], 'bias': np.zeros(A)},
      'query': {'kernel': d[f'att/{query}']},
      'score': d[f'att/{score}'],
    }

  def convolution(layer):  # the model's kernels are over time, rows, columns
    kernel = d[f'align/{layer}/kernel'].transpose(2, 0, 1, 3, 4)
    return {'kernel': kernel, 'bias': d[f'align/{layer}/bias']}

  params = {
    'first': {'kernel': d['C'], 'bias': np.zeros(d['C'].shape[1])},
    'align': {f'convolve_{layer}': convolution(layer) for layer in LAYERS[:-1]},
    'attend_positions': attention('W_a_alpha', 'W_h_alpha', 'w_alpha'),
    'attend_layers': attention('W_s_beta', 'W_h_beta', 'w_beta'),
    'words': {'embedding': d['embedding']},
    'lstm_word': {'kernel': word},
    'lstm_context': {'kernel': context},
    'lstm_state': {
      'kernel': gates('h'),
      'bias': np.concatenate([d[f'lstm/h{g}_bias'] for g in GATES]),
    },
    'output': {'kernel': d['V'], 'bias': np.zeros(d['V'].shape[1])},
  }
  return jax.tree.map(lambda x: jnp.asarray(x, dtype), params)


def positions_last(x):
  """Ours by (time, row, column) on the first axis to the oracle's (row, column, time)."""
  return np.asarray(x).reshape(2, 4, 4, *x.shape[1:]).transpose(1, 2, 0, *range(3, x.ndim + 2))


class Setup:
  """A model with the oracle's weights, its memory of the oracle's video, padded by a unit."""

  def __init__(self, d, dtype, choice='soft', padding=1, garbage=np.nan):
    V, E = d['embedding'].shape
    config = DualAFRConfig(
      vocab_size=V,
      choice=choice,
      hidden=d['C'].shape[1],
      embed=E,
      attention=d['att/w_alpha'].size,
      dropout=0.0,
      dtype=dtype,
      param_dtype=dtype,
    )
    features, masks = {}, {}

    def put(name, x, more):
      valid = np.pad(np.ones(x.shape[:-1], bool), [(0, more), *[(0, 0)] * (x.ndim - 2)])
      x = np.pad(x, [(0, more), *[(0, 0)] * (x.ndim - 1)], constant_values=garbage)
      features[name], masks[name] = jnp.asarray(x, dtype)[None], jnp.asarray(valid)[None]

    for layer, frames in zip(LAYERS, config.ratios):
      x = d[f'in/{layer}'].transpose(2, 0, 1, 3)  # (T, rows, columns, D)
      put(layer, x.reshape(x.shape[0], -1, x.shape[-1]), padding * frames)
    put('fc7', d['in/fc7_clips'], padding)
    self.module, self.params = DualAFR(config), load_params(d, dtype)
    self.captioner = bind(self.module, self.params)
    self.memory = self.captioner.encode(Inputs(features, masks), None, train=False)
    self.query = jnp.asarray(d['in/h_prev'], dtype)[None, None]
    cell = jnp.asarray(d['in/c_prev'], dtype)[None, None]
    self.carry = Carry(self.query, cell, jnp.ones((1, 1), jnp.int32))

  def attend(self, noise):
    return self.module.apply(
      {'params': self.params}, self.query, self.memory, noise, method='attend'
    )


def log_softmax(x):
  return x - np.log(np.exp(x - x.max()).sum()) - x.max()


@pytest.mark.parametrize('by_tiles', [False, True])
def test_alignment_and_stacking(oracle, precision, close, strict_dtypes, monkeypatch, by_tiles):
  """Equation 3; garbage in the padded unit changes nothing and has no weight."""
  monkeypatch.setattr(tiled_convolution, 'is_worthwhile', lambda *sizes: by_tiles)
  d = oracle('dualafr_eq3_9')
  for garbage in (np.nan, 99.0):
    memory = Setup(d, precision, garbage=garbage).memory
    np.testing.assert_array_equal(memory.positions[0], np.arange(48) < 32)
    np.testing.assert_array_equal(memory.layers, True)
    stacked = positions_last(memory.values[0, :32])  # (4, 4, 2, layers D)
    close(stacked.reshape(32, -1), d['out/stacked'])
    for layer, values in zip(LAYERS, np.split(stacked, 4, axis=-1)):
      close(values, d[f'out/aligned/{layer}'])


# Table 5: the first and last cell of a layer that position i, counted from 1, sees; each layer's
# factor of i. Pool3's last cell is 4i + 3 by Table 4 and the text; pool5 sees itself.
SEEN = {'pool2': (8, -14, 7), 'pool3': (4, -6, 3), 'pool4': (2, -2, 1), 'pool5': (1, 0, 0)}


def pooled(x, layer, reduce):
  """Equation 17: (rows, columns, frames, D) of a layer to (4, 4, 2, D)."""
  factor, first, last = SEEN[layer]
  out = np.zeros((4, 4, 2, x.shape[-1]))
  for place in np.ndindex(4, 4, 2):
    window = tuple(
      slice(max(0, factor * (i + 1) + first - 1), factor * (i + 1) + last) for i in place
    )
    out[place] = reduce(x[window].reshape(-1, x.shape[-1]), axis=0)
  return out


@pytest.mark.parametrize(('how', 'reduce'), [('max', np.max), ('average', np.mean)])
def test_pooled_layers_each_pass_through_an_mlp(
  oracle, precision, close, strict_dtypes, how, reduce
):
  """Equations 17 and 18 for l = 1, …, L: of the last layer too, not of older checkpoints."""
  d = oracle('dualafr_eq3_9')
  layers = [d[f'in/{layer}'] for layer in LAYERS]
  maps = [jnp.asarray(x.transpose(2, 0, 1, 3)[None], precision) for x in layers]
  masks = [jnp.ones(x.shape[:-1], bool) for x in maps]
  rng = np.random.default_rng(0)

  def dense(channels):
    return {'kernel': rng.normal(size=(channels, 4)), 'bias': rng.normal(size=4)}

  weights = {}
  for layer, x in zip(LAYERS, layers):
    weights |= {f'hidden_{layer}': dense(x.shape[-1]), f'embed_{layer}': dense(4)}
  params = jax.tree.map(lambda x: jnp.asarray(x, precision), weights)
  dtypes = {'dtype': precision, 'param_dtype': precision}
  for embed_last in (True, False):
    module = Align(
      how, LAYERS, (8, 4, 2, 1), (), jax.nn.initializers.zeros, embed_last=embed_last, **dtypes
    )
    shapes = jax.eval_shape(module.init, jax.random.key(0), maps, masks)['params']
    embedded = LAYERS if embed_last else LAYERS[:-1]
    assert set(shapes) == {f'{part}_{layer}' for part in ('hidden', 'embed') for layer in embedded}
    values, _ = module.apply({'params': {name: params[name] for name in shapes}}, maps, masks)
    found = positions_last(values[0])  # (4, 4, 2, layers, D)
    for i, (layer, x) in enumerate(zip(LAYERS, layers)):
      expected = x
      if layer in embedded:
        hidden, embed = weights[f'hidden_{layer}'], weights[f'embed_{layer}']
        y = np.maximum(pooled(x, layer, reduce) @ hidden['kernel'] + hidden['bias'], 0)
        expected = y @ embed['kernel'] + embed['bias']
      close(found[..., i, :], expected)


def test_soft_attention(oracle, precision, close, strict_dtypes):
  """Equations 4-8."""
  d = oracle('dualafr_eq3_9')
  setup = Setup(d, precision)
  z, weights, log_prob = setup.attend({})
  alpha, beta = weights['spatiotemporal'][0, 0], weights['layer'][0, 0]
  assert log_prob is None
  np.testing.assert_array_equal(alpha[32:], 0)
  alpha = positions_last(alpha[:32]).reshape(32)
  close(alpha, d['out/alpha'])
  close(np.log(alpha), log_softmax(d['out/e']))
  close(beta, d['out/soft/beta'])
  close(np.log(beta), log_softmax(d['out/soft/b']))
  close(z[0, 0], d['out/soft/z'])


def test_soft_vectors_of_the_layers(oracle, precision, close, strict_dtypes):
  """Equation 5: s_t is what the weights make of each layer; a layer's share of z_t names it."""
  d = oracle('dualafr_eq3_9')
  setup = Setup(d, precision)
  for layer in range(4):
    only = setup.memory.replace(layers=jnp.arange(4)[None] == layer)
    setup_z = setup.module.apply({'params': setup.params}, setup.query, only, {}, method='attend')[
      0
    ]
    close(setup_z[0, 0], d['out/soft/s'][layer])


def test_hard_attention(oracle, precision, close, strict_dtypes):
  """Equation 9: the uniform numbers that mean the oracle's draws."""
  d = oracle('dualafr_eq3_9')
  setup = Setup(d, precision, 'hard')
  row, column, frame = np.unravel_index(d['in/hard_position'], (4, 4, 2))
  position, layer = np.ravel_multi_index((frame, row, column), (2, 4, 4)), int(d['in/hard_layer'])

  def between(weights, index):  # a number that falls to this index
    below = np.cumsum(np.asarray(weights, np.float64))
    return jnp.asarray(below[index] - weights[index] / 2, precision).reshape(1, 1)

  alpha = setup.attend({})[1]['spatiotemporal'][0, 0]
  close(positions_last(alpha[:32]).reshape(32), d['out/alpha'])
  numbers = {'position': between(alpha, position), 'layer': between(d['out/hard/beta'], layer)}
  z, weights, log_prob = setup.attend(numbers)
  close(weights['layer'][0, 0], d['out/hard/beta'])
  close(z[0, 0], d['out/hard/z'])
  np.testing.assert_array_equal(z[0, 0], setup.memory.values[0, position].reshape(4, -1)[layer])
  close(setup.memory.values[0, position].reshape(4, -1), d['out/hard/s'])
  close(log_prob[0, 0], d['out/hard/log_p_m'])
  # The mode is what is taken without numbers.
  z, weights, log_prob = setup.attend({})
  assert log_prob is None
  layers = setup.memory.values[0, np.argmax(alpha)].reshape(4, -1)
  np.testing.assert_array_equal(z[0, 0], layers[np.argmax(weights['layer'])])


def test_first_word_and_a_step(oracle, precision, close, strict_dtypes):
  d = oracle('dualafr_eq3_9')
  setup = Setup(d, precision)
  captioner = setup.captioner
  carry = captioner.start(setup.memory, 1, 3)
  close(carry.h[0, 0], d['out/h1'])
  np.testing.assert_array_equal(carry.c, 0)
  any_word = captioner.embed(jnp.ones((1, 1), jnp.int32), None)
  after, hidden, extras = captioner.step(carry, any_word, setup.memory, None, train=False)
  np.testing.assert_array_equal(after.h, carry.h)
  np.testing.assert_array_equal(after.c, 0)
  np.testing.assert_array_equal(extras.attention['spatiotemporal'], 0)
  close(jax.nn.log_softmax(captioner.logits(hidden))[0, 0], d['out/first_word_log_probs'])

  word = captioner.embed(jnp.asarray(d['in/word'], jnp.int32).reshape(1, 1), None)
  after, hidden, _ = captioner.step(setup.carry, word, setup.memory, None, train=False)
  close(after.h[0, 0], d['out/step/h'])
  close(after.c[0, 0], d['out/step/c'])
  close(jax.nn.log_softmax(captioner.logits(hidden))[0, 0], d['out/step/log_probs'])


def test_multi_sample_bound(oracle, precision, close, strict_dtypes):
  """Equations 12-16; omega is the bound's gradient. One row's log p is near -940."""
  d = oracle('dualafr_vimco_eq12_16')
  log_p = jnp.asarray(d['in/log_p_Y_given_m'], precision)
  close(bound(log_p), d['out/L_K'])
  close(jax.grad(lambda x: bound(x).sum())(log_p), d['out/omega'])
  close(log_geometric_means(log_p), d['out/log_f'])
  found = signals(log_p)
  close(found, d['out/L_hat'])
  alike = (d['in/log_p_Y_given_m'] == d['in/log_p_Y_given_m'][:, :1]).all(axis=1)
  np.testing.assert_array_equal(found[alike], 0)


def test_score_term_and_its_gradient(oracle, precision, close, strict_dtypes):
  """Layer draws made by uniform numbers, weights by the attention's own softmax."""
  d = oracle('dualafr_vimco_eq12_16')
  log_p = jnp.asarray(d['in/log_p_Y_given_m'], precision)
  logits = jnp.asarray(d['in/layer_logits'], precision)  # (B, steps, layers)
  draw = d['in/layer_draws'].swapaxes(1, 2)  # (B, steps, K)
  prob = np.exp(d['in/layer_logits'] - d['in/layer_logits'].max(-1, keepdims=True))
  prob /= prob.sum(-1, keepdims=True)
  ends = np.cumsum(prob, -1) - prob / 2
  numbers = jnp.asarray(np.take_along_axis(ends, draw, -1), precision)

  def score(logits):
    weights = weigh('layer', logits, jnp.ones(logits.shape, bool))
    weights = jnp.broadcast_to(weights[:, :, None], (*numbers.shape, logits.shape[-1]))
    chosen, log_prob = draws.choose(weights, numbers)  # (B, steps, K, layers), (B, steps, K)
    log_p_m = log_prob.sum(axis=1)
    term = score_term(log_p, log_p_m)
    return term.sum(), (chosen, log_p_m, term)

  grad, (chosen, log_p_m, term) = jax.grad(score, has_aux=True)(logits)
  np.testing.assert_array_equal(chosen.argmax(-1), draw)
  close(log_p_m, d['out/log_p_m'])
  close(term, d['out/surrogate_score_term'])
  close(grad, d['out/grad_layer_logits_score_term'])


def test_score_term_gives_no_gradient_to_the_words(oracle, precision, close):
  d = oracle('dualafr_vimco_eq12_16')
  log_p = jnp.asarray(d['in/log_p_Y_given_m'], precision)
  log_p_m = jnp.asarray(d['out/log_p_m'], precision)
  grad = jax.grad(lambda x: score_term(x, log_p_m).sum())(log_p)
  np.testing.assert_array_equal(grad, 0)


@pytest.mark.parametrize('K', [2, 3])
def test_bound_of_few_draws(K):
  log_p = np.array([[-3.0, -1.0, -2.0]], np.float32)[:, :K]
  p = np.exp(log_p)
  np.testing.assert_allclose(bound(jnp.asarray(log_p)), np.log(p.mean(-1)), rtol=1e-6)
  others = lambda k: np.delete(log_p[0], k)  # noqa: E731
  baseline = [np.log((np.exp(others(k)).sum() + np.exp(others(k).mean())) / K) for k in range(K)]
  np.testing.assert_allclose(
    signals(jnp.asarray(log_p))[0], np.log(p.mean()) - np.array(baseline), atol=1e-6
  )
