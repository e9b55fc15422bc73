"""Video-semantic embedding (VATEX challenge 2019, section 2.3): videos and captions in one space.

A video is embedded as the means of its streams, concatenated and projected; a caption as the last
state of a GRU over its words. Both have length 1, so that their product is the cosine, which
measures how well a caption describes a video. The model makes no captions.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.captioner import Inputs, Needs, Noise
from vidcap_jax.models.layers.attention import at_least_float32
from vidcap_jax.models.layers.dense import Dense, Embed
from vidcap_jax.models.layers.dropout import drop, keep_masks
from vidcap_jax.models.layers.pooling import joined_means
from vidcap_jax.models.layers.recurrent import GRU

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class EmbeddingConfig:
  """Sizes and streams.

  Attributes:
    vocab_size: V.
    streams: the streams that a video is embedded by, of any kind.
    hidden: H, size of the space and of the GRU.
    embed: word embedding size E.
    dropout: rate on words and on the joined means.
    dtype: of the computation; parameters are ``param_dtype``.
  """

  vocab_size: int
  streams: tuple[str, ...] = ('image', 'motion', 'audio')
  hidden: int = 1024
  embed: int = 300
  dropout: float = 0.0
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @property
  def needs(self) -> Needs:
    """The streams, of any kind."""
    kinds = ('vector', 'sequence', 'grid', 'regions')
    return Needs(dict.fromkeys(self.streams, kinds))


class Embedding(nn.Module):
  """The two encoders."""

  config: EmbeddingConfig

  def setup(self):
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    self.project = Dense(c.hidden, **dtypes)
    self.words = Embed(c.vocab_size, c.embed, embedding_init=nn.initializers.uniform(0.1), **dtypes)
    self.gru = GRU(c.hidden, **dtypes)

  def touch(self, inputs: Inputs) -> None:
    """Calls both encoders once, to initialise their parameters."""
    self.embed_videos(inputs)
    words = jnp.zeros((inputs.batch_size, 1, 1), jnp.int32)
    self.embed_captions(words, words == 0)

  def embed_videos(self, inputs: Inputs, noise=None) -> Array:
    """Embeds videos: (B, H), of length 1; a missing stream is zeros."""
    c = self.config
    means = drop(joined_means(inputs, c.streams), (noise or {}).get('means'), c.dropout)
    return unit(self.project(means))

  def embed_captions(self, words: Array, mask: Array, noise=None) -> Array:
    """Embeds captions: (B, S, H), of length 1; zeros for a slot without a word.

    Args:
      words: (B, S, L) int32.
      mask: (B, S, L), False for padding.
      noise: the ``steps`` of ``noise``, or None.
    """
    c = self.config
    x = drop(self.words(words), (noise or {}).get('words'), c.dropout)
    gates = jnp.moveaxis(self.gru.inputs(x), 2, 0)  # (L, B, S, 3H)
    h = self.gru.read(gates, jnp.moveaxis(mask, 2, 0))
    return unit(h)

  def noise(self, key: Array, inputs: Inputs, S: int, L: int) -> Noise:
    """Dropout masks, True where kept, for the means (B, D) and the words (B, S, L, E)."""
    c, B = self.config, inputs.batch_size
    videos, captions = jax.random.split(key)
    D = sum(inputs.features[name].shape[-1] for name in c.streams)
    return Noise(
      encoder=keep_masks(videos, c.dropout, {'means': (B, D)}),
      steps=keep_masks(captions, c.dropout, {'words': (B, S, L, c.embed)}),
    )


def unit(x: Array) -> Array:
  """x (…, D) divided by its norm, in at least float32; zeros stay zeros."""
  x = at_least_float32(x)
  squared = jnp.square(x).sum(axis=-1, keepdims=True)  # (…, 1)
  # sqrt has no gradient at 0.
  return x / jnp.sqrt(jnp.where(squared > 0, squared, jnp.ones_like(squared)))


def similarity(videos: Array, captions: Array) -> Array:
  """Cosines of every video with every caption.

  Args:
    videos: (B, H) of length 1.
    captions: (C, S, H) of length 1, S captions of each of C videos.

  Returns:
    (B, C, S).
  """
  return jnp.einsum('bh,csh->bcs', videos, captions)


def own_similarity(videos: Array, captions: Array) -> Array:
  """Cosines of videos (B, H) with their own captions or candidates (B, S, H): (B, S)."""
  return jnp.einsum('bh,bsh->bs', videos, captions)
