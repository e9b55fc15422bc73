"""Transformer captioner: an encoder over all entries of any streams, a decoder with a cache.

It is no paper's model, but what captioners over features of CLIP and the like have in common:
pre-norm layers, which ``layers/transformer.py`` describes, and an encoder whose tokens are the
entries of all streams one after another. Each stream has a projection, whose bias is the stream's
type embedding. Frames have sinusoidal embeddings of their time, so that videos may have any length,
and the cells of a grid learned embeddings of their place.

A step reads one word and keeps its keys and values in the carry. ``teacher_force`` reads all words
of captions in one pass. Keys and values of a video are computed once and shared by its captions.
"""

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers.attention import Edit, wide
from vidcap_jax.models.layers.dense import Dense, Embed, StepDense, add_bias, product
from vidcap_jax.models.layers.dropout import drop, equal_masks
from vidcap_jax.models.layers.transformer import (
  ACTIVATIONS,
  KERNEL_INIT,
  NORMS,
  SHARDED_AXES,
  DecoderLayer,
  EncoderLayer,
  KeysValues,
  LayerNorm,
  sinusoids,
)

Array = jax.Array
EMBEDDING_INIT = nn.initializers.normal(0.02)  # of types and places


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
  """Sizes and streams.

  Attributes:
    vocab_size: V.
    streams: sequences, vectors and grids; a vector is one token, a grid a token for each cell.
    region_streams: regions, in no order: without embeddings of their place.
    hidden: D, channels of all layers.
    embed: word embedding size E; if it is not D, words are projected.
    heads: of each attention; they divide D.
    feed_forward: F, channels inside the feed-forward networks.
    encoder_layers: 0 for projected features that the decoder attends to as they are.
    decoder_layers: at least 1.
    activation: relu | gelu, of the feed-forward networks.
    stream_activation: none | relu | gelu, of the projected streams.
    stream_positions: whether entries have embeddings of their time and place; without them, a video
      is a set.
    norm: variance | deviation, what layer normalisations divide by, see ``layers/transformer.py``.
    tied: whether the matrix of the logits is the word embeddings; needs E = D.
    dropout: rate on the embedded entries and words, and on what each sublayer adds.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  streams: tuple[str, ...] = ('image',)
  region_streams: tuple[str, ...] = ()
  hidden: int = 512
  embed: int = 512
  heads: int = 8
  feed_forward: int = 2048
  encoder_layers: int = 3
  decoder_layers: int = 3
  activation: str = 'gelu'
  stream_activation: str = 'none'
  stream_positions: bool = True
  norm: str = 'variance'
  tied: bool = False
  dropout: float = 0.1
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def __post_init__(self):
    if not self.all_streams:
      raise ConfigError('model.streams and model.region_streams are empty; name a stream')
    if twice := sorted({*self.streams} & {*self.region_streams}):
      raise ConfigError(f'model.streams and model.region_streams both name {twice[0]!r}')
    if self.heads < 1 or self.hidden % self.heads:
      raise ConfigError(f'model.heads={self.heads} does not divide model.hidden={self.hidden}')
    if self.encoder_layers < 0 or self.decoder_layers < 1:
      raise ConfigError(
        'model.encoder_layers must be at least 0 and model.decoder_layers at least 1, got '
        f'{self.encoder_layers} and {self.decoder_layers}'
      )
    for field, known in (
      ('activation', (*ACTIVATIONS,)),
      ('stream_activation', ('none', *ACTIVATIONS)),
      ('norm', (*NORMS,)),
    ):
      if (value := getattr(self, field)) not in known:
        raise ConfigError(f'model.{field} {value!r} is unknown; known: {", ".join(known)}')
    if self.tied and self.embed != self.hidden:
      raise ConfigError(
        f'model.tied: the logits use the word embeddings, so model.embed={self.embed} must be '
        f'model.hidden={self.hidden}'
      )

  @property
  def all_streams(self) -> tuple[str, ...]:
    """In the order of the tokens."""
    return (*self.streams, *self.region_streams)

  @property
  def needs(self) -> Needs:
    """All streams, each of the kinds that its setting reads."""
    streams = dict.fromkeys(self.streams, ('sequence', 'vector', 'grid'))
    return Needs(streams | dict.fromkeys(self.region_streams, ('regions',)))

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """The last decoder layer's weights over the video, of each head."""
    heads = tuple(f'head {number}' for number in range(1, self.heads + 1))
    return {'cross': AttentionAxes(('heads', 'entries'), names=heads, streams=self.all_streams)}


