"""Captioner that attends to layers of a CNN as well as to positions (dualAFR, equations 1-9).

The grids of several layers of a 3D CNN are aligned to one size (equation 3). At each word,
attention over positions, shared by the layers, gives one vector per layer (equations 4-5).
Attention over these gives the context (equations 6-7), which an LSTM reads with the word. Both are
sums (soft, equation 8) or choices (hard, equation 9). The first word depends only on the top of the
CNN: h_1 = tanh(C a), c_1 = 0.

Equation 3 costs nearly all of a step if it is computed as written, 343 products for each output and
pair of channels. The large kernels are therefore applied in the frequency domain, which has the
same values and gradients up to rounding (``layers/tiled_convolution.py``; docs/models.md has both
costs). ``convolution='direct'`` computes it as written.

The paper's baselines are settings of this model: fewer layers (one: z_t = s_t; none: no context),
other alignments, an LSTM over the frames instead of their mean. With these alignments every layer
passes through an MLP of its own, the last one too (``embed_last``): equations 17-18 are for l = 1
to L, "each a_l is fed to a different MLP" in the row MLP, and hypercolumns are "similar". The paper
gives the MLP no size; here it has one hidden layer, as wide as the last layer's channels.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers import draws, recurrent
from vidcap_jax.models.layers.alignment import ALIGNMENTS, CONVOLUTIONS, Align, to_maps
from vidcap_jax.models.layers.attention import AdditiveAttention, Edit, masked_mean, mix, wide
from vidcap_jax.models.layers.dense import Dense, Embed, StepDense
from vidcap_jax.models.layers.dropout import drop, keep_masks

Array = jax.Array
CHOICES = ('soft', 'hard')
SUMMARIES = ('mean', 'lstm')


@dataclasses.dataclass(frozen=True)
class DualAFRConfig:
  """Sizes and streams.

  Attributes:
    vocab_size: V.
    choice: 'soft' or 'hard'. Hard attention samples by the noise in training and takes the largest
      weight otherwise; samples have a gradient only in objectives such as multi_sample.
    layers: square grid streams, from the finest layer to the one that all are aligned to; () for
      no context. A single layer may be a sequence, with one cell per frame.
    ratios: for each layer, how many times as fine as the last one it is, in time, rows and columns.
    kernels: sizes of the convolutions that align, for all layers but the last.
    alignment: one of ``alignment.ALIGNMENTS``; not used with a single layer.
    embed_last: whether the last layer passes through an MLP too, as every layer does in equation
      18; not with alignment 'convolution', whose last layer stays as it is (equation 3).
    convolution: how equation 3 is computed, one of ``alignment.CONVOLUTIONS``: by 'tiles' in the
      frequency domain where that is far cheaper, or 'direct'; the parameters are the same.
    top_stream: the vectors from the top of a CNN, a sequence or vector stream.
    top: how a sequence of them becomes one vector: their 'mean', or the last output of an 'lstm'.
    hidden: LSTM size H.
    embed: word embedding size E.
    attention: attention space A.
    dropout: rate on words, context and the hidden state.
    init_scale: weights are initialised uniformly in [-init_scale, init_scale], recurrent ones
      orthogonally, biases with zero.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  choice: str = 'soft'
  layers: tuple[str, ...] = ('pool2', 'pool3', 'pool4', 'pool5')
  ratios: tuple[int, ...] = (8, 4, 2, 1)
  kernels: tuple[int, ...] = (7, 5, 3)
  alignment: str = 'convolution'
  embed_last: bool = False
  convolution: str = 'tiles'
  top_stream: str = 'fc7'
  top: str = 'mean'
  hidden: int = 512
  embed: int = 300
  attention: int = 512
  dropout: float = 0.5
  init_scale: float = 0.01
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def __post_init__(self):
    known = {
      'choice': CHOICES,
      'alignment': ALIGNMENTS,
      'convolution': CONVOLUTIONS,
      'top': SUMMARIES,
    }
    for field, values in known.items():
      if (value := getattr(self, field)) not in values:
        raise ConfigError(f'model.{field} {value!r} is unknown; known: {", ".join(values)}')
    if self.embed_last and self.alignment == 'convolution':
      others = ', '.join(name for name in ALIGNMENTS if name != 'convolution')
      raise ConfigError(
        "model.embed_last=True: the last layer has no MLP with model.alignment 'convolution'; use "
        f'embed_last=False, or an alignment of: {others}'
      )
    if len(self.ratios) != len(self.layers) or (self.ratios and self.ratios[-1] != 1):
      raise ConfigError(
        f'model.ratios {self.ratios}: one for each of model.layers {self.layers} is needed, 1 for '
        'the last'
      )
    if any(ratio < 1 for ratio in self.ratios):
      raise ConfigError(f'model.ratios {self.ratios}: whole numbers from 1')
    if any(size < 1 or size % 2 == 0 for size in self.kernels):
      raise ConfigError(f'model.kernels {self.kernels}: odd whole numbers')
    if len(self.layers) > 1 and len(self.kernels) != len(self.layers) - 1:
      raise ConfigError(
        f'model.kernels {self.kernels}: one for each of {self.layers[:-1]} is needed'
      )

  @property
  def needs(self) -> Needs:
    """The layers share a clock, which ``top_stream`` doesn't."""
    kinds = ('grid',) if len(self.layers) > 1 else ('grid', 'sequence')
    streams = {self.top_stream: ('sequence', 'vector')} | dict.fromkeys(self.layers, kinds)
    if self.top_stream in self.layers:
      streams[self.top_stream] = ('sequence',)
    blocks = dict(zip(self.layers, self.ratios)) if len(self.layers) > 1 else {}
    return Needs(streams, blocks)

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """Positions are those of the last layer, to which all others are aligned."""
    if not self.layers:
      return {}
    found = {'spatiotemporal': AttentionAxes(('frames', 'places'), self.layers[-1])}
    if len(self.layers) > 1:
      found['layer'] = AttentionAxes(('layers',), names=self.layers)
    return found


