"""Spatio-temporal and temporo-spatial attention captioner (STaTS).

Two branches attend to a video at each word. The spatio-temporal one (ST) attends to the same cells
in all frames and then pools the frames over time, by ranked attention. The temporo-spatial one (TS)
chooses a frame and then attends within it. Their results are weighted by the language state
(equation 12), and the decoder LSTM reads the sum with the word: [word; x]. The query of all
attention is that LSTM's state plus the newest word's self-attention over the words before it.

Where the paper is silent: ST, TS and equation 12 have separate parameters; single branches are read
without equation 12's tanh. Of TS's softmax over frames the paper says "a low temperature". Here it
falls geometrically with ``Inputs.progress``, in the configs from 1 to 0.01 during cross
entropy, so that gradients reach all frames at first. In reinforcement it stays at its end value, as
in validation and prediction: samples and their greedy baseline then come from the captioner that is
evaluated.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers import recurrent
from vidcap_jax.models.layers.attention import Edit, weigh, wide
from vidcap_jax.models.layers.dense import Dense, Embed, StepDense
from vidcap_jax.models.layers.dropout import drop, keep_masks
from vidcap_jax.models.layers.stats_branches import (
  POOLINGS,
  VARIANTS,
  Branches,
  View,
  branch_attentions,
  chooses_hard,
)

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class StatsConfig:
  """Sizes and streams.

  Attributes:
    vocab_size: V.
    variant: one of ``VARIANTS``: ST, TS or both.
    pooling: one of ``POOLINGS``, of the ST branch.
    grid_streams: a cell has the same place in all frames, so ST attends to means over time.
    region_streams: boxes don't, so ST attends in each frame (equation 3 as written), and TS's
      choice of a frame is hard, with the gradient of a soft one. A grid may be read so too.
    sequence_streams: frames without space: ST pools them as they are, TS chooses one.
    categories: number of video categories (+C); 0 to read no category.
    hidden: decoder LSTM size H.
    embed: word and category embedding size E.
    project: size P of the embedded features, and of the ranked LSTM.
    attention: attention space A.
    rank_margin: beta of equation 7.
    rank_weight: weight of the rank loss, a sum over frames, relative to a word's cross entropy.
    temperature: of TS's softmax over frames, at the start and at the end of annealing
      (``train.annealed``); the end value in validation and prediction.
    hard_at_test: whether TS uses only the likeliest frame in validation and prediction.
    dropout: rate on words, the context and the LSTM's output.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  variant: str = 'stats'
  pooling: str = 'mean_ranked'
  grid_streams: tuple[str, ...] = ('i3d',)
  region_streams: tuple[str, ...] = ()
  sequence_streams: tuple[str, ...] = ()
  categories: int = 0
  hidden: int = 512
  embed: int = 256
  project: int = 512
  attention: int = 128
  rank_margin: float = 1.0
  rank_weight: float = 0.1
  temperature: tuple[float, float] = (1.0, 0.01)
  hard_at_test: bool = False
  dropout: float = 0.5
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def __post_init__(self):
    for field, known in (('variant', VARIANTS), ('pooling', POOLINGS)):
      if (value := getattr(self, field)) not in known:
        raise ConfigError(f'model.{field} {value!r} is unknown; known: {", ".join(known)}')
    names = [*self.grid_streams, *self.region_streams, *self.sequence_streams]
    if not names or len(set(names)) < len(names):
      raise ConfigError(
        'model.grid_streams, region_streams and sequence_streams name one stream or more, each '
        f'once; got {names}'
      )
    if len(self.temperature) != 2 or min(self.temperature) <= 0:
      raise ConfigError(
        f'model.temperature is (start, end), both above 0 (and hard_at_test for a hard choice); '
        f'got {self.temperature}'
      )
    for field in ('rank_weight', 'categories'):
      if (value := getattr(self, field)) < 0:
        raise ConfigError(f'model.{field} must not be negative, got {value}')

  @property
  def kinds(self) -> dict[str, str]:
    """Stream name -> how it is read: 'grid', 'regions' or 'sequence'."""
    return (
      dict.fromkeys(self.grid_streams, 'grid')
      | dict.fromkeys(self.region_streams, 'regions')
      | dict.fromkeys(self.sequence_streams, 'sequence')
    )

  @property
  def needs(self) -> Needs:
    """The streams and categories that are read."""
    kinds = {'grid': ('grid',), 'regions': ('regions', 'grid'), 'sequence': ('sequence',)}
    streams = {name: kinds[kind] for name, kind in self.kinds.items()}
    return Needs(streams, categories=self.categories)

  def temperature_at(self, progress: Array | float | None) -> Array:
    """TS's temperature at a share of annealing; None: outside of training, the end value."""
    start, end = self.temperature
    progress = 1.0 if progress is None else progress
    return start * (end / start) ** jnp.asarray(progress, wide(self.dtype))

  def settings_at(self, progress: Array | float | None, *, train: bool) -> dict[str, Array | str]:
    """Settings that change in training or differ outside of it, for ``studies.schedules``."""
    if self.variant == 'st':
      return {}
    hard = {chooses_hard(kind, self.hard_at_test, train=train) for kind in self.kinds.values()}
    choice = ' and '.join('hard' if each else 'soft' for each in sorted(hard))
    return {'temperature': self.temperature_at(progress), 'choice of a frame': choice}

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """The axes of the weights: of the self-attention over words, and of each stream's branches."""
    found = {'words': AttentionAxes(('words',))}
    for name, kind in self.kinds.items():
      prefix = f'{name}/' if len(self.kinds) > 1 else ''
      found |= branch_attentions(name, kind, self.variant, self.pooling, prefix)
    return found


