"""The frames that a model chooses, for a whole caption or for each word."""

from collections.abc import Mapping

import numpy as np

from vidcap_jax.data.records import Video
from vidcap_jax.models.attention_axes import Attention
from vidcap_jax.studies.key_frames import NAME

_WHOLE = 0.999  # least weight of a frame that is chosen alone


def key_frame(attentions: Mapping[str, Attention], video: Video) -> tuple[str, int] | None:
  """The stream and row of the frame that all words of a caption share as key frame, or None.

  It is the saved one of the video (``data.key_frames``), or else the one that the model chooses
  (the refocus model's second pass).

  Args:
    attentions: by name, as of ``attention.maps_of``.
    video: with its saved key frame.
  """
  over_frames = [each for each in attentions.values() if each.axes.axes == ('frames',)]
  over_frames.sort(key=lambda each: each.name != NAME)
  if not over_frames:
    return None
  first = over_frames[0]
  frame = video.key_frame
  if frame < 0 and first.name == NAME and first.weights.any():
    frame = int(first.weights[0].argmax())  # the weights are the same at all words
  if not 0 <= frame < len(first.rows):
    return None
  return first.axes.stream, int(first.rows[frame])


def chosen_frames(name: str, attentions: Mapping[str, Attention]) -> tuple[tuple[int, ...], ...]:
  """The frames that an attention chooses by word, in order of time; () if it mixes all frames.

  A model chooses where it makes picks (Global2Local), or where it attends to the places of one
  frame only (TS with regions).

  Args:
    name: of an attention over frames.
    attentions: by name.
  """
  attention = attentions[name]
  weights = attention.over('frames')
  if 'picks' in attention.axes.axes:
    return tuple(tuple(sorted({*row})) for row in weights.argmax(axis=-1).tolist())
  suffix = name.removeprefix(attention.name)  # of the same member of an ensemble
  is_chooser = any(
    each.axes.frames and f'{each.axes.frames}{suffix}' == name for each in attentions.values()
  )
  if not is_chooser or not weights.size or weights.max(axis=-1).min() < _WHOLE:
    return ()
  return tuple((frame,) for frame in np.argmax(weights, axis=-1).tolist())
