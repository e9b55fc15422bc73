"""Ranking losses of the video-semantic embedding: a video's own captions before all others."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.models.embedding import own_similarity, similarity
from vidcap_jax.objectives.objective import Objective

Array = jax.Array


def hinge(
  videos: Array, captions: Array, used: Array, *, margin: float = 0.2, hardest: bool = True
) -> tuple[Array, Array]:
  """Hinge losses of a batch in both directions, summed over captions, and the number of captions.

  Each caption and its video should be closer than the same caption and another video, and than the
  same video and another video's caption, by the margin: max(0, margin + other - own). Other
  captions of the same video are never compared with it. The whole batch is searched for others,
  whichever devices hold it.

  Args:
    videos: (B, H) of length 1.
    captions: (B, S, H) of length 1.
    used: (B, S) bool; False for an unused slot. A video without captions is a padding row: it is
      no other video to anything.
    margin: of the cosines.
    hardest: counts the nearest other alone (max of hinges), else all others (sum of hinges).

  Returns:
    (sum, count), scalars.
  """
  B = len(videos)
  own = own_similarity(videos, captions)  # (B, S)
  every = similarity(videos, captions)  # (B, B, S): video, and whose caption
  present = used.any(axis=1)[:, None, None] & used[None]  # (B, B, S)
  other = present & ~jnp.eye(B, dtype=bool)[..., None]
  every = jnp.where(other, every, -jnp.inf)
  if hardest:
    to_videos = jax.nn.relu(margin - own + every.max(axis=0))  # (B, S)
    to_captions = jax.nn.relu(margin - own + every.max(axis=(1, 2))[:, None])  # (B, S)
  else:
    to_videos = jax.nn.relu(margin - own[None] + every).sum(axis=0)  # (B, S)
    others = every.reshape(B, 1, -1)  # (B, 1, B S)
    to_captions = jax.nn.relu((margin - own)[..., None] + others).sum(axis=-1)  # (B, S)
  losses = to_videos + to_captions
  total = jnp.where(used, losses, jnp.zeros_like(losses)).sum()
  return total, used.sum(dtype=total.dtype)


@dataclasses.dataclass(frozen=True)
class EmbeddingLossConfig:
  """Settings of the objective ``embedding``.

  Attributes:
    margin: by which a caption and its own video are to be closer than with any other, in cosines.
    hardest: whether the nearest other counts alone; False: all others of a batch.
  """

  margin: float = 0.2
  hardest: bool = True


def make(
  settings: EmbeddingLossConfig,
  config: ConfigDict,
  module: nn.Module,
  tokens_per_step: float | None,
) -> Objective:
  """The mean hinge loss of a batch's captions.

  It is a mean over captions: how many words they have (``tokens_per_step``) does not matter.
  """

  def loss(params, batch, inputs, key, epoch, state):
    call: Callable[..., Any] = functools.partial(module.apply, {'params': params})
    captions = batch['captions']
    mask = captions != PAD  # (B, S, L)
    noise = call(key, inputs, *captions.shape[1:], method='noise')
    videos = call(inputs, noise.encoder, method='embed_videos')  # (B, H)
    texts = call(captions, mask, noise.steps, method='embed_captions')  # (B, S, H)
    total, count = hinge(
      videos, texts, mask.any(axis=-1), margin=settings.margin, hardest=settings.hardest
    )
    mean = total / jnp.maximum(count, jnp.ones_like(count))
    return mean, ({'loss': mean}, state)

  return Objective(loss)