@struct.dataclass
class Memory:
  """Per video: the first state, and the aligned layers side by side at each position."""

  first: Array  # (B, H)
  values: Array | None  # (B, N, layers D)
  keys: Array | None  # (B, N, A)
  positions: Array | None  # (B, N) bool
  layers: Array | None  # (B, layers) bool


@struct.dataclass
class Carry:
  """Per row: the LSTM's state (B, S, H) and the position in the caption (B, S)."""

  h: Array
  c: Array
  position: Array


class DualAFR(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` describes the methods."""

  config: DualAFRConfig

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    init = lambda key, shape, dtype: jax.random.uniform(  # noqa: E731
      key, shape, dtype, -c.init_scale, c.init_scale
    )
    orthogonal = recurrent.orthogonal_gates
    gates = functools.partial(StepDense, 4 * c.hidden, **dtypes)
    attention = lambda name: AdditiveAttention(  # noqa: E731
      name, c.attention, use_bias=True, edit=c.edit, kernel_init=init, **dtypes
    )
    if c.top == 'lstm':
      self.read_top = recurrent.LSTMEncoder(c.hidden, init, orthogonal, **dtypes)
    self.first = Dense(c.hidden, kernel_init=init, **dtypes)
    if c.layers:
      settings = {'embed_last': c.embed_last, 'convolution': c.convolution, **dtypes}
      self.align = Align(c.alignment, c.layers, c.ratios, c.kernels, init, **settings)
      self.attend_positions = attention('spatiotemporal')
      self.lstm_context = gates(use_bias=False, kernel_init=init)
    if len(c.layers) > 1:
      self.attend_layers = attention('layer')
    self.words = Embed(c.vocab_size, c.embed, embedding_init=init, **dtypes)
    self.lstm_word = gates(use_bias=False, kernel_init=init)
    self.lstm_state = gates(kernel_init=orthogonal)
    self.output = Dense(c.vocab_size, kernel_init=init, **dtypes)

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """Equation 3 for all layers, the attention's keys, and h_1."""
    c = self.config
    first = jnp.tanh(self.first(self._top(inputs)))
    if not c.layers:
      return Memory(first, None, None, None, None)
    maps, masks = zip(*(to_maps(n, inputs.features[n], inputs.masks[n]) for n in c.layers))
    values, mask = self.align(maps, masks)  # (B, N, layers, D), (B, N, layers)
    values = values.reshape(*values.shape[:2], -1)
    keys = self.attend_positions.keys(values)
    return Memory(first, values, keys, mask.any(axis=2), mask.any(axis=1))

  def _top(self, inputs: Inputs) -> Array:
    """a_{L+1}: one vector (B, D) a video."""
    x, mask = inputs.features[self.config.top_stream], inputs.masks[self.config.top_stream]
    if x.ndim == 2:  # a vector is a sequence of one window
      x, mask = x[:, None], mask[:, None]
    return self.read_top(x, mask) if self.config.top == 'lstm' else masked_mean(x, mask)

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """h_1 and c_1 = 0, which the first step hands on as they are."""
    B, H = memory.first.shape
    h = jnp.broadcast_to(memory.first[:, None], (B, S, H))
    return Carry(h, jnp.zeros((B, S, H), wide(self.config.dtype)), jnp.zeros((B, S), jnp.int32))

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to their part of the LSTM's gates (…, 4H)."""
    return self.lstm_word(drop(self.words(words), (noise or {}).get('word'), self.config.dropout))

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """h_t = LSTM(w_{t-1}, h_{t-1}, z_t); the hidden state is h_t (B, S, H), at first h_1."""
    c, noise = self.config, noise or {}
    first = carry.position == 0  # (B, S): no attention and no word is read
    gates = x + self.lstm_state(carry.h)
    attention: dict[str, Array] = {}
    log_prob = None
    if c.layers:
      context, attention, log_prob = self.attend(carry.h, memory, noise)
      gates = gates + self.lstm_context(drop(context, noise.get('context'), c.dropout))
      zero = lambda a: jnp.where(jnp.expand_dims(first, range(2, a.ndim)), 0, a)  # noqa: E731
      attention, log_prob = jax.tree.map(zero, (attention, log_prob))
    h, cell = recurrent.lstm(gates, carry.c)
    h = jnp.where(first[..., None], carry.h, h.astype(c.dtype))
    cell = jnp.where(first[..., None], carry.c, cell)
    hidden = drop(h, noise.get('hidden'), c.dropout)
    aux = jnp.zeros(first.shape, cell.dtype)
    return Carry(h, cell, carry.position + 1), hidden, Extras(attention, aux, log_prob)

  def attend(self, query: Array, memory: Memory, noise) -> tuple[Array, dict, Array | None]:
    """Equations 4-9: from h_{t-1} (B, S, H) the context z_t (B, S, D).

    Args:
      noise: ``position`` and ``layer`` (B, S), uniform numbers for random choices, or {}.

    Returns:
      The context, the weights by name (B, S, N) and (B, S, layers), and the log-probability (B, S)
      of the random choices, None if there are none.
    """
    c = self.config
    drawn = c.choice == 'hard' and 'position' in noise
    layers = len(c.layers)
    s, alpha = self.attend_positions(query, memory.keys, memory.values, memory.positions)
    if c.choice == 'hard':
      chosen, log_prob = draws.choose(alpha, noise.get('position'))
      s = mix(chosen, memory.values)  # padding in it is zero
    if layers == 1:
      return s, {'spatiotemporal': alpha}, log_prob if drawn else None
    s = s.reshape(*s.shape[:2], layers, -1)  # (B, S, layers, D)
    mask = jnp.broadcast_to(memory.layers[:, None], s.shape[:3])
    z, beta = self.attend_layers(query, self.attend_layers.keys(s), s, mask)
    if c.choice == 'hard':
      chosen, log_prob_layer = draws.choose(beta, noise.get('layer'))
      z, log_prob = mix(chosen, s), log_prob + log_prob_layer
    return z, {'spatiotemporal': alpha, 'layer': beta}, log_prob if drawn else None

  def logits(self, hidden: Array) -> Array:
    """(…, H) to (…, V)."""
    return self.output(hidden)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept; uniform numbers for the hard choices of every step."""
    c, B = self.config, inputs.batch_size
    keep, draw = jax.random.split(key)
    shapes = {'word': (L, B, S, c.embed), 'hidden': (L, B, S, c.hidden)}
    if c.layers:
      D = inputs.features[c.layers[-1]].shape[-1]
      shapes['context'] = (L, B, S, D)
    steps = keep_masks(keep, c.dropout, shapes)
    if c.layers and c.choice == 'hard':
      numbers = jax.random.uniform(draw, (2, L, B, S))
      steps |= {'position': numbers[0], 'layer': numbers[1]}
    return Noise(steps=steps)
