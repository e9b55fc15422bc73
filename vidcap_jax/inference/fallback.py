"""Captions from a second checkpoint for videos that lack the features of the first.

A video that could not be downloaded may still have features that others made of it (I3D, say): a
model of those fills in what the main model can't see.
"""

from typing import Any

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import Subset, VideoSource
from vidcap_jax.inference.captioning import Caption


def main_streams(restored: Restored) -> frozenset[str]:
  """The streams that every video had in training, or all of a model's if none is like that."""
  always = frozenset(s.name for s in restored.streams if not s.optional)
  return always or frozenset(s.name for s in restored.streams)


def fill_in(
  captions: list[dict],
  restored: Restored,
  fallback: Restored,
  caption: Caption,
  source: VideoSource,
) -> tuple[list[dict], dict[str, Any]]:
  """Replaces captions of videos that have none of the main model's streams.

  Args:
    captions: of all videos of the source, in order, by ``restored``.
    fallback: the second checkpoint.
    caption: captions videos with it, see ``captioning.captioner_of``.
    source: the split.

  Returns:
    The captions, those filled in with a ``checkpoint``; and what evaluation reports of it: the
    checkpoint, how many were filled in, how many videos lack the features of both (and keep the
    main model's caption).
  """
  main, second = main_streams(restored), main_streams(fallback)
  there = list(pipeline.read_presence(source, restored.config.data.threads))
  lacking = [i for i, names in enumerate(there) if not names & main]
  where = [i for i in lacking if there[i] & second]
  report = {
    'checkpoint': str(fallback.path),
    'videos': len(where),
    'without_features_of_either': len(lacking) - len(where),
  }
  if not where:
    return captions, report
  ids = [captions[i]['video_id'] for i in where]
  made = caption(Subset(source, where), ids)
  filled = list(captions)
  for i, new in zip(where, made, strict=True):
    filled[i] = new | {'checkpoint': str(fallback.path)}
  return filled, report
