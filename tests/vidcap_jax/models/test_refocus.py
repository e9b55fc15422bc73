import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Inputs, bind, init_params
from vidcap_jax.models.refocus import Refocus, RefocusConfig

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H, A, D, B, T, N = 11, 8, 5, 6, 4, 5, 3

LENGTHS = np.array([5, 4, 1, 0])


def config(**changes):
  return RefocusConfig(vocab_size=V, **{'hidden': H, 'embed': H, 'attention': A, **changes})


def inputs(key_frame=None):
  """A grid whose frames have gaps among their cells, and audio that two videos lack."""
  rng = np.random.default_rng(0)
  frames = np.arange(T)[None] < LENGTHS[:, None]
  return Inputs(
    {
      'image': rng.normal(size=(B, T, N, D)).astype(np.float32),
      'audio': rng.normal(size=(B, 2)).astype(np.float32),
    },
    {
      'image': frames[..., None] & (rng.random((B, T, N)) < 0.8).astype(bool),
      'audio': np.array([True, False, True, False]),
    },
    key_frame=key_frame,
  )


# ---------------------------------------------------------------- features


def test_temporal_and_spatial_features_of_a_grid():
  """Equations 2 and 3: means over cells and over frames, of what there is."""
  module, some = Refocus(config()), inputs()
  x, mask = some.features['image'], some.masks['image'][..., None]
  mean = lambda axis: (x * mask).sum(axis) / np.maximum(mask.sum(axis), 1)  # noqa: E731
  frames, cells = module.apply(
    {}, method=lambda m: (m.temporal_features(some), m.spatial_features(some))
  )
  np.testing.assert_allclose(frames[0], mean(2), atol=1e-6)
  np.testing.assert_array_equal(frames[1], some.masks['image'].any(axis=2))
  np.testing.assert_allclose(cells[0], mean(1), atol=1e-6)
  np.testing.assert_array_equal(cells[1], some.masks['image'].any(axis=1))


def test_needs():
  assert dict(config().needs.streams) == {'image': ('grid',), 'audio': ('vector', 'sequence')}
  assert config().needs.key_frames
  assert dict(config(spatial_stream='cells', audio_stream='').needs.streams) == {
    'image': ('sequence', 'grid'),
    'cells': ('grid',),
  }
  needs = config(passes=0, spatial_stream='', audio_stream='').needs
  assert dict(needs.streams) == {'image': ('sequence', 'grid')}
  assert not needs.key_frames


# ---------------------------------------------------------------- key frames


@pytest.fixture(scope='module')
def captioner():
  module = Refocus(config())
  params = jax.jit(lambda key: init_params(module, key, inputs()))(jax.random.key(0))
  return bind(module, params)


def test_key_frames(captioner):
  """Its own where none is known, which is the frame of the largest weight; else the given one."""
  encode = jax.jit(lambda inputs: captioner.encode(inputs, None))
  own = encode(inputs())
  np.testing.assert_array_equal(own.focus.key_frame, np.argmax(own.focus.weights, axis=1))
  assert (own.focus.key_frame < np.maximum(LENGTHS, 1)).all()
  unknown = encode(inputs(np.full(B, -1, np.int32)))
  jax.tree.map(np.testing.assert_array_equal, own, unknown)
  given = np.array([(own.focus.key_frame[0] + 2) % T, -1, 0, 0], np.int32)
  fixed = encode(inputs(given))
  expected = np.where(given < 0, own.focus.key_frame, given)
  np.testing.assert_array_equal(fixed.focus.key_frame, expected)
  moved = np.abs(np.asarray(fixed.passes.code) - own.passes.code).max(axis=-1) > 1e-4
  # The first pass goes out from the middle whatever is given, the second from the given frame.
  np.testing.assert_array_equal(moved, [[False, True], *[[False, False]] * 3])


