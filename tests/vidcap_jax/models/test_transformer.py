"""The Transformer captioner against plain numpy, its one pass against its steps."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import CASES, TRANSFORMER, Case, V
from tests.made_up import B, L, S, Setup, close
from tests.vidcap_jax.models import plain_transformer
from tests.x64 import enable_x64
from vidcap_jax.data.vocabulary import EOS, PAD, UNK
from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.ensemble import join
from vidcap_jax.decoding.unroll import sample_on_tape, shift_right, teacher_forcing
from vidcap_jax.models.captioner import Inputs, bind, init_params
from vidcap_jax.models.layers.transformer import LayerNorm
from vidcap_jax.models.transformer import Transformer, TransformerConfig
from vidcap_jax.objectives.word_log_probs import token_log_probs

pytestmark = pytest.mark.usefixtures('strict_dtypes')

NAMES = ('transformer', 'transformer_all_kinds', 'transformer_tied', 'transformer_of_a_set')
PLAIN, ALL_KINDS, TIED, OF_A_SET = NAMES
SMALL = 'small'  # less to compile
ONE_LAYER_EACH = Case(
  SMALL, {**TRANSFORMER, 'decoder_layers': 1}, {'image': (5, 4)}, ('cross',), seed=8
)
ONE_LAYER = {
  'hidden': 8,
  'embed': 8,
  'heads': 2,
  'feed_forward': 8,
  'encoder_layers': 0,
  'decoder_layers': 1,
}


@functools.cache
def setup(name: str) -> Setup:
  return Setup(next(case for case in (*CASES, ONE_LAYER_EACH) if case.name == name))


def in_double(name: str):
  """The module, parameters, inputs of a case in float64; call it under x64."""
  made = setup(name)
  config = dataclasses.replace(made.module.config, dtype=jnp.float64, param_dtype=jnp.float64)
  widen = lambda x: x.astype(np.float64) if x.dtype == np.float32 else x  # noqa: E731
  return Transformer(config), *jax.tree.map(widen, (made.params, made.inputs))


def without_one_pass(captioner):
  return dataclasses.replace(captioner, teacher_force=None)


def forward(module, params, inputs, targets, *, one_pass=True):
  """Logits (L, B, S, V) and weights (L, B, S, heads, N)."""
  captioner = bind(module, params)
  if not one_pass:
    captioner = without_one_pass(captioner)
  memory = captioner.encode(inputs, None, train=False)
  unrolled = teacher_forcing(captioner, memory, targets, attention=True)
  return captioner.logits(unrolled.hidden), unrolled.attention['cross']


# ------------------------------------------------------------------------------ the equations


@pytest.mark.parametrize('name', NAMES)
def test_logits_and_weights_of_plain_numpy(name):
  """Videos with all frames, some, one and none, in float64."""
  with enable_x64(True):
    module, params, inputs = in_double(name)
    targets = setup(name).targets
    logits, weights = jax.jit(functools.partial(forward, module))(params, inputs, targets)
  words = np.asarray(shift_right(targets))
  for b, s in ((0, 0), (1, 0), (2, 1), (3, 1)):
    features, masks = ({n: x[b] for n, x in d.items()} for d in (inputs.features, inputs.masks))
    expected = plain_transformer.logits(params, module.config, features, masks, words[:, b, s])
    np.testing.assert_allclose(logits[:, b, s], expected[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(weights[:, b, s], expected[1], rtol=0, atol=1e-10)


# ------------------------------------------------------------------------------ one pass and steps


def loss_of(module, one_pass):
  """A loss with dropout that every channel of every hidden state enters with its own weight."""

  def loss(params, inputs, targets):
    captioner = bind(module, params)
    if not one_pass:
      captioner = without_one_pass(captioner)
    noise = captioner.noise(jax.random.key(0), inputs, S, L)
    memory = captioner.encode(inputs, noise.encoder, train=True)
    unrolled = teacher_forcing(captioner, memory, targets, noise.steps, train=True, attention=True)
    weights = jnp.sin(jnp.arange(unrolled.hidden.size, dtype=unrolled.hidden.dtype))
    return (weights.reshape(unrolled.hidden.shape) * unrolled.hidden).sum(), unrolled

  return jax.jit(jax.value_and_grad(loss, has_aux=True))


@pytest.mark.parametrize(
  ('name', 'double'),
  [
    (SMALL, True),
    *(pytest.param(n, d, marks=pytest.mark.slow) for n in NAMES for d in (False, True)),
  ],
)
def test_one_pass_is_step_after_step(name, double):
  """Hidden states, weights and gradients, to 1e-5 in float32 and 1e-10 in float64."""
  with enable_x64(double):
    made = setup(name)
    module, params, inputs = in_double(name) if double else (made.module, made.params, made.inputs)
    (found, expected) = (
      loss_of(module, one_pass)(params, inputs, made.targets) for one_pass in (True, False)
    )
  close(jax.device_get(found), jax.device_get(expected), 1e-10 if double else 1e-5)
  assert expected[0][1].hidden.dtype == (np.float64 if double else np.float32)
  assert np.ptp(expected[0][1].hidden, axis=0).max() > 0.1  # the words do differ


def test_samples_are_read_in_one_pass():
  """``sample_on_tape`` then draws what it draws in a scan, with the same gradients."""
  made = setup(SMALL)
  draws = jax.random.uniform(jax.random.key(1), (L, B, S))

  def loss(params, one_pass):
    captioner = bind(made.module, params)
    if not one_pass:
      captioner = without_one_pass(captioner)
    noise = captioner.noise(jax.random.key(0), made.inputs, S, L)
    memory = captioner.encode(made.inputs, noise.encoder, train=True)
    tokens, unrolled = sample_on_tape(captioner, memory, draws, noise.steps)
    log_prob = token_log_probs(jnp.moveaxis(captioner.logits(unrolled.hidden), 0, 2), tokens)
    return jnp.where(tokens != PAD, log_prob, 0).sum(), tokens

  run = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)
  (found, tokens), grads = run(made.params, True)
  (expected, scanned), scan_grads = run(made.params, False)
  np.testing.assert_array_equal(tokens, scanned)
  assert (tokens == PAD).any()
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  close(jax.device_get(grads), jax.device_get(scan_grads), 2e-5)


def test_a_wide_beam_finds_the_best_of_all_captions():
  """The cache moves with the hypotheses: log-probabilities are those of teacher forcing."""
  made, length = setup(SMALL), 3
  words = [w for w in range(V) if w > UNK]
  every = [
    (*prefix, *end)
    for n in range(length + 1)
    for prefix in itertools.product(words, repeat=n)
    for end in ([()] if n == length else [(EOS,)])
  ]
  tokens = np.array([[*c, *[PAD] * (length - len(c))] for c in every], np.int32)
  tokens = np.broadcast_to(tokens, (B, *tokens.shape))

  @jax.jit
  def run(params, inputs):
    captioner = bind(made.module, params)
    memory = captioner.encode(inputs, None, train=False)
    logits = captioner.logits(teacher_forcing(captioner, memory, tokens).hidden)
    scores = token_log_probs(jnp.moveaxis(logits, 0, 2), tokens)
    found = beam_search(captioner, memory, length, 60, n_best=4)
    return found, jnp.where(tokens == PAD, 0, scores).sum(axis=-1)

  found, scores = run(made.params, made.inputs)
  order = np.argsort(-np.asarray(scores), axis=1)[:, :4]
  best = np.take_along_axis(np.asarray(scores), order, axis=1)
  np.testing.assert_allclose(found.log_prob, best, rtol=1e-5)
  np.testing.assert_array_equal(found.tokens, np.take_along_axis(tokens, order[..., None], axis=1))


@pytest.mark.slow
def test_an_ensemble_of_equals_and_of_different_models():
  made, other = setup(SMALL), setup('vanilla')

  @jax.jit
  def run(params, inputs, other_params, other_inputs):
    one, two = bind(made.module, params), bind(other.module, other_params)
    captions = []
    for members, videos in (([one], [inputs]), ([one] * 2, [inputs] * 2),
                            ([one, two], [inputs, other_inputs])):  # fmt: skip
      captioner = join(members)
      memory = captioner.encode(videos, None, train=False)
      captions.append(beam_search(captioner, memory, L, 3))
    return captions

  alone, equals, different = run(made.params, made.inputs, other.params, other.inputs)
  np.testing.assert_array_equal(alone.tokens, equals.tokens)
  np.testing.assert_allclose(alone.log_prob, equals.log_prob, rtol=1e-5)
  assert np.abs(alone.log_prob - different.log_prob).max() > 1e-2


# ------------------------------------------------------------------------------ what is embedded


def permuted(inputs, name, axis):
  """The inputs with the entries of a stream in reverse along an axis, and their masks."""
  flip = lambda d: {**d, name: np.flip(d[name], axis)}  # noqa: E731
  return inputs.replace(features=flip(inputs.features), masks=flip(inputs.masks))


def test_times_and_cells_have_an_order_and_regions_have_none():
  made = setup(ALL_KINDS)
  expected = made.logits(made.inputs)
  for name, axis, has_order in (
    ('image', 1, True), ('i3d', 1, True), ('i3d', 2, True), ('boxes', 1, True), ('boxes', 2, False),
  ):  # fmt: skip
    difference = np.abs(made.logits(permuted(made.inputs, name, axis)) - expected)[0].max()
    assert (difference > 1e-4) if has_order else (difference < 1e-5), (name, axis)


def test_without_positions_a_video_is_a_set():
  made = setup(OF_A_SET)
  expected = made.logits(made.inputs)
  for name, axis in (('image', 1), ('i3d', 1), ('i3d', 2)):
    np.testing.assert_allclose(
      made.logits(permuted(made.inputs, name, axis)), expected, rtol=0, atol=1e-5
    )
  names = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(made.params)]
  assert not [name for name in names if 'places' in name]


def test_the_norm_by_deviation_of_equal_channels():
  """They become zeros, with a finite gradient."""
  norm = LayerNorm('deviation')
  params = norm.init(jax.random.key(0), np.ones((1, 4), np.float32))
  x = np.array([[3, 3, 3, 3], [1, 2, 3, 4]], np.float32)
  np.testing.assert_array_equal(norm.apply(params, x)[0], 0)
  grads = jax.grad(lambda x: jnp.square(norm.apply(params, x)).sum())(x)
  assert np.isfinite(grads).all()


def test_streams_of_equal_features_differ_by_their_type():
  config = TransformerConfig(V, streams=('a', 'b'), **ONE_LAYER)
  features = np.random.default_rng(0).normal(size=(1, 3, 4)).astype(np.float32)
  mask = np.ones((1, 3), bool)
  inputs = Inputs({'a': features, 'b': features}, {'a': mask, 'b': mask})

  @jax.jit
  def run(inputs):
    params = init_params(Transformer(config), jax.random.key(0), inputs)
    # Both streams with the same kernel, each with its bias.
    kernel = params['encoder']['streams_a']['project']['kernel']
    params['encoder']['streams_b']['project']['kernel'] = kernel
    targets = jnp.full((1, 1, 2), 5, jnp.int32)
    return forward(Transformer(config), params, inputs, targets)[1]

  weights = run(inputs)  # (L, B, S, heads, 6)
  assert np.abs(weights[..., :3] - weights[..., 3:]).max() > 1e-4
