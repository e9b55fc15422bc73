import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Inputs, Needs, Noise, bind, init_params
from vidcap_jax.models.stats import Stats, StatsConfig

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H, E, P, A = 11, 8, 6, 7, 5

B, T, N, D = 3, 4, 3, 4


def config(**changes):
  sizes = {'hidden': H, 'embed': E, 'project': P, 'attention': A, 'grid_streams': ('i3d',)}
  return StatsConfig(vocab_size=V, **{**sizes, **changes})


def grid(seed=0, frames=(T, 2, 1)):
  """A stream of videos of so many frames: x (B, T, N, D) and its mask."""
  x = np.random.default_rng(seed).normal(size=(B, T, N, D)).astype(np.float32)
  mask = np.arange(T)[None, :, None] < np.reshape(frames, (-1, 1, 1))
  return x, np.broadcast_to(mask, x.shape[:-1])


def inputs(**changes):
  x, mask = grid()
  return Inputs({'i3d': x}, {'i3d': mask}, **changes)


def shapes_of(**changes):
  init = functools.partial(init_params, Stats(config(**changes)))
  params = jax.eval_shape(init, jax.random.key(0), inputs())
  return {
    '/'.join(k.key for k in path): leaf.shape for path, leaf in jax.tree.leaves_with_path(params)
  }


def attention(name):
  return {
    f'branches_i3d/{name}/key/kernel': (P, A),
    f'branches_i3d/{name}/key/bias': (A,),
    f'branches_i3d/{name}/query/kernel': (H, A),
    f'branches_i3d/{name}/score': (A,),
  }


DECODER = {
  'branches_i3d/features/kernel': (D, P),
  'branches_i3d/features/bias': (P,),
  'words/embedding': (V, E),
  'recall_match/kernel': (E, E),
  'recall/kernel': (E, H),
  'lstm/kernel': (E + P + H, 4 * H),
  'lstm/bias': (4 * H,),
  'output/kernel': (H, V),
  'output/bias': (V,),
}

LSTM = {
  'branches_i3d/pool/input': (P, 4 * P),
  'branches_i3d/pool/state': (P, 4 * P),
  'branches_i3d/pool/bias': (4 * P,),
}

COMBINATION = {
  **{f'branches_i3d/{b}_branch/kernel': (P, A) for b in ('st', 'ts')},
  'branches_i3d/state_branch/kernel': (H, A),
  **{f'branches_i3d/{b}_score': (A,) for b in ('st', 'ts')},
}

ST = {**attention('st_spatial'), **LSTM}
TS = {**attention('ts_temporal'), **attention('ts_spatial')}


def test_parameters_of_the_variants():
  """Each has those of its equations and no more; the branches share none."""
  assert shapes_of() == {**DECODER, **ST, **TS, **COMBINATION}
  assert shapes_of(variant='st') == {**DECODER, **ST}
  assert shapes_of(variant='ts') == {**DECODER, **TS}
  for pooling in ('temporal', 'mean_temporal'):
    assert shapes_of(variant='st', pooling=pooling) == {**DECODER, **attention('st_temporal')}
  mean = shapes_of(variant='st', pooling='mean')
  assert mean == {**DECODER, **attention('st_spatial')}


def test_the_paper_s_sizes():
  c = StatsConfig(vocab_size=V)
  assert (c.hidden, c.embed, c.project, c.attention) == (512, 256, 512, 128)
  assert (c.variant, c.pooling, c.rank_margin, c.temperature) == (
    'stats',
    'mean_ranked',
    1.0,
    (1.0, 0.01),
  )


def test_what_is_needed():
  several = config(region_streams=('boxes',), sequence_streams=('audio',), categories=20)
  streams = {'i3d': ('grid',), 'boxes': ('regions', 'grid'), 'audio': ('sequence',)}
  assert several.needs == Needs(streams, categories=20)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'variant': 'tst'}, "model.variant 'tst'.*stats, st, ts"),
    ({'pooling': 'max'}, "model.pooling 'max'.*mean_ranked, .*mean_temporal"),
    ({'grid_streams': ()}, r'model.grid_streams.*\[\]'),
    ({'region_streams': ('i3d',)}, r"model.grid_streams.*\['i3d', 'i3d'\]"),
    ({'temperature': (1.0, 0.0)}, r'model.temperature .*\(1.0, 0.0\)'),
    ({'temperature': (1.0,)}, r'model.temperature .*\(1.0,\)'),
    ({'rank_weight': -1.0}, 'model.rank_weight .*-1.0'),
    ({'categories': -1}, 'model.categories .*-1'),
  ],
)
def test_wrong_settings(changes, message):
  with pytest.raises(ConfigError, match=message):
    config(**changes)


