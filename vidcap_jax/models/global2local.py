"""Global2Local (Dai et al.): key frames first, then key regions in them (equations 1-12).

At every word the decoder's last output attends to frames, to clips and to both joined. By the joint
weights a Gumbel top-k sampler chooses K of the frames that have regions (every third one), and
spatial attention attends to the regions of each. A two-layer GRU reads all of it.

Where the paper is silent: sigma is ReLU; phi of equation 4 stands inside the sum, and padding is
left out of it; the sampler's noise is new for each pick in training and absent otherwise, and the
rest of a weight is clamped at 1e-12 before its logarithm; a frame without regions is not picked,
and if fewer frames than picks have regions, a frame counts once for each of its picks; region
weights sum to 1 for each pick. States start at zero, so attention is uniform at the first word,
where frames of equal weight share a pick if there is no noise. Dropout is not in the paper.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise
from vidcap_jax.models.layers import gumbel
from vidcap_jax.models.layers.attention import BilinearAttention, Edit, wide
from vidcap_jax.models.layers.dense import Dense, Embed
from vidcap_jax.models.layers.dropout import drop, keep_masks
from vidcap_jax.models.layers.recurrent import GRU

Array = jax.Array
ACTIVATIONS = {'relu': jax.nn.relu, 'sigmoid': jax.nn.sigmoid, 'tanh': jnp.tanh}
SAMPLERS = ('gumbel', 'argmax')


@dataclasses.dataclass(frozen=True)
class Global2LocalConfig:
  """Sizes, streams and parts of the model.

  Attributes:
    vocab_size: V.
    frame_stream: 2D features, a sequence.
    clip_stream: 3D features, a sequence with one vector for each frame; it may be the same stream.
    region_stream: regions of one of every ``stride`` frames, the middle one in the paper; not read
      if ``picks`` is 0.
    stride: frames per frame with regions.
    alignment: whether frames and clips are attended to jointly too.
    picks: K, frames whose regions are attended to; 0 for only the global branch.
    sampler: 'gumbel', random while training, or 'argmax', which has no gradient.
    tau: temperature of the Gumbel sampler.
    backward_tau: temperature of its gradient, see ``gumbel.top_k``; 0 for ``tau``.
    scale: lambda of equation 5.
    renormalise: whether the weights of equation 8, which sum to 1 / ``stride``, are scaled to sum
      to 1 before the sampler uses them.
    activation: sigma of equations 1, 4 and 7.
    hidden: size H of both GRU layers.
    embed: word embedding size E.
    project: size P of projected frames and clips.
    project_regions: size R of projected regions.
    aligned: size F of the joint embedding.
    attention: attention space A of all attentions.
    dropout: rate on words, between the GRU layers and on the output.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  frame_stream: str = 'image'
  clip_stream: str = 'motion'
  region_stream: str = 'objects'
  stride: int = 3
  alignment: bool = True
  picks: int = 2
  sampler: str = 'gumbel'
  tau: float = 1e-4
  backward_tau: float = 0.0
  scale: float = 10.0
  renormalise: bool = False
  activation: str = 'relu'
  hidden: int = 768
  embed: int = 300
  project: int = 1024
  project_regions: int = 1024
  aligned: int = 512
  attention: int = 384
  dropout: float = 0.5
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def __post_init__(self):
    if self.activation not in ACTIVATIONS:
      raise ConfigError(
        f'model.activation {self.activation!r} is unknown; known: {", ".join(ACTIVATIONS)}'
      )
    if self.sampler not in SAMPLERS:
      raise ConfigError(f'model.sampler {self.sampler!r} is unknown; known: {", ".join(SAMPLERS)}')
    if not (self.tau > 0 and self.scale > 0 and self.backward_tau >= 0):
      raise ConfigError(
        'model.tau and model.scale must be above 0, model.backward_tau at least 0; '
        f'got {self.tau}, {self.scale} and {self.backward_tau}'
      )
    if self.picks < 0 or self.stride < 1:
      raise ConfigError(
        f'model.picks must be at least 0 and model.stride at least 1; got {self.picks} and '
        f'{self.stride}'
      )
    if self.picks and not self.alignment:
      raise ConfigError(
        f'model.picks={self.picks} needs model.alignment: the joint weights choose the frames'
      )

  @property
  def needs(self) -> Needs:
    """Two aligned sequences; with picks, regions of one of every ``stride`` frames."""
    sequences = (self.frame_stream, self.clip_stream)
    streams: dict[str, tuple[str, ...]] = dict.fromkeys(sequences, ('sequence',))
    if not self.picks:
      return Needs(streams, dict.fromkeys(sequences, 1))
    streams[self.region_stream] = ('regions', 'grid')
    return Needs(streams, {**dict.fromkeys(sequences, self.stride), self.region_stream: 1})

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """The axes of the weights; each pick chooses a frame, and has weights of its regions."""
    found = {
      'temporal_2d': AttentionAxes(('frames',), self.frame_stream),
      'temporal_3d': AttentionAxes(('frames',), self.clip_stream),
    }
    if self.alignment:
      found['temporal'] = AttentionAxes(('frames',), self.frame_stream)
    if self.picks:
      found['keyframe'] = AttentionAxes(('picks', 'frames'), self.region_stream)
      found['spatial'] = AttentionAxes(('picks', 'places'), self.region_stream, frames='keyframe')
    return found


