"""The video-semantic embedding's encoders: what padding, batch mates and precision may change."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import Case
from tests.made_up import GARBAGE, close, dirty, finite, make_inputs, rows
from tests.made_up import make_targets as make_captions
from vidcap_jax import models
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.distributed.mesh import make_mesh, replicated, to_devices
from vidcap_jax.models.captioner import init_params
from vidcap_jax.models.embedding import unit
from vidcap_jax.objectives.embedding import hinge

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H = 11, 8
STREAMS = {'audio': (3,), 'image': (5, 4), 'grid': (2, 6, 5), 'objects': (3, 4, 5)}
SETTINGS = {
  'name': 'embedding',
  'streams': tuple(STREAMS),
  'hidden': H,
  'embed': 6,
  'dropout': 0.5,
}
INPUTS = make_inputs(Case('embedding', SETTINGS, STREAMS))
CAPTIONS = make_captions()


def embed(module, params, inputs, captions, noise=None):
  """Videos (B, H) and captions (B, S, H)."""
  call = functools.partial(module.apply, {'params': params})
  encoder, steps = (noise.encoder, noise.steps) if noise else (None, None)
  return (
    call(inputs, encoder, method='embed_videos'),
    call(captions, captions != PAD, steps, method='embed_captions'),
  )


def loss(module, params, inputs, captions, key):
  """With dropout."""
  noise = module.apply({'params': params}, key, inputs, *captions.shape[1:], method='noise')
  videos, texts = embed(module, params, inputs, captions, noise)
  return hinge(videos, texts, (captions != PAD).any(axis=-1))[0]


MODULE = models.build(SETTINGS, V)
FORWARD = jax.jit(functools.partial(embed, MODULE))
GRADS = jax.jit(jax.value_and_grad(functools.partial(loss, MODULE)))


@pytest.fixture(scope='module')
def params():
  shapes = jax.eval_shape(
    functools.partial(init_params, MODULE), jax.random.key(0), rows(INPUTS, slice(1))
  )
  rng = np.random.default_rng(3)
  return jax.tree.map(lambda x: rng.normal(size=x.shape, scale=0.5).astype(x.dtype), shapes)


def test_parameters_at_the_start():
  params = init_params(MODULE, jax.random.key(0), rows(INPUTS, slice(1)))
  assert set(params) == {'project', 'words', 'gru'}
  assert params['words']['embedding'].shape == (V, 6)
  assert params['project']['kernel'].shape == (3 + 4 + 5 + 5, H)
  assert finite(params)


def test_lengths_are_one(params):
  videos, captions = FORWARD(params, INPUTS, CAPTIONS)
  assert videos.shape == (8, H)
  assert captions.shape == (8, 2, H)
  close(np.linalg.norm(videos, axis=-1), np.ones(8))
  used = (CAPTIONS != PAD).any(axis=-1)
  assert not used.all()
  close(np.linalg.norm(captions, axis=-1), used.astype(np.float32))


def test_means_and_gru_by_hand(params):
  """Against numpy, word after word, with the state's last value before the padding."""
  videos, captions = FORWARD(params, INPUTS, CAPTIONS)
  means = []
  for name in STREAMS:
    x, mask = INPUTS.features[name], INPUTS.masks[name]
    x, mask = x.reshape(8, -1, x.shape[-1]), mask.reshape(8, -1)
    means.append([r[m].mean(axis=0) if m.any() else 0 * r[0] for r, m in zip(x, mask)])
  joined = np.concatenate([np.stack(m) for m in means], axis=-1)
  expected = joined @ params['project']['kernel'] + params['project']['bias']
  close(videos, expected / np.linalg.norm(expected, axis=-1, keepdims=True))

  gru, sigmoid = params['gru'], lambda x: 1 / (1 + np.exp(-x))
  h = np.zeros(H, np.float32)
  for word in CAPTIONS[0, 0][CAPTIONS[0, 0] != PAD]:
    x = params['words']['embedding'][word] @ gru['input']['kernel'] + gru['input']['bias']
    xr, xz, xn = np.split(x, 3)
    hr, hz, hn = np.split(h @ gru['state']['kernel'], 3)
    z = sigmoid(xz + hz)
    h = (1 - z) * np.tanh(xn + sigmoid(xr + hr) * (hn + gru['bias'])) + z * h
  close(captions[0, 0], h / np.linalg.norm(h))


def test_padding_may_hold_anything_and_has_no_gradient(params):
  clean = dirty(INPUTS, 0.0)
  expected = FORWARD(params, clean, CAPTIONS)
  value, grads = GRADS(params, clean, CAPTIONS, jax.random.key(0))
  assert finite((expected, value, grads))
  for garbage in GARBAGE:
    broken = dirty(INPUTS, garbage)
    close(FORWARD(params, broken, CAPTIONS), expected)
    close(GRADS(params, broken, CAPTIONS, jax.random.key(0)), (value, grads))