@struct.dataclass
class Memory:
  """Per video: keys and values (B, heads, N, d) of each decoder layer, and which are valid."""

  layers: tuple[KeysValues, ...]
  mask: Array  # (B, N)


@struct.dataclass
class Carry:
  """Per row: keys and values (B, S, heads, L, d) of each layer, and the next position (B, S)."""

  layers: tuple[KeysValues, ...]
  position: Array


class StreamTokens(nn.Module):
  """The entries of one stream as tokens.

  Attributes:
    features: D.
    has_times: whether frames have embeddings of their time.
    has_places: whether the entries of a frame have embeddings of their place.
    activation: none, or one of ``ACTIVATIONS``, of the projected entries.
  """

  features: int
  has_times: bool
  has_places: bool
  activation: str
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, x: Array, mask: Array) -> tuple[Array, Array]:
    """Features (B, C), (B, T, C) or (B, T, N, C) with their mask to (B, n, D) and (B, n)."""
    project = Dense(
      self.features,
      kernel_init=KERNEL_INIT,
      bias_init=EMBEDDING_INIT,
      dtype=self.dtype,
      param_dtype=self.param_dtype,
      name='project',
    )
    tokens = project(jnp.where(mask[..., None], x, jnp.zeros_like(x)))
    if self.activation != 'none':
      tokens = ACTIVATIONS[self.activation](tokens)
    if mask.ndim == 1:
      return tokens[:, None], mask[:, None]
    if self.has_times:
      times = sinusoids(jnp.arange(mask.shape[1]), self.features, self.dtype)
      tokens = tokens + times.reshape(1, -1, *(1,) * (mask.ndim - 2), self.features)
    if mask.ndim == 3 and self.has_places:
      shape = (mask.shape[2], self.features)
      places = self.param('places', EMBEDDING_INIT, shape, self.param_dtype)
      tokens = tokens + jnp.broadcast_to(places[None, None], tokens.shape).astype(self.dtype)
    B = mask.shape[0]
    return tokens.reshape(B, -1, self.features), mask.reshape(B, -1)


class VideoEncoder(nn.Module):
  """The tokens of all streams, after the encoder's layers."""

  config: TransformerConfig

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    has_order = c.stream_positions
    self.streams = {
      name: StreamTokens(
        c.hidden, has_order, has_order and name in c.streams, c.stream_activation, **dtypes
      )
      for name in c.all_streams
    }
    sizes = (c.hidden, c.heads, c.feed_forward, c.activation, c.dropout, c.norm)
    self.layers = [EncoderLayer(*sizes, **dtypes) for _ in range(c.encoder_layers)]
    self.norm = LayerNorm(c.norm, param_dtype=c.param_dtype)

  def __call__(self, inputs: Inputs, keep: Mapping[str, Array]) -> tuple[Array, Array]:
    """The tokens (B, N, D) of videos and their mask (B, N).

    Args:
      inputs: the videos.
      keep: dropout masks of the tokens ('tokens') and of the layers ('NUMBER/SUBLAYER').
    """
    parts = [
      self.streams[name](inputs.features[name], inputs.masks[name])
      for name in self.config.all_streams
    ]
    x, mask = (jnp.concatenate(each, axis=1) for each in zip(*parts))
    x = drop(x, keep.get('tokens'), self.config.dropout)
    for number, layer in enumerate(self.layers):
      x = layer(x, mask, _of_layer(keep, number))
    return self.norm(x), mask


def _of_layer(keep: Mapping[str, Array], number: int) -> dict[str, Array]:
  """The dropout masks of one layer by the names of its sublayers."""
  prefix = f'{number}/'
  return {name.removeprefix(prefix): x for name, x in keep.items() if name.startswith(prefix)}


