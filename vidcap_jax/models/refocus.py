"""Refocused video encoder (VRE, 2019, equations 2-16, Algorithms 1 and 2) and its baselines.

A bidirectional GRU reads the video outwards from its middle frame. Attention, with the result as
its query, chooses the key frame, from which the video is read a second time. An LSTM that starts
with the video's code attends to the frames and to the cells of the mean frame.

Table 1's rows are settings of this one model:

  MeanPool         passes=0 temporal='mean'      spatial_stream=''      audio_stream=''
  SoftAtt          passes=0 temporal='attention' spatial_stream=''      audio_stream=''
  V_f + v_s        passes=0 temporal='attention' spatial_stream='image' audio_stream=''
  KBiGRU           passes=1 temporal='attention' spatial_stream=''      audio_stream=''
  KBiGRU+v_s+v_a   passes=1 temporal='attention' spatial_stream='image' audio_stream='audio'
  VRE              passes=2 temporal='attention' spatial_stream='image' audio_stream='audio'

Where the paper is silent: the middle of K frames is frame floor(K / 2); the first of frames with
equal weights is the key frame; the GRU's reset comes after the product; W_a and the decoder are
shared by both passes; means are taken over valid entries, and missing audio is zeros. Without an
encoder the LSTM starts from zeros with <BOS>. Audio and a mean frame are read at every step.
Reinforcement is "for the decoder": the encoder of Algorithm 1 stays fixed in that stage, while the
decoder's attention is trained. docs/papers.md has what was decided about training.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers import recurrent
from vidcap_jax.models.layers.attention import (
  BilinearAttention,
  Edit,
  masked_mean,
  mix,
  weigh,
  wide,
)
from vidcap_jax.models.layers.dense import Dense, Embed, StepDense
from vidcap_jax.models.layers.draws import inverse_cdf
from vidcap_jax.models.layers.dropout import drop, keep_masks
from vidcap_jax.models.layers.kbigru import KBiGRU, middle_frame

Array = jax.Array
SAMPLERS = ('argmax', 'categorical')


@dataclasses.dataclass(frozen=True)
class RefocusConfig:
  """Sizes and streams.

  Attributes:
    vocab_size: V.
    passes: how often the encoder reads the video: 0 for no encoder, 1 for once from the middle
      frame, 2 for once more from the key frame that it chose.
    temporal: how the decoder reads the frames: 'attention' (eq 13-16) or their 'mean'.
    stream: the frames: a sequence, or a grid whose cells are averaged (eq 2).
    spatial_stream: a grid; the decoder attends to the cells of its mean frame (eq 3 and 12). It may
      be ``stream`` itself, or a grid of one frame that was averaged before; '' for none.
    audio_stream: a vector, or a sequence to be averaged; '' for none.
    hidden: H, of the GRUs, the codes and the LSTM.
    embed: word embedding size E; H if there is an encoder, whose code replaces the first word.
    attention: attention space A.
    sampler: of the key frame while training: 'argmax', the frame of the largest weight, or
      'categorical', one drawn by the weights. Otherwise it is always the largest.
    dropout: rate on the LSTM's output.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  passes: int = 2
  temporal: str = 'attention'
  stream: str = 'image'
  spatial_stream: str = 'image'
  audio_stream: str = 'audio'
  hidden: int = 512
  embed: int = 512
  attention: int = 512
  sampler: str = 'argmax'
  dropout: float = 0.5
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def __post_init__(self):
    if self.passes not in (0, 1, 2):
      raise ConfigError(f'model.passes is {self.passes}; the encoder makes 0, 1 or 2')
    if self.temporal not in ('attention', 'mean'):
      raise ConfigError(f'model.temporal {self.temporal!r} is unknown; known: attention, mean')
    if self.sampler not in SAMPLERS:
      raise ConfigError(f'model.sampler {self.sampler!r} is unknown; known: {", ".join(SAMPLERS)}')
    if self.passes and self.embed != self.hidden:
      raise ConfigError(
        f'model.embed is {self.embed}, model.hidden {self.hidden}: they must be equal, as the '
        "video's code takes the first word's place"
      )

  @property
  def needs(self) -> Needs:
    """The streams that these settings read."""
    streams: dict[str, tuple[str, ...]] = {self.stream: ('sequence', 'grid')}
    if self.spatial_stream:
      streams[self.spatial_stream] = ('grid',)
    if self.audio_stream:
      streams[self.audio_stream] = ('vector', 'sequence')
    return Needs(streams, key_frames=self.passes > 0)

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """The axes of the weights; cells are those of the mean frame."""
    found = {}
    if self.temporal == 'attention':
      found['temporal'] = AttentionAxes(('frames',), self.stream)
    if self.spatial_stream:
      found['spatial'] = AttentionAxes(('places',), self.spatial_stream)
    if self.passes == 2:
      found['keyframe'] = AttentionAxes(('frames',), self.stream)
    return found


