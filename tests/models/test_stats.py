import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Inputs, Needs, Noise, bind, init_params
from vidcap_jax.models.layers.ranked import POOLINGS, TemporalPool, rank_loss
from vidcap_jax.models.layers.stats_branches import Branches
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
    ({'variant': 'tst'}, "model.variant 'tst' is unknown; known: stats, st, ts"),
    ({'pooling': 'max'}, "model.pooling 'max' is unknown; known: mean_ranked, .*mean_temporal"),
    ({'grid_streams': ()}, 'name one stream or more, each once; got'),
    ({'region_streams': ('i3d',)}, r"each once; got \['i3d', 'i3d'\]"),
    ({'temperature': (1.0, 0.0)}, r'both above 0 .*got \(1.0, 0.0\)'),
    ({'temperature': (1.0,)}, r'is \(start, end\)'),
    ({'rank_weight': -1.0}, 'model.rank_weight must not be negative'),
    ({'categories': -1}, 'model.categories must not be negative'),
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


def make_branches(kind, x, mask, seed=0, **changes):
  """Branches with parameters, as a function of a method's name and arguments; and a view."""
  module = Branches(**{'variant': 'stats', 'pooling': 'mean_ranked', **changes}, kind=kind,
                    project=P, attention=A)  # fmt: skip
  temperature = jnp.full(B, 0.5)

  def touch(module):
    return module(queries(), module.view(x, mask), temperature, train=True)

  params = jax.jit(lambda key: module.init(key, method=touch)['params'])(jax.random.key(seed))

  def call(method, *args, **train):
    return module.apply({'params': params}, *args, method=method, **train)

  call = jax.jit(call, static_argnums=0, static_argnames='train')
  return call, params, call('view', x, mask)


def queries(S=2):
  return np.random.default_rng(9).normal(size=(B, S, H)).astype(np.float32)


def test_cells_keep_their_weight_in_all_frames_of_a_grid_but_regions_do_not():
  x, mask = grid(frames=(T, T, 2))
  for kind, shape in (('grid', (B, 2, N)), ('regions', (B, 2, T, N))):
    call, _, view = make_branches(kind, x, mask)
    frames, weights = call('attended_frames', queries(), view)
    assert weights.shape == shape
    assert frames.shape == (B, 2, T, P)
    total = np.asarray(weights.sum(axis=-1))
    np.testing.assert_allclose(total[:2], 1, rtol=1e-6)
  np.testing.assert_array_equal(total[2, :, 2:], 0)  # frames that are not there
  assert np.abs(np.diff(weights[:2], axis=2)).max() > 1e-3
  swapped = call('view', x[:, ::-1], mask[:, ::-1])
  back = call('attended_frames', queries(), swapped)[1]
  np.testing.assert_allclose(back[:2, :, ::-1], weights[:2], rtol=1e-5)


