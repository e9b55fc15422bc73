"""Temporal and spatial attention captioner (VATEX challenge 2019, equations 1-5).

An attention LSTM reads [mean video; word; language state]; additive attention over the memory
(segments for the temporal variant, objects of all frames for the spatial one, nothing for vanilla)
turns its state into a context; a language LSTM reads [context; attention state].
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers import recurrent
from vidcap_jax.models.layers.attention import AdditiveAttention, Edit, wide
from vidcap_jax.models.layers.dense import Dense, Embed, StepDense
from vidcap_jax.models.layers.dropout import drop, keep_masks
from vidcap_jax.models.layers.pooling import joined_means

Array = jax.Array
VARIANTS = ('vanilla', 'temporal', 'spatial')


@dataclasses.dataclass(frozen=True)
class TemporalSpatialConfig:
  """Sizes and streams.

  Attributes:
    vocab_size: V.
    variant: one of ``VARIANTS``.
    global_streams: averaged over time and joined for the mean video feature; sequences or vectors.
    temporal_streams: aligned sequences, joined per segment (temporal variant).
    spatial_stream: regions or grid whose entries over all frames form one set (spatial variant).
    hidden: LSTM size H.
    embed: word embedding size E.
    project: size P of the embedded video features (mean and memory).
    attention: attention space A.
    dropout: rate on words, the memory and the language LSTM's output.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  variant: str = 'temporal'
  global_streams: tuple[str, ...] = ('image', 'motion', 'audio')
  temporal_streams: tuple[str, ...] = ('image', 'motion')
  spatial_stream: str = 'objects'
  hidden: int = 512
  embed: int = 512
  project: int = 512
  attention: int = 512
  dropout: float = 0.5
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def __post_init__(self):
    if self.variant not in VARIANTS:
      raise ConfigError(f'model.variant {self.variant!r} is unknown; known: {", ".join(VARIANTS)}')
    read = ('global_streams', *(['temporal_streams'] if self.variant == 'temporal' else []))
    for field in read:
      if not getattr(self, field):
        raise ConfigError(f'model.{field} is empty; variant {self.variant!r} needs a stream there')

  @property
  def needs(self) -> Needs:
    """The streams this variant reads."""
    streams = dict.fromkeys(self.global_streams, ('sequence', 'vector'))
    if self.variant == 'temporal':
      streams |= dict.fromkeys(self.temporal_streams, ('sequence',))
    if self.variant == 'spatial':
      streams[self.spatial_stream] = ('regions', 'grid')
    return Needs(streams)

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """The axes of the variant's weights."""
    if self.variant == 'temporal':
      return {'temporal': AttentionAxes(('frames',), self.temporal_streams[0])}
    if self.variant == 'spatial':
      return {'spatial': AttentionAxes(('frames', 'places'), self.spatial_stream)}
    return {}


@struct.dataclass
class Memory:
  """Per video: mean feature, its part of the gates, and the memory that is attended to."""

  mean: Array  # (B, P)
  gates: Array  # (B, 4H)
  values: Array | None  # (B, N, P)
  keys: Array | None  # (B, N, A)
  mask: Array | None  # (B, N)


@struct.dataclass
class Carry:
  """Per row: the two LSTMs' states (B, S, H) and the position in the caption (B, S)."""

  h1: Array
  c1: Array
  h2: Array
  c2: Array
  position: Array

  @classmethod
  def zeros(cls, B: int, S: int, H: int, dtype: jnp.dtype) -> 'Carry':
    """The carry before the first word; cells are in at least float32."""
    h, cell = (jnp.zeros((B, S, H), t) for t in (dtype, wide(dtype)))
    return cls(h, cell, h, cell, jnp.zeros((B, S), jnp.int32))