@struct.dataclass
class Source:
  """What is attended to: values (B, …, D), 0 where not valid, keys (B, …, A) and mask (B, …)."""

  values: Array
  keys: Array
  mask: Array


@struct.dataclass
class Memory:
  """Per video; ``…`` is T for frames, clips and both joined, T / stride, N for regions.

  ``aligned.values`` are W_al [f'; v'], before the bias and activation of phi in equation 4.
  """

  frames: Source
  clips: Source
  aligned: Source | None
  regions: Source | None
  choosable: Array | None  # (B, T / stride) frames with regions


@struct.dataclass
class Carry:
  """Per row: the states of both GRU layers (B, S, H) and the position in the caption (B, S)."""

  h1: Array
  h2: Array
  position: Array


class Global2Local(nn.Module):
  """The captioner; ``vidcap_jax.models.captioner`` describes the methods."""

  config: Global2LocalConfig

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    attention = functools.partial(BilinearAttention, features=c.attention, edit=c.edit, **dtypes)
    self.frame_embed = Dense(c.project, **dtypes)
    self.clip_embed = Dense(c.project, **dtypes)
    self.attend_frames = attention(name_of='temporal_2d')
    self.attend_clips = attention(name_of='temporal_3d')
    if c.alignment:
      self.attend_aligned = attention(name_of='temporal')
      self.align = Dense(c.aligned, use_bias=False, **dtypes)
      self.align_bias = self.param('align_bias', nn.initializers.zeros, (c.aligned,), c.param_dtype)
    if c.picks:
      self.region_embed = Dense(c.project_regions, **dtypes)
      self.attend_regions = attention(name_of='spatial')
    self.words = Embed(c.vocab_size, c.embed, embedding_init=nn.initializers.uniform(0.1), **dtypes)
    # gru1 reads [context; word], gru2 the output of gru1.
    self.gru1_word = Dense(3 * c.hidden, use_bias=False, **dtypes)
    self.gru1 = GRU(c.hidden, **dtypes)
    self.gru2 = GRU(c.hidden, **dtypes)
    self.output = Dense(c.vocab_size, **dtypes)

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> Memory:
    """Equations 1 and 7; keys, and the product inside phi of equation 4, are taken once."""
    c = self.config
    self._check_clock(inputs)
    frames = self._embed(self.frame_embed, inputs, c.frame_stream, self.attend_frames)
    clips = self._embed(self.clip_embed, inputs, c.clip_stream, self.attend_clips)
    aligned = regions = choosable = None
    # A slot is valid if its frame or clip is; the other one is a zero vector.
    in_time = frames.mask | clips.mask  # (B, T)
    if c.alignment:
      both = jnp.concatenate([frames.values, clips.values], axis=-1)  # (B, T, 2P)
      aligned = Source(self.align(both), self.attend_aligned.keys(both), in_time)
    if c.picks:
      regions = self._embed(self.region_embed, inputs, c.region_stream, self.attend_regions)
      B, units, _ = regions.mask.shape
      # Frames without regions can't be chosen, padding or not.
      in_time = in_time.reshape(B, units, c.stride).any(axis=-1)
      choosable = in_time & regions.mask.any(axis=-1)
    return Memory(frames, clips, aligned, regions, choosable)

  def _check_clock(self, inputs: Inputs) -> None:
    """Raises ConfigError unless the streams' lengths agree with ``Needs.blocks``."""
    blocks = self.config.needs.blocks
    found = {name: inputs.masks[name].shape[1] for name in blocks}
    units = {name: found[name] // blocks[name] for name in blocks}
    if len(set(units.values())) > 1 or any(found[n] != units[n] * blocks[n] for n in blocks):
      raise ConfigError(f'streams of {found} frames are not on one clock of {dict(blocks)} a unit')

  def _embed(
    self, project: nn.Module, inputs: Inputs, name: str, attend: BilinearAttention
  ) -> Source:
    """sigma(W x + b) of a stream (B, …, D), zeros where it is not valid, with its keys."""
    x, mask = inputs.features[name], inputs.masks[name]
    x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
    values = ACTIVATIONS[self.config.activation](project(x))
    values = jnp.where(mask[..., None], values, jnp.zeros_like(values))
    return Source(values, attend.keys(values), mask)

  def start(self, memory: Memory, S: int, L: int) -> Carry:
    """Zero states, so attention is uniform at the first word; S rows for each video."""
    zeros = jnp.zeros((memory.frames.mask.shape[0], S, self.config.hidden), wide(self.config.dtype))
    return Carry(zeros, zeros, jnp.zeros(zeros.shape[:2], jnp.int32))

  def embed(self, words: Array, noise=None) -> Array:
    """Words (…,) to their part of the first GRU's gates (…, 3H)."""
    keep = (noise or {}).get('word')
    return self.gru1_word(drop(self.words(words), keep, self.config.dropout))

  def step(self, carry: Carry, x: Array, memory: Memory, noise=None, *, train: bool = False):
    """Equations 2-6 and 8-11; the hidden state is the second layer's output (B, S, H)."""
    c = self.config
    noise = noise or {}
    query = carry.h2.astype(c.dtype)
    parts, attention = self.attend_globally(query, memory)
    if c.picks:
      local, picks, weights = self.attend_locally(
        query, attention['temporal'], memory, noise.get('gumbel')
      )
      parts.append(local)
      attention |= {'keyframe': picks, 'spatial': weights}
    h1 = self.gru1(x + self.gru1.inputs(jnp.concatenate(parts, axis=-1)), carry.h1)
    between = drop(h1.astype(c.dtype), noise.get('between'), c.dropout)
    h2 = self.gru2(self.gru2.inputs(between), carry.h2)
    hidden = drop(h2.astype(c.dtype), noise.get('hidden'), c.dropout)
    aux = jnp.zeros(carry.position.shape, h2.dtype)
    return Carry(h1, h2, carry.position + 1), hidden, Extras(attention, aux)

  def attend_globally(self, query: Array, memory: Memory) -> tuple[list[Array], dict[str, Array]]:
    """Equations 2-4: the parts of x_G (B, S, …) and the weights (B, S, T)."""
    query = query[:, :, None]  # (B, S, 1, H)
    parts, attention = [], {}
    for attend, source in (self.attend_frames, memory.frames), (self.attend_clips, memory.clips):
      weights = attend(query, source.keys[:, None], source.mask[:, None])
      parts.append(jnp.einsum('bst,btp->bsp', weights.astype(query.dtype), source.values))
      attention[attend.name_of] = weights
    if memory.aligned is not None:
      source = memory.aligned
      weights = self.attend_aligned(query, source.keys[:, None], source.mask[:, None])
      phi = functools.partial(_sum_of_phi, ACTIVATIONS[self.config.activation])
      bias = self.align_bias.astype(query.dtype)
      parts.append(jax.checkpoint(phi)(weights, source.values, bias, source.mask))
      attention['temporal'] = weights
    return parts, attention

  def attend_locally(
    self, query: Array, weights: Array, memory: Memory, noise: Array | None
  ) -> tuple[Array, Array, Array]:
    """Equations 5-6, 8-9: x_L (B, S, R), picks (B, S, K, T'), region weights (B, S, K, N)."""
    c = self.config
    sparse = sparse_weights(weights, c.stride, c.renormalise)
    choosable = memory.choosable[:, None]  # (B, 1, T')
    if c.sampler == 'argmax':
      picks = gumbel.argmax_top_k('keyframe', sparse, choosable, picks=c.picks, edit=c.edit)
    else:
      picks = gumbel.top_k(
        'keyframe',
        sparse,
        choosable,
        noise,
        picks=c.picks,
        tau=c.tau,
        scale=c.scale,
        backward_tau=c.backward_tau,
        edit=c.edit,
      )
    attend = functools.partial(_attend_to_regions, self.attend_regions.at(query[:, :, None, None]))
    local, region_weights = jax.checkpoint(attend)(picks, memory.regions)
    return local, picks, region_weights

  def logits(self, hidden: Array) -> Array:
    """Equation 12 before its softmax: (…, H) to (…, V)."""
    return self.output(hidden)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept, and the sampler's noise, new for each pick of each word."""
    c, rows = self.config, (L, inputs.batch_size, S)
    dropout_key, gumbel_key = jax.random.split(key)
    shapes = {'word': (*rows, c.embed), 'between': (*rows, c.hidden), 'hidden': (*rows, c.hidden)}
    steps = keep_masks(dropout_key, c.dropout, shapes)
    if c.picks and c.sampler == 'gumbel':
      units = inputs.masks[c.region_stream].shape[1]
      steps['gumbel'] = jax.random.gumbel(gumbel_key, (*rows, c.picks, units), wide(c.dtype))
    return Noise(steps=steps)


def _sum_of_phi(
  activation: Callable[[Array], Array], weights: Array, values: Array, bias: Array, mask: Array
) -> Array:
  """Third part of equation 4: weights (B, S, T), W_al [f'; v'] (B, T, F) to (B, S, F)."""
  scaled = weights.astype(values.dtype)[..., None] * values[:, None]  # (B, S, T, F)
  terms = activation(scaled + bias[None, None, None])
  return jnp.where(mask[:, None, :, None], terms, jnp.zeros_like(terms)).sum(axis=2)


def sparse_weights(weights: Array, stride: int, renormalise: bool) -> Array:
  """Equation 8: the means of ``stride`` weights each, (B, S, T) to (B, S, T / stride)."""
  sparse = weights.reshape(*weights.shape[:2], -1, stride).sum(axis=-1) / stride
  if not renormalise:
    return sparse
  total = sparse.sum(axis=-1, keepdims=True)
  return sparse / jnp.where(total > 0, total, jnp.ones_like(total))


def select(picks: Array, regions: Array) -> Array:
  """The picked frames' regions: picks (B, S, K, T') and (B, T', N, D) to (B, S, K, N, D)."""
  return jnp.einsum('bskt,btnd->bsknd', picks.astype(regions.dtype), regions)


def _attend_to_regions(
  weights_of: Callable[[Array, Array], Array], picks: Array, regions: Source
) -> tuple[Array, Array]:
  """Equation 9, summed over picks: x_L (B, S, R) and weights (B, S, K, N) that sum to 1 a pick.

  The valid regions of a pick are those of its likeliest frame.
  """
  frame = picks.argmax(axis=-1)  # (B, S, K)
  mask = jax.vmap(lambda mask, frame: mask[frame])(regions.mask, frame)  # (B, S, K, N)
  weights = weights_of(select(picks, regions.keys), mask)
  values = select(picks, regions.values)
  return jnp.einsum('bskn,bsknr->bsr', weights.astype(values.dtype), values), weights
