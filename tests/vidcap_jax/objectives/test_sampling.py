"""Sampled captions and their gradients are the same however they are computed."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.made_up import L, close, finite
from tests.vidcap_jax.objectives.setups import setup
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding.constraints import WORDS_ONLY, constrain
from vidcap_jax.decoding.unroll import sample, sample_on_tape, teacher_forcing
from vidcap_jax.models.captioner import bind
from vidcap_jax.objectives import sampling, self_critical

pytestmark = pytest.mark.usefixtures('strict_dtypes')
K = 3


def draws(seed=0, B=8):
  return jax.random.uniform(jax.random.key(seed), (L, B, K))


def test_the_tape_draws_what_the_sampler_draws(model):
  @functools.partial(jax.jit, static_argnames='train')
  def both(params, inputs, draws, train):
    captioner = bind(model.module, params)
    noise = captioner.noise(jax.random.key(1), inputs, K, L)
    memory = captioner.encode(inputs, noise.encoder if train else None, train=train)
    steps = noise.steps if train else None
    plain = sample(captioner, memory, draws, noise=steps, train=train)
    return plain, sample_on_tape(captioner, memory, draws, steps, train=train)[0]

  for train in (False, True):
    plain, tokens = both(model.params, model.inputs, draws(), train)
    np.testing.assert_array_equal(tokens, plain.tokens)
    assert len(np.unique(tokens.reshape(-1, L), axis=0)) > 8  # the captions differ


def test_both_gradients_are_the_same(model):
  """Samples, log-probabilities and gradients: from the sampling itself, and from reading again,
  all at once or in parts, at any temperature."""

  def tempered(params):
    return sampling.tempered(bind(model.module, params), 0.7)

  @functools.partial(jax.jit, static_argnames=('gradient', 'parts'))
  def grads(params, inputs, gradient, parts=1):
    def loss(params):
      captioner, key = tempered(params), jax.random.key(0)
      if gradient == 'tape':
        tokens, log_prob, drawn = sampling.sample_captions_on_tape(captioner, inputs, key, K, L)
      else:
        still = tempered(jax.lax.stop_gradient(params))
        tokens = sampling.sample_captions(still, inputs, key, K, L)
        log_prob, drawn = sampling.replay(captioner, inputs, key, tokens, parts)
      advantage = jnp.arange(tokens.size // L, dtype=jnp.float32).reshape(tokens.shape[:-1])
      return self_critical.policy_loss(log_prob + drawn, tokens, advantage), (tokens, log_prob)

    return jax.value_and_grad(loss, has_aux=True)(params)

  (a, (tokens, log_prob)), on_tape = grads(model.params, model.inputs, 'tape')
  is_word = np.asarray(tokens) != PAD
  for parts in (1, 4) if model is setup('temporal') else (1,):
    (b, (again, replayed)), by_reading = grads(model.params, model.inputs, 'replay', parts)
    np.testing.assert_array_equal(tokens, again)
    np.testing.assert_allclose(log_prob[is_word], replayed[is_word], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(a, b, rtol=1e-4)
    close(on_tape, by_reading, 2e-3)
  assert finite(on_tape)


def test_a_temperature():
  """Log-probabilities are those of logits / temperature, and near 0 samples are greedy captions."""
  model = setup('temporal')
  captioner = bind(model.module, model.params)
  cool, cold = sampling.tempered(captioner, 0.5), sampling.tempered(captioner, 1e-6)
  inputs, tokens = model.inputs, jnp.asarray(model.targets)

  @jax.jit
  def both():
    memory = captioner.encode(inputs, None, train=False)
    unrolled = teacher_forcing(captioner, memory, tokens)
    near_zero = sample(cold, memory, draws(), noise=None, train=False).tokens
    logits = constrain(WORDS_ONLY, captioner.logits(unrolled.hidden))  # (L, B, S, V)
    greedy = sampling.greedy_captions(captioner, inputs, L, train=False)
    return logits, sampling.log_probs(cool, unrolled, tokens)[0], near_zero, greedy

  logits, log_prob, near_zero, greedy = map(np.asarray, both())
  power = np.exp(logits.astype(np.float64)) ** 2  # p^(1 / 0.5), not normalised
  prob = power / power.sum(axis=-1, keepdims=True)
  words = np.moveaxis(tokens, -1, 0)[..., None]  # (L, B, S, 1)
  expected = np.moveaxis(np.take_along_axis(prob, words, axis=-1)[..., 0], 0, -1)
  is_word = np.asarray(tokens) != PAD
  np.testing.assert_allclose(np.exp(log_prob)[is_word], expected[is_word], rtol=1e-4)
  np.testing.assert_array_equal(near_zero, np.broadcast_to(greedy, near_zero.shape))


@pytest.mark.parametrize('train', [True, False])
def test_greedy_captions_share_what_is_annealed_with_samples(train):
  """Unless they are asked for as evaluation makes them."""
  model, calls = setup('stats'), []
  captioner = bind(model.module, model.params)

  def encode(inputs, noise, *, train):
    calls.append((inputs.progress, noise, train))
    return captioner.encode(inputs, noise, train=train)

  def step(carry, x, memory, noise, *, train):
    calls.append((None, noise, train))
    return captioner.step(carry, x, memory, noise, train=train)

  watched = dataclasses.replace(captioner, encode=encode, step=step)
  inputs = model.inputs.replace(progress=jnp.float32(0.25))
  sampling.greedy_captions(watched, inputs, L, train=train)
  assert calls[0] == (0.25 if train else None, None, train)
  assert set(calls[1:]) == {(None, None, train)}
