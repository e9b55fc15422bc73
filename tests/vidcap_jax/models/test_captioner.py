"""Tests that hold for every captioner, run on the cases of ``tests/cases.py``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import CASES, EVERY_TIME, V
from tests.made_up import (
  GARBAGE,
  B,
  L,
  S,
  Setup,
  clock,
  close,
  dirty,
  finite,
  make_inputs,
  rows,
)
from vidcap_jax import models
from vidcap_jax.data.vocabulary import EOS, PAD, UNK
from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.unroll import greedy, shift_right, teacher_forcing
from vidcap_jax.distributed.mesh import make_mesh, replicated, to_devices
from vidcap_jax.models.captioner import bind, init_params, is_captioner
from vidcap_jax.objectives.cross_entropy import summed
from vidcap_jax.objectives.word_log_probs import smoothed_log_probs, token_log_probs

pytestmark = pytest.mark.usefixtures('strict_dtypes')


def test_every_captioner_is_among_the_cases():
  captioners = {name for name, (_, module) in models.MODELS.items() if is_captioner(module)}
  assert {case.settings['name'] for case in CASES} == captioners
  assert set(EVERY_TIME) < {case.name for case in CASES}


def marked(case):
  return pytest.param(case, marks=() if case.name in EVERY_TIME else pytest.mark.slow, id=case.name)


@pytest.fixture(scope='module', params=map(marked, CASES))
def setup(request):
  return Setup(request.param)


# The tests that take longest to compile run for these three, the others are marked slow: a plain
# scan, one with attention and one with discrete choices.
FEW = ('vanilla', 'temporal', 'global2local')


def marked_but_few(case):
  return pytest.param(case, marks=() if case.name in FEW else pytest.mark.slow, id=case.name)


@pytest.fixture(scope='module', params=map(marked_but_few, CASES))
def costly(request):
  return Setup(request.param)


def test_padding_may_hold_anything(setup):
  clean = setup.logits(dirty(setup.inputs, 0.0))
  assert finite(clean)
  for garbage in GARBAGE:
    close(setup.logits(dirty(setup.inputs, garbage)), clean)


def test_padding_has_no_gradient(costly):
  clean = costly.grads(dirty(costly.inputs, 0.0))
  for garbage in GARBAGE:
    close(costly.grads(dirty(costly.inputs, garbage)), clean)


def test_a_video_does_not_depend_on_the_rest_of_its_batch(setup):
  """Not even if the features of the rest are NaN."""
  logits = setup.logits(setup.inputs)
  other = make_inputs(setup.case, seed=5)
  broken = jax.tree.map(lambda x: np.full_like(x, np.nan), other.features)
  for row, rest in ((0, other), (1, other.replace(features=broken))):
    mixed = jax.tree.map(np.copy, rest)
    for source, target in zip(jax.tree.leaves(setup.inputs), jax.tree.leaves(mixed)):
      target[row] = source[row]
    close(setup.logits(mixed)[row], logits[row])


def test_neither_batch_size_nor_padded_length_changes_anything(setup):
  streams = setup.case.streams

  def longer(x, name):
    if len(streams[name]) == 1:
      return x
    return np.pad(x, [(0, 0), (0, 3 * clock(setup.case, name)[0]), *[(0, 0)] * (x.ndim - 2)])

  one = rows(setup.inputs, slice(1, 2))
  padded = one.replace(
    features={name: longer(x, name) for name, x in one.features.items()},
    masks={name: longer(x, name) for name, x in one.masks.items()},
  )
  alone = setup.logits(padded, setup.targets[1:2])
  close(alone[0], setup.logits(setup.inputs)[1])


def test_one_frame_is_enough(setup):
  """Row 2 has one frame: its logits are those in a batch that is padded to one frame only."""
  streams = setup.case.streams

  def short(x, name):
    return x[:, : clock(setup.case, name)[0]] if len(streams[name]) > 1 else x

  one = setup.inputs.replace(
    features={name: short(x, name) for name, x in setup.inputs.features.items()},
    masks={name: short(x, name) for name, x in setup.inputs.masks.items()},
  )
  close(setup.logits(one)[2], setup.logits(setup.inputs)[2])


def test_missing_streams(setup):
  """Logits are finite without a stream, and don't depend on the values in its padding."""
  for name in setup.case.streams:
    masks = {**setup.inputs.masks, name: np.zeros_like(setup.inputs.masks[name])}
    without = setup.inputs.replace(masks=masks)
    logits = setup.logits(without)
    assert finite(logits)
    close(setup.logits(dirty(without, np.nan)), logits)
    assert (
      np.abs(logits - setup.logits(setup.inputs)).max() > 1e-3
    )  # the model does read the stream