def test_a_sequence_is_a_grid_of_one_cell():
  """Its pooling is taken once for all words, with the same result."""
  x, mask = grid()
  one, valid = x[:, :, :1], mask[:, :, :1]
  of_grid, params, view = make_branches('grid', one, valid)
  x_grid, loss, _ = of_grid('__call__', queries(), view, jnp.full(B, 0.5), train=True)
  spatial = ('st_spatial', 'ts_spatial')
  params = {name: value for name, value in params.items() if name not in spatial}
  module = Branches('sequence', 'stats', 'mean_ranked', P, A)
  run = lambda m: m(queries(), m.view(one[:, :, 0], valid[:, :, 0]), jnp.full(B, 0.5), train=True)  # noqa: E731
  ours, our_loss, attention = jax.jit(lambda p: module.apply({'params': p}, method=run))(params)
  np.testing.assert_allclose(ours, x_grid, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(our_loss, loss, rtol=1e-5)
  assert set(attention) == {'ts_temporal', 'branch'}


def test_hard_choices_have_the_soft_one_s_gradient():
  x, mask = grid()
  temperature = jnp.full(B, 0.5)
  weight = np.random.default_rng(1).normal(size=(B, 2, T)).astype(np.float32)

  def choices(kind, train, **changes):
    call, _, view = make_branches(kind, x, mask, **changes)

    def loss(query):
      chosen = call('choose_frame', query, view, temperature, train=train)
      return (chosen * weight).sum(), chosen

    (_, chosen), grad = jax.value_and_grad(loss, has_aux=True)(queries())
    return np.asarray(chosen), grad

  soft, grad = choices('grid', False)
  assert ((soft > 0) == np.broadcast_to(mask[:, None, :, 0], soft.shape)).all()
  for kind, train, hard_at_test in (('regions', True, False), ('grid', False, True)):
    hard, hard_grad = choices(kind, train, hard_at_test=hard_at_test)
    np.testing.assert_array_equal(hard, np.eye(T)[soft.argmax(axis=-1)])
    np.testing.assert_allclose(hard_grad, grad, rtol=1e-5, atol=1e-7)
  np.testing.assert_array_equal(choices('grid', True, hard_at_test=True)[0], soft)


@functools.cache
def pool(pooling, seed=0, margin=1.0):
  """(frames, mask) -> pooled, loss; the LSTM's parameters are the same for all poolings."""
  module = TemporalPool(pooling, margin)
  with jax.numpy_dtype_promotion('strict'):
    params = TemporalPool('lstm').init(
      jax.random.key(seed), jnp.zeros((1, 1, 1, P)), jnp.ones((1, 1), bool)
    )
  return jax.jit(lambda frames, mask: module.apply(params, frames, mask))


def frames_and_mask(seed=0):
  frames = np.random.default_rng(seed).normal(size=(B, 2, T, P)).astype(np.float32)
  mask = np.arange(T)[None] < np.array([[T], [2], [1]])
  return np.where(mask[:, None, :, None], frames, 0).astype(np.float32), mask


def test_poolings():
  frames, mask = frames_and_mask()
  x, loss = ({p: np.asarray(pool(p)(frames, mask)[i]) for p in POOLINGS} for i in (0, 1))
  for row, count in enumerate((T, 2, 1)):
    np.testing.assert_allclose(
      x['mean'][row], frames[row, :, :count].mean(axis=1), rtol=1e-5, atol=1e-6
    )
  np.testing.assert_array_equal(x['ranked'], x['lstm'])
  np.testing.assert_array_equal(x['mean_ranked'], x['mean'] + x['lstm'])
  np.testing.assert_array_equal(x['mean_lstm'], x['mean'] + x['lstm'])
  for pooling in ('mean', 'lstm', 'mean_lstm'):
    np.testing.assert_array_equal(loss[pooling], 0)
  # The loss is of the LSTM's output, before the mean is added.
  np.testing.assert_array_equal(loss['ranked'], loss['mean_ranked'])
  assert (loss['ranked'][:2] > 0).all()
  np.testing.assert_array_equal(loss['ranked'][2], 0)  # one frame has no order

  backwards, whole = frames[:1, :, ::-1], mask[:1]
  np.testing.assert_allclose(pool('mean')(backwards, whole)[0], x['mean'][:1], rtol=1e-5, atol=1e-6)
  assert np.abs(pool('lstm')(backwards, whole)[0] - x['lstm'][:1]).max() > 1e-3


def test_padding_has_no_part_in_the_rank_loss():
  frames, mask = frames_and_mask()
  other = frames_and_mask(seed=1)[0]
  dirty = np.where(mask[:, None, :, None], frames, 100 * other).astype(np.float32)
  x, loss = pool('ranked')(frames, mask)
  x_dirty, loss_dirty = pool('ranked')(dirty, mask)
  np.testing.assert_array_equal(x_dirty, x)
  np.testing.assert_array_equal(loss_dirty, loss)
  short = pool('ranked')(frames[1:2, :, :2], mask[1:2, :2])
  np.testing.assert_allclose(short[1], loss[1:2], rtol=1e-5)


def test_rank_loss_by_hand():
  """Frames whose projections rise by more than the margin cost little, falling ones much."""
  frames = jnp.asarray([[[[0.0, 9], [2, 9], [5, 9]]]], jnp.float32)  # (1, 1, 3, 2)
  mask = jnp.ones((1, 3), bool)
  softplus = lambda z: np.log1p(np.exp(z))  # noqa: E731
  for direction, expected in ((1.0, (-1, -2)), (-1.0, (3, 4))):
    summary = jnp.asarray([[[direction, 0.0]]])
    loss = rank_loss(summary, frames, mask, 1.0)
    np.testing.assert_allclose(loss, [[sum(softplus(z) for z in expected)]], rtol=1e-6)
  # A gap in the mask is no pair.
  gap = rank_loss(jnp.asarray([[[1.0, 0.0]]]), frames, jnp.asarray([[True, False, True]]), 1.0)
  np.testing.assert_array_equal(gap, [[0]])


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