def test_the_first_of_equal_frames():
  """All frames alike: every score is the same, and the first is chosen."""
  module = Refocus(config(spatial_stream='', audio_stream=''))
  some = inputs()
  x = np.broadcast_to(some.features['image'][:, :1, :1], (B, T, N, D))
  alike = some.replace(features={'image': x}, masks={'image': some.masks['image']})

  @jax.jit
  def run(key):
    params = init_params(module, key, alike)
    return bind(module, params).encode(alike, None).focus

  focus = run(jax.random.key(0))
  first = np.argmax(some.masks['image'].any(axis=2), axis=1)
  np.testing.assert_array_equal(focus.key_frame, first)


def test_a_single_pass_goes_out_from_the_given_frame():
  module = Refocus(config(passes=1, audio_stream=''))

  @jax.jit
  def codes(key, *key_frames):
    params = init_params(module, key, inputs())
    encode = bind(module, params).encode
    return [encode(inputs(frame), None).passes.code[:, 0] for frame in (None, *key_frames)]

  middle = np.array([2, 2, 0, 0], np.int32)
  last = np.array([4, -1, 0, 0], np.int32)
  own, same, other = codes(jax.random.key(0), middle, last)
  np.testing.assert_array_equal(own, same)
  assert (np.abs(np.asarray(other - own)).max(axis=-1) > 1e-4).tolist() == [True, *[False] * 3]


def test_unrollers_go_by_the_last_pass(captioner):
  @jax.jit
  def run(word):
    memory = captioner.encode(inputs(), None)

    def first_step(memory):
      carry = captioner.start(memory, 1, 2)
      return captioner.step(carry, captioner.embed(word, None), memory, None)[1]

    return memory.each_pass(first_step), first_step(memory)

  each, last = run(jnp.full((B, 1), 5, jnp.int32))
  np.testing.assert_allclose(each[1], last, atol=1e-6)
  assert np.abs(each[0] - each[1]).max() > 1e-4


def test_drawn_key_frames_have_the_probabilities_of_their_weights():
  """While training; otherwise, and without noise, the largest weight decides."""
  module = Refocus(config(sampler='categorical', audio_stream=''))
  some, draws = inputs(), 400

  @jax.jit
  def run(key):
    params = init_params(module, key, some)
    refocus = {**params['refocus'], 'score': 20 * params['refocus']['score']}  # far from uniform
    captioner = bind(module, {**params, 'refocus': refocus})

    def draw(key):
      noise = captioner.noise(key, some, 1, 2).encoder
      return captioner.encode(some, noise, train=True).focus.key_frame

    return captioner.encode(some, None).focus, jax.lax.map(draw, jax.random.split(key, draws))

  focus, drawn = run(jax.random.key(0))
  np.testing.assert_array_equal(focus.key_frame, np.argmax(focus.weights, axis=1))
  shares = np.stack([(drawn == t).mean(axis=0) for t in range(T)], axis=1)  # (B, T)
  np.testing.assert_allclose(shares[:3], focus.weights[:3], atol=4 * 0.5 / draws**0.5)
  assert np.abs(np.asarray(focus.weights[:2]) - 1 / LENGTHS[:2, None]).max() > 0.2
  assert (drawn[:, 2:] == 0).all()  # one valid frame, and none
  assert Refocus(config()).noise(jax.random.key(0), some, 1, 2).encoder == {}


def test_unknown_settings():
  with pytest.raises(ConfigError, match=r'model.passes .*3.*0, 1 or 2'):
    config(passes=3)
  with pytest.raises(ConfigError, match="model.temporal 'soft'.*attention, mean"):
    config(temporal='soft')
  with pytest.raises(ConfigError, match='model.embed .*4, model.hidden 8'):
    config(embed=4)
  assert config(passes=0, embed=4).embed == 4
  with pytest.raises(ConfigError, match='model.sampler .*gumbel.*argmax, categorical'):
    config(sampler='gumbel')
