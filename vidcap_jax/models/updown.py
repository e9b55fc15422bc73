"""Bottom-up and top-down attention (Anderson et al. 2018, section 3.2, equations 1-10).

An attention LSTM reads [language state; mean image feature; word] (equation 2); additive attention
over the image's regions (equations 3-5) has its state as query; a language LSTM reads [context;
attention state] (equation 6), and its state gives the next word's logits (equation 7).

Decided: words and features pass a ReLU after their embedding, and features are embedded before they
are attended to, as in the implementations that people train (the paper attends to the features as
they are). The regions may be any set: those of one picture or of all frames, the cells of a grid,
or the frames of a sequence. The bias of the attention's query and key is one parameter, and the
scores have none, which softmax would cancel. ``temporal_spatial.py`` has the same two LSTMs without
ReLUs and biases.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers import recurrent
from vidcap_jax.models.layers.attention import AdditiveAttention, Edit
from vidcap_jax.models.layers.dense import Dense, Embed, StepDense
from vidcap_jax.models.layers.dropout import drop, keep_masks
from vidcap_jax.models.layers.pooling import joined_means
from vidcap_jax.models.temporal_spatial import Carry

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class UpDownConfig:
  """Sizes and streams.

  Attributes:
    vocab_size: V.
    global_streams: averaged over their entries and joined for the mean feature; of any kind.
    attended_stream: whose entries are attended to: regions, a grid or a sequence.
    hidden: LSTM size H.
    embed: word embedding size E.
    project: size P of the embedded features (mean and entries).
    attention: attention space A.
    dropout: rate on words, the embedded features and the language LSTM's output.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  global_streams: tuple[str, ...] = ('image',)
  attended_stream: str = 'image'
  hidden: int = 512
  embed: int = 512
  project: int = 512
  attention: int = 512
  dropout: float = 0.5
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def __post_init__(self):
    for field in ('global_streams', 'attended_stream'):
      if not getattr(self, field):
        raise ConfigError(f'model.{field} is empty; name a stream')

  @property
  def needs(self) -> Needs:
    """All streams; the one that is attended to has to have entries."""
    streams = dict.fromkeys(self.global_streams, ('vector', 'sequence', 'regions', 'grid'))
    return Needs({**streams, self.attended_stream: ('regions', 'grid', 'sequence')})

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """The weights of the entries."""
    return {'entries': AttentionAxes(('entries',), streams=(self.attended_stream,))}


@struct.dataclass
class Memory:
  """Per video: the mean feature's part of the gates, and the entries that are attended to."""

  gates: Array  # (B, 4H)
  values: Array  # (B, N, P)
  keys: Array  # (B, N, A)
  mask: Array  # (B, N)


class UpDown(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` describes the methods."""

  config: UpDownConfig

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    gates = lambda bias: StepDense(  # noqa: E731
      4 * c.hidden, use_bias=bias, kernel_init=recurrent.GATES_INIT, **dtypes
    )
    self.global_embed = Dense(c.project, **dtypes)
    self.memory_embed = Dense(c.project, **dtypes)
    self.attend = AdditiveAttention('entries', c.attention, True, edit=c.edit, **dtypes)
    self.words = Embed(c.vocab_size, c.embed, embedding_init=nn.initializers.normal(1.0), **dtypes)
    # lstm1 reads [mean; word; h2] and h1; lstm2 reads [context; h1] and h2.
    self.lstm1_mean = gates(False)
    self.lstm1_word = gates(False)
    self.lstm1_state = gates(True)  # [h2; h1]
    self.lstm2_state = gates(True)  # [context; h1; h2]
    self.output = Dense(c.vocab_size, **dtypes)

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """The embedded mean feature's part of the gates, and the embedded entries with their keys."""
    c, keep = self.config, noise or {}
    embedded = jax.nn.relu(self.global_embed(joined_means(inputs, c.global_streams)))
    gates = self.lstm1_mean(drop(embedded, keep.get('mean'), c.dropout))
    x, mask = inputs.features[c.attended_stream], inputs.masks[c.attended_stream]
    x = jnp.where(mask[..., None], x, jnp.zeros_like(x)).reshape(x.shape[0], -1, x.shape[-1])
    values = drop(jax.nn.relu(self.memory_embed(x)), keep.get('values'), c.dropout)
    return Memory(gates, values, self.attend.keys(values), mask.reshape(mask.shape[0], -1))

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """Zero states; S rows for each video."""
    return Carry.zeros(memory.gates.shape[0], S, self.config.hidden, self.config.dtype)

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to their part of the attention LSTM's gates (…, 4H)."""
    embedded = jax.nn.relu(self.words(words))
    return self.lstm1_word(drop(embedded, (noise or {}).get('word'), self.config.dropout))

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """Equations 2-6; the hidden state is the language LSTM's output (B, S, H)."""
    c = self.config
    gates = x + memory.gates[:, None] + self.lstm1_state(jnp.concatenate([carry.h2, carry.h1], -1))
    h1, c1 = recurrent.lstm(gates, carry.c1)
    h1 = h1.astype(c.dtype)
    context, weights = self.attend(h1, memory.keys, memory.values, memory.mask)
    gates = self.lstm2_state(jnp.concatenate([context, h1, carry.h2], -1))
    h2, c2 = recurrent.lstm(gates, carry.c2)
    h2 = h2.astype(c.dtype)
    hidden = drop(h2, (noise or {}).get('hidden'), c.dropout)
    extras = Extras({'entries': weights}, jnp.zeros(carry.position.shape, c1.dtype))
    return Carry(h1, c1, h2, c2, carry.position + 1), hidden, extras

  def logits(self, hidden: Array) -> Array:
    """Equation 7 before its softmax: (…, H) to (…, V)."""
    return self.output(hidden)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept."""
    c, B = self.config, inputs.batch_size
    encoder, steps = jax.random.split(key)
    entries = math.prod(inputs.masks[c.attended_stream].shape[1:])
    return Noise(
      encoder=keep_masks(
        encoder, c.dropout, {'mean': (B, c.project), 'values': (B, entries, c.project)}
      ),
      steps=keep_masks(
        steps, c.dropout, {'word': (L, B, S, c.embed), 'hidden': (L, B, S, c.hidden)}
      ),
    )