@struct.dataclass
class Slots:
  """What is attended to: keys (B, N, A), values (B, N, 4H) in the gates' space, mask (B, N)."""

  keys: Array
  values: Array
  mask: Array


@struct.dataclass
class Passes:
  """The encoder's result of each pass: o_1, … (B, P, H), and its part of the gates (B, P, 4H)."""

  code: Array
  gates: Array


@struct.dataclass
class Focus:
  """The choice of the key frame: a (B, T) of eq 8, alpha (B, T), key frame (B,), mask (B, T)."""

  scores: Array
  weights: Array
  key_frame: Array
  mask: Array


@struct.dataclass
class Memory:
  """Per video.

  Attributes:
    gates: (B, 4H), the part of the gates that is the same at every step: audio and the mean frame.
    attended: 'temporal' and 'spatial', if the model attends to them.
    passes: None without an encoder; the decoder uses the last pass.
    focus: None without a second pass.
  """

  gates: Array
  attended: Mapping[str, Slots]
  passes: Passes | None = None
  focus: Focus | None = None

  def first_pass(self) -> 'Memory':
    """The memory after the first pass, which has no choice of a key frame yet."""
    passes = jax.tree.map(lambda x: x[:, :1], self.passes)
    return dataclasses.replace(self, passes=passes, focus=None)

  def each_pass(self, unroll: Callable[['Memory'], Any]) -> Any:
    """Calls ``unroll`` with the memory after each pass; results are stacked: leaves (P, …).

    Passes are vmapped, so that they share keys and values and are one computation.
    """

    def unroll_pass(passes):
      return unroll(dataclasses.replace(self, passes=jax.tree.map(lambda x: x[:, None], passes)))

    return jax.vmap(unroll_pass, in_axes=1)(self.passes)


@struct.dataclass
class Carry:
  """Per row: the LSTM's output and cell (B, S, H), the position in the caption (B, S)."""

  h: Array
  c: Array
  position: Array