def test_attention_weights(setup):
  """They sum to 1, or are all 0 if nothing is valid."""
  _, attention = setup.forward(setup.params, dirty(setup.inputs, np.nan), setup.targets)
  assert set(attention) == set(setup.case.attention)
  for name, weights in attention.items():
    assert weights.shape[:3] == (L, B, S)
    weights = np.asarray(weights)
    assert (weights[: setup.case.first_attention] == 0).all()
    weights = weights[setup.case.first_attention :]
    assert (weights >= 0).all()
    nothing = (weights == 0).all(axis=-1)
    assert (nothing == nothing[:1, :, :1]).all()
    # Attention to earlier words and to the two branches doesn't need frames.
    of_video = name.rpartition('/')[2] not in ('words', 'branch')
    assert nothing[0, 3, 0].all() == of_video
    assert not nothing[0, :2].any()
    np.testing.assert_allclose(weights.sum(axis=-1), ~nothing, atol=1e-5)


def test_edit_replaces_the_weights(setup):
  asked = set()

  def first_slot(name, weights, mask):
    asked.add(name)
    assert mask.shape == weights.shape
    return jnp.zeros_like(weights).at[..., 0].set(1.0)

  module = models.build({**setup.case.settings, 'edit': first_slot}, V)
  forward = jax.jit(functools.partial(Setup._forward, module))
  logits, attention = forward(setup.params, setup.inputs, setup.targets)
  assert asked == set(setup.case.attention)
  if not asked:
    close(logits, setup.logits(setup.inputs))
    return
  for weights in attention.values():
    weights = weights[setup.case.first_attention :]
    np.testing.assert_array_equal(weights[..., 0], 1)
    np.testing.assert_array_equal(weights[..., 1:], 0)
  assert np.abs(logits - setup.logits(setup.inputs))[0].max() > 1e-3


def test_teacher_forcing_is_one_step_after_another(setup):
  """With dropout, too: the same noise is replayed exactly."""

  @jax.jit
  def run(params, inputs, targets, key):
    captioner = bind(setup.module, params)
    noise = captioner.noise(key, inputs, S, L)

    memory = captioner.encode(inputs, noise.encoder, train=True)
    unrolled = teacher_forcing(captioner, memory, targets, noise.steps, train=True)
    carry, by_hand = captioner.start(memory, S, L), []
    for t, words in enumerate(shift_right(targets)[:3]):
      noise_t = jax.tree.map(lambda x, t=t: x[t], noise.steps)
      x = captioner.embed(words, noise_t)
      carry, hidden, extras = captioner.step(carry, x, memory, noise_t, train=True)
      assert extras.aux.shape == (B, S)
      assert all(x.shape[:2] == (B, S) for x in jax.tree.leaves(carry))
      by_hand.append(captioner.logits(hidden))
    return captioner.logits(unrolled.hidden), jnp.stack(by_hand)  # (L, B, S, V)

  args = (setup.params, setup.inputs, setup.targets)
  logits, by_hand = run(*args, jax.random.key(0))
  close(by_hand, logits[:3])
  quiet = np.moveaxis(setup.logits(setup.inputs), 2, 0)
  assert np.abs(logits - quiet).max() > 1e-2
  np.testing.assert_array_equal(run(*args, jax.random.key(0))[0], logits)
  assert not np.array_equal(run(*args, jax.random.key(1))[0], logits)