class TemporalSpatial(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` describes the methods."""

  config: TemporalSpatialConfig

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    gates = lambda bias: StepDense(  # noqa: E731
      4 * c.hidden, use_bias=bias, kernel_init=recurrent.GATES_INIT, **dtypes
    )
    self.global_embed = Dense(c.project, **dtypes)
    if c.variant != 'vanilla':
      self.memory_embed = Dense(c.project, **dtypes)
      self.attend = AdditiveAttention(c.variant, c.attention, edit=c.edit, **dtypes)
    self.words = Embed(c.vocab_size, c.embed, embedding_init=nn.initializers.uniform(0.1), **dtypes)
    # lstm1 reads [mean; word; h2] and h1; lstm2 reads [context; h1] and h2.
    self.lstm1_mean = gates(False)
    self.lstm1_word = gates(False)
    self.lstm1_state = gates(True)  # [h2; h1]
    self.lstm2_state = gates(True)  # [context; h1; h2], without context for vanilla
    self.output = Dense(c.vocab_size, **dtypes)

  def _memory_inputs(self, inputs: Inputs) -> tuple[Array, Array]:
    """The memory that the variant attends to: (B, N, D), and its mask (B, N)."""
    c = self.config
    if c.variant == 'spatial':
      x, mask = inputs.features[c.spatial_stream], inputs.masks[c.spatial_stream]  # (B, T, N, D)
      x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
      return x.reshape(x.shape[0], -1, x.shape[-1]), mask.reshape(x.shape[0], -1)
    # A segment is valid if any of its streams is; the other streams are zero vectors there.
    slots = self._slots(inputs)
    parts, masks = [], []
    for name in c.temporal_streams:
      x, mask = inputs.features[name], inputs.masks[name]
      missing = slots - mask.shape[1]
      x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
      parts.append(jnp.pad(x, ((0, 0), (0, missing), (0, 0))))
      masks.append(jnp.pad(mask, ((0, 0), (0, missing))))
    return jnp.concatenate(parts, axis=-1), jnp.stack(masks).any(axis=0)

  def _slots(self, inputs: Inputs) -> int:
    """N, slots of the variant's memory: all frames' objects, or the longest stream's frames."""
    c = self.config
    names = (c.spatial_stream,) if c.variant == 'spatial' else c.temporal_streams
    sizes = [math.prod(inputs.masks[name].shape[1:]) for name in names]
    return functools.reduce(jax.core.max_dim, sizes)  # max, for lengths that are symbols too

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """Section 2.1: the global mean feature, and the variant's memory with its keys.

    Dropout is applied to the memory, over whose many vectors attention averages, but not to the
    mean, a single vector. (With dropout on both, scores of configs/msrvtt1000.py differ by less
    than those of two equal runs.)
    """
    c = self.config
    mean = self.global_embed(joined_means(inputs, c.global_streams))
    gates = self.lstm1_mean(mean)
    if c.variant == 'vanilla':
      return Memory(mean, gates, None, None, None)
    values, mask = self._memory_inputs(inputs)
    values = drop(self.memory_embed(values), (noise or {}).get('values'), c.dropout)
    return Memory(mean, gates, values, self.attend.keys(values), mask)

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """Zero states; S rows for each video."""
    return Carry.zeros(memory.mean.shape[0], S, self.config.hidden, self.config.dtype)

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to their part of the attention LSTM's gates (…, 4H)."""
    keep = (noise or {}).get('word')
    return self.lstm1_word(drop(self.words(words), keep, self.config.dropout))

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """Equations 1-4; the hidden state is the language LSTM's output (B, S, H)."""
    c = self.config
    gates = x + memory.gates[:, None] + self.lstm1_state(jnp.concatenate([carry.h2, carry.h1], -1))
    h1, c1 = recurrent.lstm(gates, carry.c1)
    h1 = h1.astype(c.dtype)
    attention, parts = {}, [h1, carry.h2]
    if c.variant != 'vanilla':
      context, weights = self.attend(h1, memory.keys, memory.values, memory.mask)
      attention, parts = {c.variant: weights}, [context, *parts]
    h2, c2 = recurrent.lstm(self.lstm2_state(jnp.concatenate(parts, -1)), carry.c2)
    h2 = h2.astype(c.dtype)
    hidden = drop(h2, (noise or {}).get('hidden'), c.dropout)
    aux = jnp.zeros(carry.position.shape, c1.dtype)
    return Carry(h1, c1, h2, c2, carry.position + 1), hidden, Extras(attention, aux)

  def logits(self, hidden: Array) -> Array:
    """Equation 5 before its softmax: (…, H) to (…, V)."""
    return self.output(hidden)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept."""
    c, B = self.config, inputs.batch_size
    encoder, steps = jax.random.split(key)
    memory = {} if c.variant == 'vanilla' else {'values': (B, self._slots(inputs), c.project)}
    return Noise(
      encoder=keep_masks(encoder, c.dropout, memory),
      steps=keep_masks(
        steps, c.dropout, {'word': (L, B, S, c.embed), 'hidden': (L, B, S, c.hidden)}
      ),
    )