class Transformer(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` describes the methods."""

  config: TransformerConfig
  encoder_params = ('encoder',)
  sharded_axes = SHARDED_AXES

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    self.encoder = VideoEncoder(c)
    # Multiplied by the root of E when they are read, and not where they are the logits' matrix.
    words_init = nn.initializers.normal(c.embed**-0.5)
    self.words = Embed(c.vocab_size, c.embed, embedding_init=words_init, **dtypes)
    if c.embed != c.hidden:
      self.word_project = StepDense(c.hidden, kernel_init=KERNEL_INIT, **dtypes)
    sizes = (c.hidden, c.heads, c.feed_forward, c.activation, c.dropout, c.norm)
    self.decoder = [
      DecoderLayer('cross', *sizes, edit=c.edit, **dtypes) for _ in range(c.decoder_layers)
    ]
    self.norm = LayerNorm(c.norm, param_dtype=c.param_dtype)
    if c.tied:
      self.output_bias = self.param(
        'output_bias', nn.initializers.zeros, (c.vocab_size,), c.param_dtype
      )
    else:
      self.output = Dense(c.vocab_size, **dtypes)

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """The encoder, and the keys and values of its tokens for each layer of the decoder."""
    x, mask = self.encoder(inputs, noise or {})
    return Memory(tuple(layer.video(x) for layer in self.decoder), mask)

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """An empty cache for L words."""
    c, B = self.config, memory.mask.shape[0]
    zeros = jnp.zeros((B, S, c.heads, L, c.hidden // c.heads), c.dtype)
    return Carry(((zeros, zeros),) * c.decoder_layers, jnp.zeros((B, S), jnp.int32))

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to (…, D), without their positions."""
    c = self.config
    x = self.words(words) * c.embed**0.5
    return x if c.embed == c.hidden else self.word_project(x)

  def _with_positions(self, x: Array, positions: Array, keep: Array | None) -> Array:
    """Embedded words (…, D) with their positions, which broadcast to (…,), and dropout."""
    c = self.config
    return drop(x + sinusoids(positions, c.hidden, c.dtype), keep, c.dropout)

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """One word (B, S, D) for each row, whose keys and values are added to the cache."""
    keep = jax.tree.map(lambda mask: mask[:, :, None], noise or {})
    x = self._with_positions(x[:, :, None], carry.position[..., None], keep.get('word'))
    layers = []
    for number, layer in enumerate(self.decoder):
      x, words, weights = layer(
        x, memory.layers[number], memory.mask, _of_layer(keep, number),
        carry.layers[number], carry.position,
      )  # fmt: skip
      layers.append(words)
    aux = jnp.zeros(carry.position.shape, wide(self.config.dtype))
    extras = Extras({'cross': weights[:, :, 0]}, aux)
    return Carry(tuple(layers), carry.position + 1), self.norm(x)[:, :, 0], extras

  def teacher_force(self, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """All words (L, B, S, D) in one pass; results as those of L steps, with a leading axis L."""
    keep = jax.tree.map(lambda mask: jnp.moveaxis(mask, 0, 2), noise or {})
    x = jnp.moveaxis(x, 0, 2)  # (B, S, L, D)
    B, S, L, _ = x.shape
    x = self._with_positions(x, jnp.arange(L)[None, None], keep.get('word'))
    for number, layer in enumerate(self.decoder):
      x, _, weights = layer(x, memory.layers[number], memory.mask, _of_layer(keep, number))
    first = lambda y: jnp.moveaxis(y, 2, 0)  # noqa: E731
    aux = jnp.zeros((L, B, S), wide(self.config.dtype))
    return first(self.norm(x)), Extras({'cross': first(weights)}, aux)

  def logits(self, hidden: Array) -> Array:
    """(…, D) to (…, V)."""
    if not self.config.tied:
      return self.output(hidden)
    return add_bias(product(hidden, self.words.embedding.T), self.output_bias)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept."""
    c, B = self.config, inputs.batch_size
    sizes = [math.prod(inputs.masks[name].shape[1:]) for name in c.all_streams]
    encoder, steps = jax.random.split(key)
    tokens, words = (B, sum(sizes), c.hidden), (L, B, S, c.hidden)
    of_layers = lambda count, *names: [f'{i}/{name}' for i in range(count) for name in names]  # noqa: E731
    encoder_names = ['tokens', *of_layers(c.encoder_layers, 'attention', 'feed')]
    step_names = ['word', *of_layers(c.decoder_layers, 'self', 'cross', 'feed')]
    return Noise(
      encoder=equal_masks(encoder, c.dropout, encoder_names, tokens),
      steps=equal_masks(steps, c.dropout, step_names, words),
    )