@struct.dataclass
class Memory:
  """Per video: its streams, its category (B, E) if categories are read, TS's temperature (B,)."""

  views: Mapping[str, View]
  category: Array | None
  temperature: Array


@struct.dataclass
class Carry:
  """Per row: the LSTM's state, the embeddings of the words so far, the position (B, S)."""

  h: Array  # (B, S, H)
  c: Array  # (B, S, H)
  words: Array  # (B, S, L, E)
  position: Array


class Stats(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` describes the methods."""

  config: StatsConfig

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    several = len(c.kinds) > 1
    self.branches = {
      name: Branches(
        kind,
        c.variant,
        c.pooling,
        c.project,
        c.attention,
        rank_margin=c.rank_margin,
        hard_at_test=c.hard_at_test,
        prefix=f'{name}/' if several else '',
        edit=c.edit,
        **dtypes,
      )
      for name, kind in c.kinds.items()
    }
    table = {'embedding_init': nn.initializers.uniform(0.1), **dtypes}
    self.words = Embed(c.vocab_size, c.embed, **table)
    if c.categories:
      self.category = Embed(c.categories, c.embed, **table)
    if several or c.categories:
      self.join = StepDense(c.project, **dtypes)
    # One head of self-attention: query and key are one matrix, value and output another.
    self.recall_match = StepDense(c.embed, use_bias=False, **dtypes)
    self.recall = StepDense(c.hidden, use_bias=False, **dtypes)
    # Reads [word; x; h].
    self.lstm = StepDense(4 * c.hidden, kernel_init=recurrent.GATES_INIT, **dtypes)
    self.output = Dense(c.vocab_size, **dtypes)

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """Embeds the streams and projects their attention keys; unknown categories are zeros."""
    c, B = self.config, inputs.batch_size
    views = {
      name: branches.view(inputs.features[name], inputs.masks[name])
      for name, branches in self.branches.items()
    }
    category = None
    if c.categories:
      numbers = jnp.full((B,), -1, jnp.int32) if inputs.category is None else inputs.category
      known = numbers >= 0
      vectors = self.category(jnp.where(known, numbers, 0))
      category = jnp.where(known[:, None], vectors, jnp.zeros_like(vectors))
    temperature = jnp.broadcast_to(c.temperature_at(inputs.progress), (B,))
    return Memory(views, category, temperature)

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """Zero states and no words yet; S rows for each video."""
    c, B = self.config, memory.temperature.shape[0]
    return Carry(
      h=jnp.zeros((B, S, c.hidden), c.dtype),
      c=jnp.zeros((B, S, c.hidden), wide(c.dtype)),
      words=jnp.zeros((B, S, L, c.embed), c.dtype),
      position=jnp.zeros((B, S), jnp.int32),
    )

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to their embeddings (…, E)."""
    return drop(self.words(words), (noise or {}).get('word'), self.config.dropout)

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """Equations 3-12 and the decoder LSTM, whose output is the hidden state (B, S, H)."""
    c, keep = self.config, noise or {}
    words, recalled, weights = self._recall(carry, x)
    query = carry.h + recalled
    attention = {'words': weights}
    parts, loss = [], jnp.zeros(carry.position.shape, wide(c.dtype))
    for name, branches in self.branches.items():
      part, rank_loss, weights = branches(
        query, memory.views[name], memory.temperature, train=train
      )
      parts.append(part)
      loss = loss + rank_loss
      attention |= weights
    if memory.category is not None:
      parts.append(jnp.broadcast_to(memory.category[:, None], x.shape))
    context = self.join(jnp.concatenate(parts, axis=-1)) if len(parts) > 1 else parts[0]
    context = drop(context, keep.get('context'), c.dropout)
    h, cell = recurrent.lstm(self.lstm(jnp.concatenate([x, context, carry.h], axis=-1)), carry.c)
    h = h.astype(c.dtype)
    hidden = drop(h, keep.get('hidden'), c.dropout)
    extras = Extras(attention, c.rank_weight * loss)
    return Carry(h, cell, words, carry.position + 1), hidden, extras

  def _recall(self, carry: Carry, x: Array) -> tuple[Array, Array, Array]:
    """Self-attention of the newest word x (B, S, E) over the words so far, itself included.

    Returns:
      The words with the newest (B, S, L, E), the result (B, S, H), the weights (B, S, L).
    """
    slots = jnp.arange(carry.words.shape[2], dtype=jnp.int32).reshape(1, 1, -1)
    position = carry.position[..., None]
    words = jnp.where((slots == position)[..., None], x[:, :, None], carry.words)
    scores = jnp.einsum('bse,bsle->bsl', self.recall_match(x), words) / x.shape[-1] ** 0.5
    weights = weigh('words', scores, slots <= position, self.config.edit)
    return words, self.recall(jnp.einsum('bsl,bsle->bse', weights.astype(x.dtype), words)), weights

  def logits(self, hidden: Array) -> Array:
    """(…, H) to (…, V)."""
    return self.output(hidden)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept."""
    c, rows = self.config, (L, inputs.batch_size, S)
    sizes = {'word': c.embed, 'context': c.project, 'hidden': c.hidden}
    masks = keep_masks(key, c.dropout, {name: (*rows, size) for name, size in sizes.items()})
    return Noise(steps=masks)