def test_words_are_recalled_causally():
  """A later word changes nothing before it is read; an earlier one is attended to afterwards."""
  captioner_of = functools.partial(bind, Stats(config(dropout=0.0)))

  @jax.jit
  def run(key, inputs, words):
    captioner = captioner_of(init_params(Stats(config()), key, inputs))
    memory = captioner.encode(inputs, None)
    unrolled = teacher_forcing(captioner, memory, words, attention=True)
    return captioner.logits(unrolled.hidden), unrolled.attention['words']

  words = np.full((B, 1, 5), 6, np.int32)
  words[:, :, 1] = 7
  other = words.copy()
  other[:, :, 2] = 8  # read by the fourth step
  (a, weights), (b, _) = (run(jax.random.key(0), inputs(), w) for w in (words, other))
  np.testing.assert_array_equal(a[:3], b[:3])
  assert np.abs(a[3:] - b[3:]).max(axis=(1, 2, 3)).min() > 1e-5
  for step, weights_t in enumerate(np.asarray(weights)):
    assert (weights_t[..., : step + 1] > 0).all()
    assert (weights_t[..., step + 1 :] == 0).all()
    np.testing.assert_allclose(weights_t.sum(axis=-1), 1, rtol=1e-6)


def test_temperature_falls_as_training_goes_on():
  def temperature(progress):
    module = Stats(config(temperature=(2.0, 0.02)))
    params = jax.eval_shape(functools.partial(init_params, module), jax.random.key(0), inputs())
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), params)
    made = inputs(progress=None if progress is None else jnp.float32(progress))
    return module.apply({'params': zeros}, made, method='encode').temperature

  for progress, expected in ((0, 2.0), (0.5, 0.2), (1, 0.02), (None, 0.02)):
    np.testing.assert_allclose(temperature(progress), np.full(B, expected), rtol=1e-5)


@pytest.mark.parametrize(
  ('changes', 'in_training', 'in_evaluation'),
  [
    ({}, 'soft', 'soft'),
    ({'hard_at_test': True}, 'soft', 'hard'),
    ({'grid_streams': (), 'region_streams': ('boxes',)}, 'hard', 'hard'),
    ({'region_streams': ('boxes',)}, 'soft and hard', 'soft and hard'),
  ],
)
def test_settings_that_differ_outside_of_training(changes, in_training, in_evaluation):
  c = config(temperature=(2.0, 0.02), **changes)
  made = [c.settings_at(0.5, train=True), c.settings_at(None, train=False)]
  assert [settings['choice of a frame'] for settings in made] == [in_training, in_evaluation]
  np.testing.assert_allclose([s['temperature'] for s in made], [0.2, 0.02], rtol=1e-5)
  assert config(variant='st').settings_at(0.5, train=True) == {}


def test_unknown_categories_are_zeros():
  module = Stats(config(categories=3))

  @jax.jit
  def run(key, inputs):
    params = init_params(module, key, inputs)
    return params['category']['embedding'], bind(module, params).encode(inputs, None).category

  table, category = run(jax.random.key(0), inputs(category=np.array([2, -1, 0], np.int32)))
  np.testing.assert_array_equal(category[0], table[2])
  np.testing.assert_array_equal(category[1], 0)
  np.testing.assert_array_equal(category[2], table[0])
  np.testing.assert_array_equal(run(jax.random.key(0), inputs())[1], 0)


def test_dropout_masks():
  S, L = 2, 20
  make = lambda rate: Stats(config(dropout=rate)).apply(  # noqa: E731
    {}, jax.random.key(0), inputs(), S, L, method='noise'
  )
  noise = make(0.2)
  assert noise.encoder is None
  shapes = {'word': (L, B, S, E), 'context': (L, B, S, P), 'hidden': (L, B, S, H)}
  assert {name: keep.shape for name, keep in noise.steps.items()} == shapes
  assert all(abs(keep.mean() - 0.8) < 0.1 for keep in noise.steps.values())
  assert make(0.0) == Noise(steps={})
