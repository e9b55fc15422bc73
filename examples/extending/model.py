"""A sixth model: the mean of all frames, then a GRU (after Venugopalan et al., NAACL 2015)."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers.dropout import drop, keep_masks
from vidcap_jax.models.layers.pooling import joined_means
from vidcap_jax.models.layers.recurrent import GRU

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class MeanGRUConfig:
  """Settings, as the config file's ``model`` section gives them.

  Attributes:
    vocab_size: V, filled in from the vocabulary.
    streams: averaged over time and joined.
    hidden: GRU size H.
    embed: word embedding size E.
    dropout: rate on words and on the GRU's output.
    dtype: of the computation, filled in from ``train.dtype``; parameters are ``param_dtype``.
  """

  vocab_size: int
  streams: tuple[str, ...] = ('image',)
  hidden: int = 256
  embed: int = 256
  dropout: float = 0.3
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @property
  def needs(self) -> Needs:
    """The streams that the model reads, and the kinds that they may have."""
    return Needs(dict.fromkeys(self.streams, ('sequence', 'vector')))


@struct.dataclass
class Memory:
  """Per video: the first GRU state (B, H)."""

  state: Array


@struct.dataclass
class Carry:
  """Per row: the GRU state (B, S, H)."""

  state: Array


class MeanGRU(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` says what each method must do."""

  config: MeanGRUConfig  # This annotation tells the package which config class to use.

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    self.video = nn.Dense(c.hidden, **dtypes)
    self.words = nn.Embed(c.vocab_size, c.embed, **dtypes)  # The table must be called `words`.
    self.cell = GRU(c.hidden, **dtypes)
    self.output = nn.Dense(c.vocab_size, **dtypes)

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """Runs once per video. Features (B, T, D) to a state (B, H); padded frames don't count."""
    return Memory(jnp.tanh(self.video(joined_means(inputs, self.config.streams))))

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """The carry before the first word, for S captions of each video."""
    B, H = memory.state.shape
    return Carry(jnp.broadcast_to(memory.state[:, None], (B, S, H)))

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to their part of the GRU's gates (…, 3H): one product for a whole caption."""
    keep = (noise or {}).get('word')
    return self.cell.inputs(drop(self.words(words), keep, self.config.dropout))

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """One word: the new carry, the hidden state (B, S, H) and, here, no attention and no losses."""
    state = self.cell(x, carry.state)
    hidden = drop(state, (noise or {}).get('hidden'), self.config.dropout)
    return Carry(state), hidden, Extras({}, jnp.zeros(state.shape[:2], state.dtype))

  def logits(self, hidden: Array) -> Array:
    """Hidden states (…, H) to scores of all words (…, V)."""
    return self.output(hidden)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks of all L words, made before the first one."""
    c, B = self.config, inputs.batch_size
    shapes = {'word': (L, B, S, c.embed), 'hidden': (L, B, S, c.hidden)}
    return Noise(steps=keep_masks(key, c.dropout, shapes))
