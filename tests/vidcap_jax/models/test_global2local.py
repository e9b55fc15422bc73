"""Global2Local beyond its equations: variants, noise, clocks and wrong settings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.models import build
from vidcap_jax.models.captioner import Inputs, bind, init_params

pytestmark = pytest.mark.usefixtures('strict_dtypes')

SIZES = {'hidden': 8, 'embed': 6, 'project': 7, 'project_regions': 6, 'aligned': 4, 'attention': 5}
SETTINGS = {'name': 'global2local', **SIZES, 'dropout': 0.0}
B, S, T, N = 2, 3, 12, 4


def make_inputs(seed=0):
  rng = np.random.default_rng(seed)
  shapes = {'image': (B, T, 5), 'motion': (B, T, 3), 'objects': (B, T // 3, N, 4)}
  features = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
  return Inputs(features, {name: np.ones(shape[:-1], bool) for name, shape in shapes.items()})


def made(inputs, **settings):
  """A module of these settings with parameters larger than initial ones."""
  module = build({**SETTINGS, **settings}, 11)
  params = init_params(module, jax.random.key(0), inputs)
  rng = np.random.default_rng(1)
  return module, jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), params)


def second_step(module, params, inputs, noise=None):
  """Attention at the second word: at the first the state is zero and attention even."""
  captioner = bind(module, params)
  memory = captioner.encode(inputs, None, train=noise is not None)
  carry = captioner.start(memory, S, 2)
  for t in range(2):
    x = captioner.embed(jnp.asarray([[1, 2, 3]] * B), None)
    noise_t = jax.tree.map(lambda x, t=t: x[t], noise)
    carry, hidden, extras = captioner.step(carry, x, memory, noise_t, train=noise is not None)
  return hidden, extras.attention


def test_the_picked_frames_are_those_of_most_weight():
  inputs = make_inputs()
  module, params = made(inputs, picks=3)
  _, attention = second_step(module, params, inputs)
  sparse = attention['temporal'].reshape(B, S, T // 3, 3).mean(-1)
  expected = np.argsort(-sparse, axis=-1)[..., :3]
  np.testing.assert_array_equal(attention['keyframe'].argmax(-1), expected)
  assert attention['spatial'].shape == (B, S, 3, N)


def test_noise_is_new_for_every_pick_word_and_row_and_absent_at_test():
  inputs = make_inputs()
  module, params = made(inputs)
  noise = bind(module, params).noise(jax.random.key(0), inputs, S, 4).steps
  assert noise['gumbel'].shape == (4, B, S, 2, T // 3)
  assert len(np.unique(noise['gumbel'])) == noise['gumbel'].size
  quiet, attention = second_step(module, params, inputs)
  np.testing.assert_array_equal(second_step(module, params, inputs)[0], quiet)
  drawn = [
    second_step(module, params, inputs, {'gumbel': noise['gumbel'] * scale})[1]['keyframe']
    for scale in (1, 0)
  ]
  assert (drawn[0].argmax(-1) != attention['keyframe'].argmax(-1)).any()
  np.testing.assert_array_equal(drawn[1], attention['keyframe'])
  still = build({**SETTINGS, 'sampler': 'argmax'}, 11)
  assert 'gumbel' not in bind(still, params).noise(jax.random.key(0), inputs, S, 4).steps


def test_a_frame_without_regions_is_not_picked():
  inputs = make_inputs()
  module, params = made(inputs)
  first = second_step(module, params, inputs)[1]['keyframe'].argmax(-1)[0, 0, 0]
  inputs.masks['objects'][0, first] = False
  picks = second_step(module, params, inputs)[1]['keyframe']
  assert (picks[0, ..., first] == 0).all()
  np.testing.assert_allclose(picks.sum(-1), 1, rtol=1e-5)


def test_renormalised_weights_change_only_soft_picks():
  """At tau 1e-4 a pick uses its weight up, be that a third or the whole of 1."""
  inputs = make_inputs()
  for tau, same in ((1e-4, True), (0.5, False)):
    picks = []
    for renormalise in (False, True):
      module, params = made(inputs, renormalise=renormalise, tau=tau)
      picks.append(second_step(module, params, inputs)[1]['keyframe'])
    assert np.allclose(*picks, atol=1e-3) == same


def test_what_each_variant_needs():
  streams = lambda **settings: build({**SETTINGS, **settings}, 11).config.needs  # noqa: E731
  whole = streams()
  assert set(whole.streams) == {'image', 'motion', 'objects'}
  assert dict(whole.blocks) == {'image': 3, 'motion': 3, 'objects': 1}
  plain = streams(picks=0)
  assert set(plain.streams) == {'image', 'motion'}
  assert dict(plain.blocks) == {'image': 1, 'motion': 1}
  assert set(streams(picks=0, alignment=False, clip_stream='image').streams) == {'image'}
  assert dict(streams(stride=1).blocks) == {'image': 1, 'motion': 1, 'objects': 1}


@pytest.mark.parametrize(
  ('settings', 'message'),
  [
    ({'tau': 0.0}, r'model.tau .* 0.0, 10.0 and 0.0'),
    ({'tau': -1e-4}, 'model.tau'),
    ({'scale': 0.0}, 'model.scale'),
    ({'backward_tau': -1.0}, 'model.backward_tau .*-1.0'),
    ({'activation': 'gelu'}, "model.activation 'gelu'.*relu, sigmoid, tanh"),
    ({'sampler': 'topk'}, "model.sampler 'topk'.*gumbel, argmax"),
    ({'picks': -1}, 'model.picks .*-1'),
    ({'stride': 0}, 'model.stride .*0'),
    ({'alignment': False}, 'model.picks=2 needs model.alignment'),
  ],
)
def test_wrong_settings(settings, message):
  with pytest.raises(ConfigError, match=message):
    build({**SETTINGS, **settings}, 11)


def test_streams_off_the_clock():
  inputs = make_inputs()
  module, params = made(inputs)
  features = {**inputs.features, 'objects': inputs.features['objects'][:, 1:]}
  masks = {**inputs.masks, 'objects': inputs.masks['objects'][:, 1:]}
  with pytest.raises(ConfigError, match=r"'objects': 3}.*clock.*: 3"):
    bind(module, params).encode(Inputs(features, masks), None, train=False)
