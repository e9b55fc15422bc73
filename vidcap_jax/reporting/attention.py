"""The attention of captions, compact enough for a page that holds that of hundreds of videos."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.api.word_attention import make_explainer
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.records import Video
from vidcap_jax.models.attention_axes import Attention
from vidcap_jax.reporting import key_frames

Frame = tuple[str, int]  # a stream, and a row of its stored features

_BATCH = 16
_LEVELS, _PLACE_LEVELS = 10_000, 1000  # a weight of 1, in maps without and with places
_MOST_PLACES = 30_000  # weights of a map over places; of a larger one the frames are kept


@dataclasses.dataclass(frozen=True)
class Map:
  """The part of an attention that a page draws.

  Attributes:
    name: of the attention.
    axes: 'frames'; 'frames' and 'places'; 'places' of the mean of all frames; 'layers' or
      'branches'.
    weights: (L, …) by word and then by ``axes``.
    frames: of the weights.
    labels: of layers or branches.
    grid: rows and columns of the places; None if these are regions.
    chosen: the frames that the model chose, by word; () if it mixes them.
  """

  name: str
  axes: tuple[str, ...]
  weights: np.ndarray
  frames: tuple[Frame, ...] = ()
  labels: tuple[str, ...] = ()
  grid: tuple[int, int] | None = None
  chosen: tuple[tuple[int, ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class Explained:
  """What a page draws of a caption: its maps, and the key frame of all words if there is one."""

  video: Video
  maps: Sequence[Map]
  key_frame: Frame | None = None

  @property
  def frames(self) -> list[Frame]:
    """Those of all maps."""
    return list(dict.fromkeys(frame for each in self.maps for frame in each.frames))


def explain(
  members: Sequence[Restored], videos: Iterator[Video], captions: Sequence[str]
) -> Iterator[Explained]:
  """What is drawn of each video, computed in batches of one shape.

  Args:
    members: the checkpoint, or those of an ensemble.
    videos: with features.
    captions: of the videos; their words are in the vocabulary.

  Raises:
    ConfigError: no member has attention.
  """
  batch_size = min(_BATCH, max(1, len(captions)))
  explainer = make_explainer(members, batch_size)
  for start in range(0, len(captions), batch_size):
    texts = captions[start : start + batch_size]
    batch = [next(videos) for _ in texts]
    for video, attentions in zip(batch, explainer(batch, texts), strict=True):
      yield Explained(video, maps_of(attentions), key_frames.key_frame(attentions, video))


def can_explain(members: Sequence[Restored], caption: str) -> bool:
  """Whether a caption has words, all known to the model: a fallback may know others."""
  index = members[0].vocabulary.index
  return bool(caption) and all(word in index for word in caption.split(' '))


def maps_of(attentions: Mapping[str, Attention]) -> list[Map]:
  """What is drawn of a video's attentions, those over places first, layers and branches last.

  Attention to the words of the caption and to a single frame without places is left out.

  Args:
    attentions: by name; that of an ensemble's member ends with its number, 'NAME of MEMBER'.
  """
  found = (_map(name, attentions) for name in attentions)
  maps = [each for each in found if each is not None and each.weights[0].size > 1]
  return sorted(maps, key=lambda each: (not each.frames, 'places' not in each.axes))


def _map(name: str, attentions: Mapping[str, Attention]) -> Map | None:
  attention = attentions[name]
  axes = attention.axes.axes
  if 'frames' in axes:
    kept = tuple(axis for axis in ('frames', 'places') if axis in axes)
    weights = _summed(attention.weights, axes, kept)
    if weights.ndim == 3 and (weights.size > _MOST_PLACES or weights.shape[2] == 1):
      kept, weights = ('frames',), weights.sum(axis=2)
    frames = _frames(attention.axes.stream, attention.rows, weights.shape[1])
    grid = attention.grid if len(kept) == 2 else None
    chosen = key_frames.chosen_frames(name, attentions)
    return Map(name, kept, weights, frames, grid=grid, chosen=chosen)
  if 'places' in axes:
    return _map_of_places(name, attentions)
  named = next((axis for axis in ('layers', 'branches') if axis in axes), None)
  if named is None:
    return None
  weights = _summed(attention.weights, axes, (named,))
  return Map(name, (named,), weights, labels=tuple(attention.axes.names))


def _map_of_places(name: str, attentions: Mapping[str, Attention]) -> Map | None:
  """Places of the frames that another attention chooses, or of the mean of all frames."""
  attention = attentions[name]
  places = _with_picks(attention, 'places')  # (L, K, N)
  chooser = attention.axes.frames + name.removeprefix(attention.name)  # of the same member
  if chooser not in attentions or 'frames' not in attentions[chooser].axes.axes:
    if attention.axes.frames or not len(attention.rows):
      return None
    frames = _frames(attention.axes.stream, attention.rows, len(attention.rows))
    return Map(name, ('places',), places.sum(axis=1), frames, grid=attention.grid)
  over_frames = _with_picks(attentions[chooser], 'frames')  # (L, K, T)
  weights = np.einsum('lkt,lkn->ltn', over_frames, places)
  if weights.size > _MOST_PLACES:
    return None
  frames = _frames(attentions[chooser].axes.stream, attentions[chooser].rows, over_frames.shape[2])
  chosen = key_frames.chosen_frames(chooser, attentions)
  return Map(name, ('frames', 'places'), weights, frames, grid=attention.grid, chosen=chosen)


def _with_picks(attention: Attention, axis: str) -> np.ndarray:
  weights = attention.over(axis)
  return weights if weights.ndim == 3 else weights[:, None]


def _summed(weights: np.ndarray, axes: Sequence[str], kept: Sequence[str]) -> np.ndarray:
  others = tuple(1 + i for i, axis in enumerate(axes) if axis not in kept)
  return weights.sum(axis=others)


def _frames(stream: str, rows: np.ndarray, count: int) -> tuple[Frame, ...]:
  known = [int(row) for row in rows][:count]
  return tuple((stream, row) for row in [*known, *range(len(known), count)])


def as_json(
  caption: str, explained: Explained, show: Callable[[Frame], Mapping[str, Any]]
) -> dict[str, Any]:
  """What the page reads: weights are whole numbers, of which ``levels`` make a weight of 1.

  Args:
    caption: whose words the weights are of.
    explained: of ``explain``.
    show: the time, the picture and the boxes of a frame.
  """
  places = {frame: place for place, frame in enumerate(explained.frames)}
  key_frame = explained.key_frame
  return {
    'words': caption.split(' '),
    'frames': [show(frame) for frame in explained.frames],
    'key_frame': None if key_frame is None else places.get(key_frame),
    # Of a model without attention over the frames, where none can be marked.
    'saved_key_frame': explained.video.key_frame if key_frame is None else -1,
    'maps': [
      {
        'name': each.name,
        'axes': list(each.axes),
        'labels': list(each.labels),
        'grid': None if each.grid is None else list(each.grid),
        'frames': [places[frame] for frame in each.frames],
        'chosen': [list(frames) for frames in each.chosen],
        **_levels(each),
      }
      for each in explained.maps
    ],
  }


def _levels(drawn: Map) -> dict[str, Any]:
  levels = _PLACE_LEVELS if 'places' in drawn.axes else _LEVELS
  return {'levels': levels, 'weights': np.rint(drawn.weights * levels).astype(int).tolist()}
