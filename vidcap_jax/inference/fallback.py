"""Captions from a second checkpoint for videos that lack the features of the first.

A video that can no longer be downloaded may still have published features, such as I3D: a model
trained on those captions the videos that the main model has no features of.
"""

from typing import Any

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import Subset, VideoSource
from vidcap_jax.inference.captioning import CaptionFn


def main_streams(restored: Restored) -> frozenset[str]:
  """The streams that every video had in training, or all of the model's if there is none."""
  always = frozenset(s.name for s in restored.streams if not s.optional)
  return always or frozenset(s.name for s in restored.streams)


def fill_in(
  captions: list[dict],
  restored: Restored,
  fallback: Restored,
  caption: CaptionFn,
  source: VideoSource,
) -> tuple[list[dict], dict[str, Any]]:
  """Replaces the captions of videos that have none of the main model's streams.

  Args:
    captions: of all videos of the source, in order, by ``restored``.
    restored: the main model's checkpoint.
    fallback: the second checkpoint.
    caption: captions videos with ``fallback``, see ``captioning.captioner_of``.
    source: the split.

  Returns:
    The captions, each replaced one with its ``checkpoint``; and a report: the checkpoint, how many
    captions were replaced, and how many videos lack the features of both models (they keep the
    main model's caption).
  """
  streams, fallback_streams = main_streams(restored), main_streams(fallback)
  present = list(pipeline.read_presence(source, restored.config.data.threads))
  lacking = [i for i, names in enumerate(present) if not names & streams]
  replaced = [i for i in lacking if present[i] & fallback_streams]
  report = {
    'checkpoint': str(fallback.path),
    'videos': len(replaced),
    'without_features_of_either': len(lacking) - len(replaced),
  }
  if not replaced:
    return captions, report
  ids = [captions[i]['video_id'] for i in replaced]
  captions = list(captions)
  for i, new in zip(replaced, caption(Subset(source, replaced), ids), strict=True):
    captions[i] = new | {'checkpoint': str(fallback.path)}
  return captions, report