def test_gradients_reach_every_parameter(setup):
  loss, words, grads = setup.grads(setup.inputs)
  assert words == (setup.targets != PAD).sum()
  assert np.isfinite(loss)
  assert finite(grads)
  for part, of_part in grads.items():
    reached = [np.abs(g).max() > 0 for g in jax.tree.leaves(of_part)]
    assert not any(reached) if part in setup.case.no_gradient else all(reached)


def test_gradients_are_finite_when_everything_is_masked(setup):
  nothing = dirty(
    setup.inputs.replace(masks=jax.tree.map(np.zeros_like, setup.inputs.masks)), np.nan
  )
  loss, words, grads = setup.grads(nothing)
  assert words > 0
  assert np.isfinite(loss)
  assert finite(grads)
  loss, words, grads = setup.grads(nothing, np.zeros_like(setup.targets))
  assert loss == words == 0
  assert all((g == 0).all() for g in jax.tree.leaves(grads))


def test_eight_devices_give_what_one_gives(costly):
  mesh = make_mesh(data=8)
  batch = to_devices({'inputs': costly.inputs, 'targets': costly.targets}, mesh)
  params = jax.device_put(costly.params, replicated(mesh))
  (loss, words), grads = costly.loss(params, batch['inputs'], batch['targets'], jax.random.key(0))
  assert len(loss.sharding.device_set) == 8
  expected = costly.grads(costly.inputs)
  np.testing.assert_allclose([loss, words], expected[:2], rtol=1e-5)
  close(jax.device_get(grads), expected[2])


def test_bfloat16(costly):
  module = models.build(costly.case.settings, V, 'bfloat16')
  shapes = jax.eval_shape(
    functools.partial(init_params, module), jax.random.key(0), rows(costly.inputs, slice(1))
  )
  assert shapes == jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float32), costly.params)

  def loss(params, inputs, targets):
    logits, attention = Setup._forward(module, params, inputs, targets)
    assert logits.dtype == jnp.bfloat16
    assert all(weights.dtype == jnp.float32 for weights in attention.values())
    total, _ = summed(smoothed_log_probs(logits, targets), targets)
    assert total.dtype == jnp.float32
    return total, token_log_probs(logits, targets)

  run = jax.jit(jax.value_and_grad(loss, has_aux=True))
  (_, clean), grads = run(costly.params, dirty(costly.inputs, 0.0), costly.targets)
  assert finite(grads)
  for garbage in (1e4, np.nan):
    (_, moved), grads = run(costly.params, dirty(costly.inputs, garbage), costly.targets)
    assert finite(grads)
    close(moved, clean, 3e-2)
  exact = token_log_probs(costly.logits(costly.inputs), costly.targets)
  assert np.abs(np.asarray(clean) - exact).max() < 0.15


def test_greedy_beam_and_teacher_forcing_agree(setup):
  @jax.jit
  def run(params, inputs):
    captioner = bind(setup.module, params)
    memory = captioner.encode(inputs, None, train=False)
    return greedy(captioner, memory, L), beam_search(captioner, memory, L, 1)

  best, beam = run(setup.params, setup.inputs)
  np.testing.assert_array_equal(best.tokens, beam.tokens)
  close(best.log_prob, beam.log_prob)
  assert len(np.unique(best.tokens[:, 0], axis=0)) > 1

  tokens = np.repeat(best.tokens, S, axis=1)
  logits = setup.logits(setup.inputs, tokens)
  scores = np.where(tokens == PAD, 0, token_log_probs(logits, tokens))
  close(scores.sum(axis=-1)[:, :1], best.log_prob)
  likeliest = np.where(np.isin(np.arange(V), [EOS, *range(UNK + 1, V)]), logits, -np.inf)
  np.testing.assert_array_equal(np.where(tokens == PAD, PAD, likeliest.argmax(axis=-1)), tokens)