class Refocus(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` describes the methods."""

  config: RefocusConfig
  # What Algorithm 1 reads. The attention modules belong to the decoder (section 3.3).
  encoder_params: ClassVar[tuple[str, ...]] = ('encoder', 'code', 'refocus', 'merge')

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    gates = lambda bias=False: StepDense(  # noqa: E731
      4 * c.hidden, use_bias=bias, kernel_init=recurrent.GATES_INIT, **dtypes
    )
    attention = lambda name: BilinearAttention(  # noqa: E731
      name, c.attention, use_bias=False, edit=c.edit, **dtypes
    )
    # There is no b of eq 8 and 14: it is added to all scores and cancels in the softmax.
    attended = ['temporal'] * (c.temporal == 'attention') + ['spatial'] * bool(c.spatial_stream)
    self.attend = {name: attention(name) for name in attended}
    # The LSTM's kernel by what it reads; ``lstm['state']`` has the bias.
    reads = {'temporal', 'word', *attended} | ({'audio'} if c.audio_stream else set())
    self.lstm = {'state': gates(True), **{name: gates() for name in sorted(reads)}}
    if c.passes:
      self.encoder = KBiGRU(c.hidden, **dtypes)
      self.code = Dense(c.hidden, **dtypes)  # W_a, of both passes
    if c.passes == 2:
      self.refocus = attention('keyframe')
      self.merge = Dense(c.hidden, **dtypes)  # W_m
    self.words = Embed(c.vocab_size, c.embed, embedding_init=nn.initializers.uniform(0.1), **dtypes)
    self.output = Dense(c.vocab_size, **dtypes)

  def temporal_features(self, inputs: Inputs) -> tuple[Array, Array]:
    """V_f (B, T, D), zeros where there is no frame, and its mask (B, T): eq 2 for a grid."""
    x, mask = inputs.features[self.config.stream], inputs.masks[self.config.stream]
    if x.ndim == 4:
      return masked_mean(x, mask), mask.any(axis=-1)
    return jnp.where(mask[..., None], x, jnp.zeros_like(x)), mask

  def spatial_features(self, inputs: Inputs) -> tuple[Array, Array]:
    """v_s (B, N, D) and its mask (B, N): each cell's mean over the frames, eq 3."""
    name = self.config.spatial_stream
    x, mask = inputs.features[name], inputs.masks[name]
    x, mask = jnp.swapaxes(x, 1, 2), jnp.swapaxes(mask, 1, 2)  # (B, N, T, …)
    return masked_mean(x, mask), mask.any(axis=-1)

  def _audio(self, inputs: Inputs) -> Array | None:
    """v_a (B, D), zeros for a video without audio; None if the model reads no audio."""
    name = self.config.audio_stream
    if not name:
      return None
    x, mask = inputs.features[name], inputs.masks[name]
    return masked_mean(*((x, mask) if x.ndim == 3 else (x[:, None], mask[:, None])))

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """Algorithm 1, and the part of Algorithm 2 that does not depend on the words.

    The last pass starts from ``inputs.key_frame`` where it is known.
    """
    c = self.config
    frames, mask = self.temporal_features(inputs)
    audio = self._audio(inputs)
    gates = jnp.zeros((frames.shape[0], 4 * c.hidden), c.dtype)
    if audio is not None:
      gates += self.lstm['audio'](audio)
    memories = {'temporal': (frames, mask)}
    if c.spatial_stream:
      memories['spatial'] = self.spatial_features(inputs)
    if c.temporal == 'mean':
      gates += self.lstm['temporal'](masked_mean(frames, mask))
    # Attention is linear in the values, so their product is taken once per video, not per step.
    attended = {
      name: Slots(attend.keys(x), self.lstm[name](x), valid)
      for name, attend in self.attend.items()
      for x, valid in [memories[name]]
    }
    if not c.passes:
      return Memory(gates, attended)
    draw = (noise or {}).get('key_frame')
    codes, focus = self._passes(frames, mask, audio, inputs.key_frame, draw)
    code = jnp.stack(codes, axis=1)  # (B, P, H)
    return Memory(gates, attended, Passes(code, self.lstm['word'](code)), focus)

  def _passes(
    self,
    frames: Array,
    mask: Array,
    audio: Array | None,
    given: Array | None,
    draw: Array | None,
  ):
    """o_1, … (B, H) each, and ``Focus`` if there are two.

    ``draw`` (B,), uniform in [0, 1), draws the key frame; None takes that of the largest weight.
    """
    c = self.config
    parts = [] if audio is None else [audio.astype(c.dtype)]
    code = lambda h: jnp.tanh(self.code(jnp.concatenate([h, *parts], axis=-1)))  # noqa: E731
    known = lambda own: own if given is None else jnp.where(given >= 0, given, own)  # noqa: E731
    middle, inputs = middle_frame(mask), self.encoder.inputs(frames)
    if c.passes == 1:
      return [code(self.encoder(inputs, mask, known(middle)))], None
    h1 = self.encoder(inputs, mask, middle)
    o1 = code(h1)
    scores = self.refocus.scores_at(o1[:, None])(self.refocus.keys(frames))  # (B, T), eq 8
    weights = weigh('keyframe', scores, mask, c.edit)  # eq 9
    chosen = jnp.argmax(weights, axis=-1) if draw is None else inverse_cdf(weights, draw)
    key_frame = known(chosen.astype(jnp.int32))  # eq 11
    h2 = self.encoder(inputs, mask, key_frame)
    o2 = code(jnp.tanh(self.merge(jnp.concatenate([h1, h2], axis=-1))))
    return [o1, o2], Focus(scores, weights, key_frame, mask)

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """Output 0 and the code as cell, or 0 without an encoder; S rows for each video."""
    B, H = memory.gates.shape[0], self.config.hidden
    cell = jnp.zeros((B, S, H), wide(self.config.dtype))
    if memory.passes is not None:
      cell += memory.passes.code[:, -1:].astype(cell.dtype)
    h = jnp.zeros((B, S, H), self.config.dtype)
    return Carry(h, cell, jnp.zeros((B, S), jnp.int32))

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to their part of the gates (…, 4H)."""
    return self.lstm['word'](self.words(words))

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """A step of Algorithm 2; the hidden state is the LSTM's output (B, S, H)."""
    c, query, weights = self.config, carry.h, {}
    if memory.passes is not None:
      first = (carry.position == 0)[..., None]
      x = jnp.where(first, memory.passes.gates[:, -1:], x)
      code = jnp.broadcast_to(memory.passes.code[:, -1:], carry.h.shape)
      query = jnp.concatenate([code, carry.h], axis=-1)
    gates = x + memory.gates[:, None] + self.lstm['state'](carry.h)
    for name, slots in memory.attended.items():
      weights[name] = self.attend[name](query[:, :, None], slots.keys[:, None], slots.mask[:, None])
      gates += mix(weights[name], slots.values)
    if memory.focus is not None:
      alpha = memory.focus.weights[:, None]
      weights['keyframe'] = jnp.broadcast_to(alpha, (*carry.position.shape, alpha.shape[-1]))
    h, cell = recurrent.lstm(gates, carry.c)
    h = h.astype(c.dtype)
    hidden = drop(h, (noise or {}).get('hidden'), c.dropout)
    aux = jnp.zeros(carry.position.shape, cell.dtype)
    return Carry(h, cell, carry.position + 1), hidden, Extras(weights, aux)

  def logits(self, hidden: Array) -> Array:
    """(…, H) to (…, V)."""
    return self.output(hidden)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept, and uniform numbers (B,) if key frames are drawn."""
    c, B, encoder = self.config, inputs.batch_size, {}
    if c.passes == 2 and c.sampler == 'categorical':
      key, draw_key = jax.random.split(key)
      encoder['key_frame'] = jax.random.uniform(draw_key, (B,), wide(c.dtype))
    return Noise(encoder, keep_masks(key, c.dropout, {'hidden': (L, B, S, c.hidden)}))
