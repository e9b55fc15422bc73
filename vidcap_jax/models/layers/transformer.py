"""Pre-norm Transformer layers of an encoder and a decoder (Vaswani et al. 2017, Xiong et al. 2020).

Each sublayer adds f(norm(x)) to x, with dropout of what is added. The layers are those of torch's
``nn.TransformerEncoderLayer`` and ``nn.TransformerDecoderLayer`` with ``norm_first=True``, but

- keys have no bias: it adds the same number to all scores of a query, which softmax cancels;
- there is no dropout of attention weights and none inside of the feed-forward network.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.layers.attention import Edit, at_least_float32, weigh, wide
from vidcap_jax.models.layers.dense import StepDense
from vidcap_jax.models.layers.dropout import drop

Array = jax.Array
KeysValues = tuple[Array, Array]  # both (…, heads, N, d)
KERNEL_INIT = nn.initializers.xavier_uniform()
ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
  'gelu': lambda x: jax.nn.gelu(x, approximate=False),
  'relu': jax.nn.relu,
}

# The last two names of parameters -> their axis over heads or over channels inside of a network.
SHARDED_AXES: Mapping[str, int] = {
  **dict.fromkeys(('query/kernel', 'key/kernel', 'value/kernel', 'inner/kernel'), 1),
  **dict.fromkeys(('query/bias', 'value/bias', 'inner/bias', 'out/kernel'), 0),
}


def sinusoids(positions: Array, features: int, dtype: jnp.dtype) -> Array:
  """Sines and cosines of positions (…,), in wavelengths of 2 pi to 20,000 pi: (…, features)."""
  half = (features + 1) // 2
  rates = 10_000.0 ** -(jnp.arange(half, dtype=wide(dtype)) / half)
  rates = rates.reshape((1,) * positions.ndim + (-1,))
  angles = positions[..., None].astype(wide(dtype)) * rates
  both = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
  return both[..., :features].astype(dtype)


def _by_variance(centred: Array) -> Array:
  variance = jnp.square(centred).mean(axis=-1, keepdims=True)
  return centred * jax.lax.rsqrt(variance + 1e-5)


def _by_deviation(centred: Array) -> Array:
  total = jnp.square(centred).sum(axis=-1, keepdims=True)
  is_zero = total == 0  # where the gradient of the root would be NaN
  deviation = jnp.sqrt(jnp.where(is_zero, jnp.ones_like(total), total) / (centred.shape[-1] - 1))
  return jnp.where(is_zero, jnp.zeros_like(centred), centred / (deviation + 1e-6))


# What a layer normalisation divides x - mean(x) by.
NORMS: Mapping[str, Callable[[Array], Array]] = {
  'variance': _by_variance,  # the root of the variance + 1e-5, as torch's LayerNorm
  # the sample's standard deviation (of D - 1 degrees of freedom) + 1e-6, as "The Annotated
  # Transformer" (Rush 2018) and code that is derived from it
  'deviation': _by_deviation,
}


class LayerNorm(nn.Module):
  """Layer normalisation in at least float32, whatever dtype it reads and returns.

  ``nn.LayerNorm`` mixes dtypes, which strict promotion refuses in float64.

  Attributes:
    norm: one of ``NORMS``.
  """

  norm: str = 'variance'
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, x: Array) -> Array:
    """(…, D) to (…, D)."""
    D = x.shape[-1:]
    scale = self.param('scale', nn.initializers.ones, D, self.param_dtype)
    bias = self.param('bias', nn.initializers.zeros, D, self.param_dtype)
    centred = at_least_float32(x)
    y = NORMS[self.norm](centred - centred.mean(axis=-1, keepdims=True))
    last = (1,) * (x.ndim - 1) + D
    return (y * scale.reshape(last) + bias.reshape(last)).astype(x.dtype)


class MultiHeadAttention(nn.Module):
  """Attention by several heads, each to its own d = D / heads channels of queries and keys.

  Attributes:
    name_of, edit: see ``attention.weigh``.
    features: D.
    heads: number of heads, which divides D.
  """

  name_of: str
  features: int
  heads: int
  edit: Edit | None = None
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  def setup(self):
    def dense(use_bias: bool = True) -> StepDense:
      dtypes = {'dtype': self.dtype, 'param_dtype': self.param_dtype}
      return StepDense(self.features, use_bias=use_bias, kernel_init=KERNEL_INIT, **dtypes)

    self.query, self.key, self.value, self.out = dense(), dense(False), dense(), dense()

  def _split(self, x: Array) -> Array:
    """(…, N, D) to (…, heads, N, d)."""
    x = x.reshape(*x.shape[:-1], self.heads, self.features // self.heads)
    return jnp.swapaxes(x, -3, -2)

  def project(self, x: Array) -> KeysValues:
    """The keys and values of what is attended to, x (…, N, D)."""
    return self._split(self.key(x)), self._split(self.value(x))

  def __call__(self, x: Array, keys: Array, values: Array, mask: Array) -> tuple[Array, Array]:
    """Attends from x (…, M, D) to keys and values (…, heads, N, d).

    Args:
      x: what makes the queries.
      keys, values: of ``project``.
      mask: (…, 1, M or 1, N), True where valid.

    Returns:
      (…, M, D), and weights (…, heads, M, N).
    """
    query = self._split(self.query(x)) / (self.features // self.heads) ** 0.5
    scores = jnp.einsum('...md,...nd->...mn', query, keys)
    weights = weigh(self.name_of, scores, mask, self.edit)
    context = jnp.einsum('...mn,...nd->...md', weights.astype(values.dtype), values)
    return self.out(jnp.swapaxes(context, -3, -2).reshape(x.shape)), weights


class FeedForward(nn.Module):
  """Two dense layers, of F channels and of as many as there were: (…, D) to (…, D)."""

  features: int
  activation: str
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, x: Array) -> Array:
    settings = {
      'kernel_init': KERNEL_INIT,
      'dtype': self.dtype,
      'param_dtype': self.param_dtype,
    }
    inner = StepDense(self.features, name='inner', **settings)(x)
    return StepDense(x.shape[-1], name='out', **settings)(ACTIVATIONS[self.activation](inner))


class EncoderLayer(nn.Module):
  """Self-attention and a feed-forward network.

  Attributes:
    features: D.
    heads: of the attention.
    feed_forward: F, channels inside the feed-forward network.
    activation: one of ``ACTIVATIONS``.
    dropout: rate on what each sublayer adds.
    norm: one of ``NORMS``.
  """

  features: int
  heads: int
  feed_forward: int
  activation: str
  dropout: float
  norm: str = 'variance'
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  def setup(self):
    dtypes = {'dtype': self.dtype, 'param_dtype': self.param_dtype}
    self.attention_norm = LayerNorm(self.norm, param_dtype=self.param_dtype)
    self.attend = MultiHeadAttention('', self.features, self.heads, **dtypes)
    self.feed_norm = LayerNorm(self.norm, param_dtype=self.param_dtype)
    self.feed = FeedForward(self.feed_forward, self.activation, **dtypes)

  def __call__(self, x: Array, mask: Array, keep: Mapping[str, Array]) -> Array:
    """Tokens (B, N, D) with mask (B, N) to (B, N, D).

    Args:
      x, mask: the tokens and which are valid.
      keep: dropout masks (B, N, D) of the sublayers 'attention' and 'feed'.
    """
    y = self.attention_norm(x)
    y, _ = self.attend(y, *self.attend.project(y), mask[:, None, None])
    x = x + drop(y, keep.get('attention'), self.dropout)
    return x + drop(self.feed(self.feed_norm(x)), keep.get('feed'), self.dropout)


class DecoderLayer(nn.Module):
  """Self-attention to earlier words, attention to the video and a feed-forward network.

  Attributes:
    cross, edit: name and edit of the attention to the video, see ``attention.weigh``.
    features, heads, feed_forward, activation, dropout, norm: see ``EncoderLayer``.
  """

  cross: str
  features: int
  heads: int
  feed_forward: int
  activation: str
  dropout: float
  norm: str = 'variance'
  edit: Edit | None = None
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  def setup(self):
    dtypes = {'dtype': self.dtype, 'param_dtype': self.param_dtype}
    sizes = (self.features, self.heads)
    self.self_norm = LayerNorm(self.norm, param_dtype=self.param_dtype)
    self.self_attend = MultiHeadAttention('', *sizes, **dtypes)
    self.cross_norm = LayerNorm(self.norm, param_dtype=self.param_dtype)
    self.cross_attend = MultiHeadAttention(self.cross, *sizes, edit=self.edit, **dtypes)
    self.feed_norm = LayerNorm(self.norm, param_dtype=self.param_dtype)
    self.feed = FeedForward(self.feed_forward, self.activation, **dtypes)

  def video(self, x: Array) -> KeysValues:
    """Keys and values (B, heads, N, d) of a video's tokens (B, N, D)."""
    return self.cross_attend.project(x)

  def __call__(
    self,
    x: Array,
    video: KeysValues,
    video_mask: Array,
    keep: Mapping[str, Array],
    cache: KeysValues | None = None,
    position: Array | None = None,
  ) -> tuple[Array, KeysValues, Array]:
    """M words (B, S, M, D) of each row: all M = L of a caption, or the one after those in a cache.

    Args:
      x: the words.
      video, video_mask: of ``video``, and (B, N).
      keep: dropout masks (B, S, M, D) of the sublayers 'self', 'cross' and 'feed'.
      cache: keys and values (B, S, heads, L, d) of the words so far; None if x has all words.
      position: (B, S) of the one word of x in the cache.

    Returns:
      (B, S, M, D), the keys and values with those of x, the weights (B, S, M, heads, N).
    """
    B, S, M, D = x.shape
    y = self.self_norm(x)
    words = self.self_attend.project(y)
    if cache is None or position is None:
      mask = jnp.tril(jnp.ones((M, M), jnp.bool_))[None, None, None]
    else:
      slots = jnp.arange(cache[0].shape[-2], dtype=jnp.int32)[None, None]  # (1, 1, L)
      at = (slots == position[..., None])[:, :, None, :, None]
      words = (jnp.where(at, words[0], cache[0]), jnp.where(at, words[1], cache[1]))
      mask = (slots <= position[..., None])[:, :, None, None]
    y, _ = self.self_attend(y, *words, mask)
    x = x + drop(y, keep.get('self'), self.dropout)
    # The rows of a video are queries of one product: its keys and values are not repeated.
    y = self.cross_norm(x).reshape(B, S * M, D)
    y, weights = self.cross_attend(y, *video, video_mask[:, None, None])
    x = x + drop(y.reshape(x.shape), keep.get('cross'), self.dropout)
    x = x + drop(self.feed(self.feed_norm(x)), keep.get('feed'), self.dropout)
    return x, words, jnp.moveaxis(weights, 1, 2).reshape(B, S, M, self.heads, -1)
