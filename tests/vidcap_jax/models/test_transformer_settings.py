"""The Transformer captioner's parameters, dropout masks and settings."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import CASES, V
from tests.made_up import B, L, S, Setup, differences_without_masks
from vidcap_jax import models
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Inputs, Noise, bind, init_params
from vidcap_jax.models.transformer import Transformer, TransformerConfig

pytestmark = pytest.mark.usefixtures('strict_dtypes')

PLAIN, ALL_KINDS, TIED = 'transformer', 'transformer_all_kinds', 'transformer_tied'
ONE_LAYER = {
  'hidden': 64,
  'embed': 64,
  'heads': 2,
  'feed_forward': 8,
  'encoder_layers': 0,
  'decoder_layers': 1,
}


@functools.cache
def setup(name: str) -> Setup:
  return Setup(next(case for case in CASES if case.name == name))


def shapes_of(tree):
  return {'/'.join(k.key for k in path): x.shape for path, x in jax.tree.leaves_with_path(tree)}


def attention(D):
  shapes = {f'{name}/kernel': (D, D) for name in ('query', 'key', 'value', 'out')}
  return shapes | {f'{name}/bias': (D,) for name in ('query', 'value', 'out')}


def under(prefix, shapes):
  return {f'{prefix}/{name}': shape for name, shape in shapes.items()}


def layer(D, F, *attentions):
  feed = {'inner/kernel': (D, F), 'inner/bias': (F,), 'out/kernel': (F, D), 'out/bias': (D,)}
  shapes = under('feed', feed)
  for name in attentions:
    shapes |= under(name, attention(D))
  norms = {'attend': 'attention', 'self_attend': 'self', 'cross_attend': 'cross'}
  for name in (*map(norms.get, attentions), 'feed'):
    shapes |= {f'{name}_norm/scale': (D,), f'{name}_norm/bias': (D,)}
  return shapes


def test_parameters():
  D, E, F = 8, 6, 12
  expected = {
    **under('encoder/layers_0', layer(D, F, 'attend')),
    **under('encoder/layers_1', layer(D, F, 'attend')),
    **under('decoder_0', layer(D, F, 'self_attend', 'cross_attend')),
    'encoder/streams_i3d/places': (3, D),
    'words/embedding': (V, E),
    'word_project/kernel': (E, D),
    'word_project/bias': (D,),
    'output/kernel': (D, V),
    'output/bias': (V,),
  }
  for name, width in (('image', 4), ('audio', 3), ('i3d', 4), ('boxes', 5)):
    expected |= under(f'encoder/streams_{name}/project', {'kernel': (width, D), 'bias': (D,)})
  for name in ('norm', 'encoder/norm'):
    expected |= {f'{name}/scale': (D,), f'{name}/bias': (D,)}
  assert shapes_of(setup(ALL_KINDS).params) == expected
  tied = shapes_of(setup(TIED).params)
  assert tied['output_bias'] == (V,)
  left_out = ('output/', 'word_project', 'encoder/layers')
  assert not [name for name in tied if name.startswith(left_out)]


def test_initial_parameters():
  """Embedded words have channels of variance 1 and logits of tied embeddings do, too."""
  config = TransformerConfig(500, tied=True, **ONE_LAYER)
  inputs = Inputs({'image': np.ones((1, 2, 3), np.float32)}, {'image': np.ones((1, 2), bool)})

  @jax.jit
  def run(key):
    module = Transformer(config)
    params = init_params(module, key, inputs)
    captioner = bind(module, params)
    hidden = jax.random.normal(key, (50, 64))
    return params, captioner.embed(jnp.arange(500)), captioner.logits(hidden)

  params, x, logits = run(jax.random.key(0))
  np.testing.assert_allclose([x.std(), logits.std()], 1, rtol=0.1)
  for path, leaf in jax.tree.leaves_with_path(params):
    name = jax.tree_util.keystr(path)
    constant = 'scale' in name or ('bias' in name and 'project' not in name)
    assert (np.ptp(leaf) == 0) == constant, name


def test_the_memory_is_a_videos_and_the_carry_a_rows():
  made, K = setup(PLAIN), 7
  captioner = bind(made.module, made.params)
  memory = jax.eval_shape(lambda x: captioner.encode(x, None, train=False), made.inputs)
  carry = jax.eval_shape(lambda m: captioner.start(m, K, L), memory)
  assert [x.shape for x in jax.tree.leaves(memory)] == [(B, 2, 5, 4)] * 4 + [(B, 5)]
  assert [x.shape for x in jax.tree.leaves(carry)] == [(B, K, 2, L, 4)] * 4 + [(B, K)]


def test_dropout_masks():
  made = setup(ALL_KINDS)
  make = lambda rate: Transformer(dataclasses.replace(made.module.config, dropout=rate)).apply(  # noqa: E731
    {}, jax.random.key(0), made.inputs, S, 40, method='noise'
  )
  noise, N = make(0.2), 5 + 1 + 4 * 3 + 3 * 4
  assert {n: x.shape for n, x in noise.encoder.items()} == dict.fromkeys(
    ('tokens', '0/attention', '0/feed', '1/attention', '1/feed'), (B, N, 8)
  )
  assert {n: x.shape for n, x in noise.steps.items()} == dict.fromkeys(
    ('word', '0/self', '0/cross', '0/feed'), (40, B, S, 8)
  )
  for keep in jax.tree.leaves(noise):
    assert keep.dtype == bool
    assert abs(keep.mean() - 0.8) < 0.05
  assert make(0.0) == Noise({}, {})


@pytest.mark.parametrize('part', ['encoder', 'steps'])
def test_every_dropout_mask_is_used(part):
  assert min(differences_without_masks(setup(PLAIN), part).values()) > 1e-3


def test_needs_and_attentions():
  config = setup(ALL_KINDS).module.config
  any_order = ('sequence', 'vector', 'grid')
  assert dict(config.needs.streams) == {
    **dict.fromkeys(('image', 'audio', 'i3d'), any_order),
    'boxes': ('regions',),
  }
  assert config.attentions == {
    'cross': AttentionAxes(
      ('heads', 'entries'),
      names=('head 1', 'head 2'),
      streams=('image', 'audio', 'i3d', 'boxes'),
    )
  }
  assert Transformer.encoder_params == ('encoder',)


@pytest.mark.parametrize(
  ('settings', 'message'),
  [
    ({'streams': ()}, 'model.streams.*empty'),
    ({'region_streams': ('image',)}, "both.*'image'"),
    ({'heads': 3}, 'model.heads=3.*model.hidden=512'),
    ({'heads': 0}, 'model.heads=0'),
    ({'decoder_layers': 0}, 'model.decoder_layers.* 0$'),
    ({'encoder_layers': -1}, 'model.encoder_layers.* -1 and 3'),
    ({'activation': 'tanh'}, "model.activation 'tanh'.*gelu, relu"),
    ({'stream_activation': 'tanh'}, "model.stream_activation 'tanh'.*none, gelu, relu"),
    ({'norm': 'layer'}, "model.norm 'layer'.*variance, deviation"),
    ({'tied': True, 'embed': 300}, 'model.tied.*model.embed=300.*model.hidden=512'),
  ],
)
def test_settings_that_do_not_fit(settings, message):
  with pytest.raises(ConfigError, match=message):
    models.build({'name': 'transformer', **settings}, V)
