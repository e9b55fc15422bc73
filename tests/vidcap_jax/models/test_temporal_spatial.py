import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax import models
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Inputs, Noise, bind, init_params
from vidcap_jax.models.temporal_spatial import TemporalSpatial, TemporalSpatialConfig

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H, E, P, A = 11, 8, 6, 7, 5

SIZES = {'hidden': H, 'embed': E, 'project': P, 'attention': A}


def config(variant='temporal', **changes):
  return TemporalSpatialConfig(vocab_size=V, variant=variant, **{**SIZES, **changes})


def inputs(B=2, T=3, N=4):
  rng = np.random.default_rng(0)
  shapes = {'image': (B, T), 'motion': (B, T), 'audio': (B,), 'objects': (B, T, N)}
  widths = {'image': 4, 'motion': 3, 'audio': 2, 'objects': 5}
  return Inputs(
    {n: rng.normal(size=(*s, widths[n])).astype(np.float32) for n, s in shapes.items()},
    {n: np.ones(s, bool) for n, s in shapes.items()},
  )


def shapes_of(module):
  params = jax.eval_shape(lambda key: init_params(module, key, inputs()), jax.random.key(0))
  return {
    '/'.join(k.key for k in path): leaf.shape for path, leaf in jax.tree.leaves_with_path(params)
  }


COMMON = {
  'global_embed/kernel': (4 + 3 + 2, P),
  'global_embed/bias': (P,),
  'words/embedding': (V, E),
  'lstm1_mean/kernel': (P, 4 * H),
  'lstm1_word/kernel': (E, 4 * H),
  'lstm1_state/kernel': (2 * H, 4 * H),
  'lstm1_state/bias': (4 * H,),
  'lstm2_state/bias': (4 * H,),
  'output/kernel': (H, V),
  'output/bias': (V,),
}


@pytest.mark.parametrize(('variant', 'width'), [('temporal', 4 + 3), ('spatial', 5)])
def test_parameters_of_the_attending_variants(variant, width):
  assert shapes_of(TemporalSpatial(config(variant))) == {
    **COMMON,
    'lstm2_state/kernel': (P + 2 * H, 4 * H),
    'memory_embed/kernel': (width, P),
    'memory_embed/bias': (P,),
    'attend/key/kernel': (P, A),
    'attend/query/kernel': (H, A),
    'attend/score': (A,),
  }


def test_parameters_of_vanilla():
  shapes = shapes_of(TemporalSpatial(config('vanilla')))
  assert shapes == {**COMMON, 'lstm2_state/kernel': (2 * H, 4 * H)}


def test_initial_parameters():
  """By key alone, float32, none of the matrices zero; the same under bfloat16 computation."""

  @jax.jit
  def init(key):
    modules = [TemporalSpatial(config(dtype=dtype)) for dtype in (jnp.float32, jnp.bfloat16)]
    return [init_params(module, key, inputs()) for module in modules]

  params, half = init(jax.random.key(0))
  other, _ = init(jax.random.key(1))
  jax.tree.map(np.testing.assert_array_equal, params, half)
  assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(half))
  for path, leaf in jax.tree.leaves_with_path(params):
    zero = path[-1].key == 'bias'
    assert (np.asarray(leaf) == 0).all() == zero
    assert np.isfinite(leaf).all()
  assert not np.array_equal(params['output']['kernel'], other['output']['kernel'])


@pytest.mark.parametrize(
  ('variant', 'streams'),
  [
    ('vanilla', {'image': ('sequence', 'vector'), 'audio': ('sequence', 'vector')}),
    (
      'temporal',
      {'image': ('sequence',), 'audio': ('sequence', 'vector'), 'motion': ('sequence',)},
    ),
    (
      'spatial',
      {
        'image': ('sequence', 'vector'),
        'audio': ('sequence', 'vector'),
        'objects': ('regions', 'grid'),
      },
    ),
  ],
)
def test_streams_that_a_variant_needs(variant, streams):
  needs = config(variant, global_streams=('image', 'audio')).needs
  assert dict(needs.streams) == streams
  assert (needs.blocks, needs.categories) == ({}, 0)


def test_objects_of_all_frames_form_one_set():
  """So a grid's cells, and regions of several frames or of one, are the same to the model."""
  several = inputs()
  one = dataclasses.replace(
    several,
    features={**several.features, 'objects': several.features['objects'].reshape(2, 1, 12, 5)},
    masks={**several.masks, 'objects': several.masks['objects'].reshape(2, 1, 12)},
  )
  module = TemporalSpatial(config('spatial'))

  @jax.jit
  def run(key, several, one):
    params = init_params(module, key, several)
    captioner, targets = bind(module, params), jnp.full((2, 1, 2), 5, jnp.int32)
    unrolled = [
      teacher_forcing(captioner, captioner.encode(x, None), targets, attention=True)
      for x in (several, one)
    ]
    return [(u.hidden, u.attention) for u in unrolled]

  a, b = run(jax.random.key(0), several, one)
  jax.tree.map(np.testing.assert_array_equal, a, b)
  assert a[1]['spatial'].shape == (2, 2, 1, 12)


@pytest.mark.parametrize('variant', ['vanilla', 'temporal', 'spatial'])
def test_dropout_masks(variant):
  B, S, L = 40, 3, 5
  some = inputs(B)
  make = lambda rate: TemporalSpatial(config(variant, dropout=rate)).apply(  # noqa: E731
    {}, jax.random.key(0), some, S, L, method='noise'
  )
  noise = make(0.2)
  slots = {'vanilla': None, 'temporal': 3, 'spatial': 12}[variant]
  expected = {'values': (B, slots, P)} if slots else {}
  assert {name: keep.shape for name, keep in noise.encoder.items()} == expected
  assert {n: k.shape for n, k in noise.steps.items()} == {
    'word': (L, B, S, E),
    'hidden': (L, B, S, H),
  }
  for keep in (*noise.encoder.values(), *noise.steps.values()):
    assert keep.dtype == bool
    assert abs(keep.mean() - 0.8) < 0.08
  assert make(0.0) == Noise({}, {})


def test_unknown_settings():
  with pytest.raises(ConfigError, match="model.variant 'spatio'.*vanilla, temporal"):
    config('spatio')
  with pytest.raises(ConfigError, match="model.name 'lstm'.*temporal_spatial"):
    models.build({'name': 'lstm'}, V)
  with pytest.raises(ConfigError, match="hiden.*'temporal_spatial'.*model.hidden"):
    models.build({'name': 'temporal_spatial', 'hiden': 3}, V)
  with pytest.raises(ConfigError, match="'float16'.*float32, bf"):
    models.build({'name': 'temporal_spatial'}, V, 'float16')


@pytest.mark.parametrize(
  ('variant', 'field'), [('spatial', 'global_streams'), ('temporal', 'temporal_streams')]
)
def test_a_variant_without_the_streams_that_it_reads(variant, field):
  with pytest.raises(ConfigError, match=f'model.{field} is empty'):
    TemporalSpatialConfig(9, variant=variant, **{field: ()})
  TemporalSpatialConfig(9, variant='spatial', temporal_streams=())
