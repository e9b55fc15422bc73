"""Scores embedding models: embeds the videos and captions of a split and ranks them."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import PAD, Vocabulary
from vidcap_jax.distributed import mesh as distributed
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import retrieval
from vidcap_jax.models.streams import to_inputs
from vidcap_jax.progress import progress


@dataclasses.dataclass(frozen=True)
class EmbeddingPrograms:
  """What embeds a split on the devices.

  Attributes:
    videos: jitted, (params, batch) -> (B, H).
    captions: jitted, (params, tokens (B, S, L)) -> (B, S, H).
  """

  videos: jax.stages.Wrapped
  captions: jax.stages.Wrapped


def make_programs(
  config: ConfigDict, module: nn.Module, streams: Sequence[Stream]
) -> EmbeddingPrograms:
  """Makes the programs of an embedding model, from settings alone.

  Args:
    config, module, streams: a stage's or a checkpoint's.
  """

  @jax.jit
  def embed_videos(params, batch):
    inputs = to_inputs(batch, streams, config.data.standardise)
    return module.apply({'params': params}, inputs, method='embed_videos')

  @jax.jit
  def embed_captions(params, tokens):
    return module.apply({'params': params}, tokens, tokens != PAD, method='embed_captions')

  return EmbeddingPrograms(embed_videos, embed_captions)


def make_ranker(
  config: ConfigDict,
  module: nn.Module,
  streams: Sequence[Stream],
  vocabulary: Vocabulary,
  length: int,
  mesh: Mesh,
  label: str = '',
) -> Callable[[Any, Iterable[tuple[int, Mapping]], Sequence[Video]], retrieval.Ranks]:
  """A function (params, batches, texts) -> ranks of the right answers, compiled once.

  Args:
    config, module, streams, vocabulary: a stage's or a checkpoint's.
    length: L, tokens of a caption.
    mesh: of all devices.
    label: of a progress line over the captions, on stderr of process 0; '' shows none.

  The function's ``batches`` are those of all videos (``captioning.eval_batches``); ``texts`` are
  the same videos in the same order, with all their captions, at least one in total.
  """
  # Captions are batched in the shape of training batches, regardless of their videos.
  (host, hosts), S = distributed.block(mesh), config.data.captions_per_video
  rows = config.eval.batch_size + -config.eval.batch_size % mesh.shape['data']
  programs = make_programs(config, module, streams)

  def rank(params, batches, texts):
    videos = []
    for _, batch in batches:
      batch = distributed.to_devices(batch, mesh)
      index, embedded = distributed.to_host((batch['video_index'], programs.videos(params, batch)))
      videos.append(embedded[index >= 0])
    tokens = np.array([vocabulary.encode(c, length) for v in texts for c in v.captions], np.int32)
    padded = np.pad(tokens, ((0, -len(tokens) % (rows * S)), (0, 0)), constant_values=PAD)
    blocks: Iterable[np.ndarray] = padded.reshape(-1, hosts, rows // hosts, S, length)
    if label and distributed.is_main():
      blocks = progress(
        blocks, len(tokens), label, unit='captions', each=rows * S, first='compiling'
      )
    captions = []
    for block in blocks:
      local = distributed.to_devices({'captions': block[host]}, mesh)['captions']
      embedded = distributed.to_host(programs.captions(params, local))  # (rows, S, H)
      captions.append(embedded.reshape(rows * S, -1))
    owner = np.repeat(np.arange(len(texts)), [len(video.captions) for video in texts])
    return retrieval.ranks(np.concatenate(videos), np.concatenate(captions)[: len(tokens)], owner)

  return rank


def check_metric(settings: Mapping) -> None:
  """ConfigError unless ``eval.metric`` is a retrieval score in which more is better."""
  if settings['metric'] not in retrieval.SCORES:
    raise ConfigError(
      f"eval.metric {settings['metric']!r} can't validate a model that makes no captions; use one "
      f'of: {", ".join(retrieval.SCORES)}'
    )


def check_validation(settings: Mapping, split: str, texts: Sequence[Video]) -> None:
  """Checks that retrieval can choose the best checkpoint.

  Raises:
    ConfigError: ``eval.metric`` is not a retrieval score in which more is better.
    DataError: no video of the split has a caption.
  """
  check_metric(settings)
  if not any(video.captions for video in texts):
    raise DataError(
      f'no video of split {split!r} has a caption to retrieve; set config.data.val_split to a '
      'split with captions'
    )
