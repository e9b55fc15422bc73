"""Late fusion for its probe: of what several branches say of a clip, an embedding chooses."""

import functools
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np

from vidcap_jax import evaluate, restore
from vidcap_jax.data.records import VideoSource
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.features import to_inputs
from vidcap_jax.models.embedding import own_similarity


def fuse(
  embedding: restore.Restored,
  branches: Sequence[restore.Restored],
  source: VideoSource,
  ids: Sequence[str],
) -> Iterator[tuple[str, list[str], int]]:
  """Each video's id, what the branches say of it, and which of them the embedding finds nearest.

  Of equally near captions it is the first.
  """
  said = [
    {c['video_id']: c['caption'] for c in evaluate.captioner_of(branch)(source, ids)}
    for branch in branches
  ]
  candidates = {video_id: [captions[video_id] for captions in said] for video_id in ids}
  chosen = choose(embedding, source, ids, candidates)
  return ((video_id, candidates[video_id], chosen[video_id]) for video_id in ids)


def choose(
  restored: restore.Restored,
  source: VideoSource,
  ids: Sequence[str],
  candidates: Mapping[str, Sequence[str]],
) -> dict[str, int]:
  """Which of its candidates, as many for each video, is nearest to it."""
  config, module, streams = restored.config, restored.module, restored.streams

  @jax.jit
  def nearest(params, batch, tokens):
    call = functools.partial(module.apply, {'params': params})
    videos = call(to_inputs(batch, streams, config.data.standardise), method='embed_videos')
    texts = call(tokens, tokens != PAD, method='embed_captions')  # (B, S, H)
    return own_similarity(videos, texts).argmax(axis=-1)

  batches = evaluate.eval_batches(
    source, restored.vocabulary, streams, module.config.needs, config, restored.mesh
  )
  S = len(next(iter(candidates.values())))
  found = {}
  for _, batch in batches:
    tokens = np.full((len(batch['video_index']), S, restored.length), PAD, np.int32)
    for row, index in enumerate(batch['video_index']):
      for slot, caption in enumerate(candidates[ids[index]] if index >= 0 else ()):
        tokens[row, slot] = restored.vocabulary.encode(caption, restored.length)
    best = jax.device_get(nearest(restored.params, batch, tokens))
    found |= {ids[i]: int(k) for i, k in zip(batch['video_index'], best) if i >= 0}
  return found