def test_neither_batch_mates_nor_longer_batches_change_anything(params):
  videos, captions = FORWARD(params, INPUTS, CAPTIONS)
  one = rows(INPUTS, slice(1, 2))

  def longer(x, name):
    return x if len(STREAMS[name]) == 1 else np.pad(x, [(0, 0), (0, 3), *[(0, 0)] * (x.ndim - 2)])

  one = one.replace(
    features={name: longer(x, name) for name, x in one.features.items()},
    masks={name: longer(x, name) for name, x in one.masks.items()},
  )
  words = np.pad(CAPTIONS[1:2], ((0, 0), (0, 1), (0, 4)))
  alone = FORWARD(params, one, words)
  close(alone[0][0], videos[1])
  close(alone[1][0, :2], captions[1])
  broken = jax.tree.map(lambda x: np.full_like(x, np.nan), INPUTS.features)
  mates = INPUTS.replace(
    features={
      n: np.where(np.arange(8).reshape(-1, *[1] * (x.ndim - 1)) == 1, x, broken[n])
      for n, x in INPUTS.features.items()
    }
  )
  close(FORWARD(params, mates, CAPTIONS)[0][1], videos[1])


def test_one_frame(params):
  """Row 2 has one frame of each: as much as a batch of one-frame videos says."""
  short = lambda x, name: x[:, :1] if len(STREAMS[name]) > 1 else x  # noqa: E731
  one = INPUTS.replace(
    features={name: short(x, name) for name, x in INPUTS.features.items()},
    masks={name: short(x, name) for name, x in INPUTS.masks.items()},
  )
  close(FORWARD(params, one, CAPTIONS)[0][2], FORWARD(params, INPUTS, CAPTIONS)[0][2])


def test_missing_streams_count_as_zeros(params):
  whole = FORWARD(params, INPUTS, CAPTIONS)[0]
  for name in STREAMS:
    masks = {**INPUTS.masks, name: np.zeros_like(INPUTS.masks[name])}
    zeros = {**INPUTS.features, name: np.zeros_like(INPUTS.features[name])}
    without = FORWARD(params, dirty(INPUTS.replace(masks=masks), np.nan), CAPTIONS)[0]
    close(without, FORWARD(params, INPUTS.replace(features=zeros), CAPTIONS)[0])
    assert np.abs(without - whole).max() > 1e-3


def test_gradients_reach_every_parameter_and_are_finite_without_anything(params):
  _, grads = GRADS(params, INPUTS, CAPTIONS, jax.random.key(0))
  assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(grads))
  nothing = INPUTS.replace(masks=jax.tree.map(np.zeros_like, INPUTS.masks))
  zero = {**params, 'project': jax.tree.map(np.zeros_like, params['project'])}
  for captions in (CAPTIONS, np.zeros_like(CAPTIONS)):
    assert finite(GRADS(zero, dirty(nothing, np.nan), captions, jax.random.key(0)))


def test_dropout_is_replayed(params):
  first = GRADS(params, INPUTS, CAPTIONS, jax.random.key(0))
  again = GRADS(params, INPUTS, CAPTIONS, jax.random.key(0))
  jax.tree.map(np.testing.assert_array_equal, again, first)
  assert GRADS(params, INPUTS, CAPTIONS, jax.random.key(1))[0] != first[0]


def test_eight_devices_give_what_one_gives(params):
  """Negatives are searched in the whole batch, wherever its rows are."""
  mesh = make_mesh(data=8)
  batch = to_devices({'inputs': INPUTS, 'captions': CAPTIONS}, mesh)
  there = jax.device_put(params, replicated(mesh))
  value, grads = GRADS(there, batch['inputs'], batch['captions'], jax.random.key(0))
  assert len(value.sharding.device_set) == 8
  close((value, jax.device_get(grads)), GRADS(params, INPUTS, CAPTIONS, jax.random.key(0)))


def test_bfloat16(params):
  module = models.build(SETTINGS, V, 'bfloat16')
  forward = jax.jit(functools.partial(embed, module))
  made = forward(params, dirty(INPUTS, 0.0), CAPTIONS)
  assert all(x.dtype == jnp.float32 for x in made)
  close(forward(params, dirty(INPUTS, np.nan), CAPTIONS), made, 3e-2)
  close(made, FORWARD(params, INPUTS, CAPTIONS), 5e-2)
  grads = jax.jit(jax.value_and_grad(functools.partial(loss, module)))
  assert finite(grads(params, dirty(INPUTS, np.nan), CAPTIONS, jax.random.key(0)))


def test_unit():
  x = jnp.array([[3.0, 4.0], [0.0, 0.0], [1e-25, 0.0]])
  close(unit(x)[:2], np.array([[0.6, 0.8], [0, 0]], np.float32))
  assert finite(jax.jacobian(unit)(x))
