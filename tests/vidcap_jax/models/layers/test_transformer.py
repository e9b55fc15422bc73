"""Transformer layers against those of torch with the same weights. Skipped without torch."""

import jax
import numpy as np
import pytest

from tests.x64 import enable_x64
from vidcap_jax.models.layers.transformer import DecoderLayer, EncoderLayer

torch = pytest.importorskip('torch', reason='the extra "torch" is not installed')

pytestmark = pytest.mark.usefixtures('strict_dtypes')

B, S, L, N, D, F, HEADS = 3, 2, 4, 5, 8, 12, 2


def torch_layer(kind, activation):
  """A layer of torch in float64 with random parameters, all biases and scales included."""
  torch.manual_seed(0)
  layer = kind(
    D, HEADS, F, dropout=0.3, activation=activation, batch_first=True, norm_first=True,
    dtype=torch.float64,
  ).eval()  # fmt: skip
  for parameter in layer.parameters():
    torch.nn.init.normal_(parameter, std=0.5)
  return layer


def array(tensor):
  return tensor.detach().numpy()


def dense(linear):
  return {'kernel': array(linear.weight).T, 'bias': array(linear.bias)}


def norm(module):
  return {'scale': array(module.weight), 'bias': array(module.bias)}


def attention(module):
  """Torch's bias of the keys is left out: it changes no weight."""
  kernels = np.split(array(module.in_proj_weight), 3)
  biases = np.split(array(module.in_proj_bias), 3)
  names = zip(('query', 'key', 'value'), kernels, biases)
  params = {name: {'kernel': kernel.T, 'bias': bias} for name, kernel, bias in names}
  del params['key']['bias']
  return {**params, 'out': dense(module.out_proj)}


def feed(layer):
  return {'inner': dense(layer.linear1), 'out': dense(layer.linear2)}


def sizes(activation):
  return {
    'features': D,
    'heads': HEADS,
    'feed_forward': F,
    'activation': activation,
    'dropout': 0.3,
    'dtype': np.float64,
    'param_dtype': np.float64,
  }


def random(*shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape)


VALID = np.arange(N)[None] < np.array([5, 3, 1])[:, None]  # (B, N)


@pytest.mark.parametrize('activation', ['relu', 'gelu'])
def test_encoder_layer(activation):
  layer, x = torch_layer(torch.nn.TransformerEncoderLayer, activation), random(B, N, D)
  expected = array(
    layer(torch.from_numpy(x), src_key_padding_mask=torch.from_numpy(~VALID)),
  )
  params = {
    'attention_norm': norm(layer.norm1),
    'attend': attention(layer.self_attn),
    'feed_norm': norm(layer.norm2),
    'feed': feed(layer),
  }
  with enable_x64(True):
    found = EncoderLayer(**sizes(activation)).apply({'params': params}, x, VALID, {})
  assert found.dtype == np.float64
  np.testing.assert_allclose(np.asarray(found)[VALID], expected[VALID], atol=1e-12)


@pytest.mark.parametrize('activation', ['relu', 'gelu'])
def test_decoder_layer(activation):
  layer = torch_layer(torch.nn.TransformerDecoderLayer, activation)
  x, video = random(B, S, L, D), random(B, N, D, seed=1)
  rows = lambda y: torch.from_numpy(np.repeat(y, S, axis=0))  # noqa: E731
  causal = torch.nn.Transformer.generate_square_subsequent_mask(L, dtype=torch.float64)
  expected = layer(
    torch.from_numpy(x.reshape(B * S, L, D)),
    rows(video),
    tgt_mask=causal,
    memory_key_padding_mask=rows(~VALID),
  )
  params = {
    'self_norm': norm(layer.norm1),
    'self_attend': attention(layer.self_attn),
    'cross_norm': norm(layer.norm2),
    'cross_attend': attention(layer.multihead_attn),
    'feed_norm': norm(layer.norm3),
    'feed': feed(layer),
  }
  with enable_x64(True):
    variables, module = {'params': params}, DecoderLayer('cross', **sizes(activation))
    keys_values = module.apply(variables, video, method='video')
    one_pass = module.apply(variables, x, keys_values, VALID, {})[0]
    cache = jax.tree.map(
      lambda y: jax.numpy.zeros((B, S, HEADS, L, D // HEADS), y.dtype), keys_values
    )
    steps = []
    for t in range(L):
      position = jax.numpy.full((B, S), t, jax.numpy.int32)
      y, cache, _ = module.apply(
        variables, x[:, :, t : t + 1], keys_values, VALID, {}, cache, position
      )
      steps.append(y)
  expected = array(expected).reshape(B, S, L, D)
  np.testing.assert_allclose(one_pass, expected, atol=1e-12)
  np.testing.assert_allclose(np.concatenate(steps, axis=2), expected, atol=1e-12)
