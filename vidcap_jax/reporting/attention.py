"""The attention of captions, compact enough for a page that holds that of hundreds of videos."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.api.word_attention import make_explainer
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.records import Video
from vidcap_jax.models.attention_axes import Attention

Frame = tuple[str, int]  # a stream, and a row of its stored features

_BATCH = 16
_LEVELS, _PLACE_LEVELS = 10_000, 1000  # a weight of 1, in maps without and with places
_MOST_PLACES = 30_000  # weights of a map over places; of a larger one the frames are kept


@dataclasses.dataclass(frozen=True)
class Map:
  """The part of an attention that a page draws.

  Attributes:
    name: of the attention.
    axes: 'frames'; 'frames' and 'places'; 'layers' or 'branches'.
    weights: (L, …) by word and then by ``axes``.
    frames: of the weights.
    labels: of layers or branches.
    grid: rows and columns of the places.
  """

  name: str
  axes: tuple[str, ...]
  weights: np.ndarray
  frames: tuple[Frame, ...] = ()
  labels: tuple[str, ...] = ()
  grid: tuple[int, int] | None = None


def explain(
  members: Sequence[Restored], videos: Iterator[Video], captions: Sequence[str]
) -> Iterator[tuple[Video, list[Map]]]:
  """The maps of each video, computed in batches of one shape.

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
      yield video, maps_of(attentions, video)


def can_explain(members: Sequence[Restored], caption: str) -> bool:
  """Whether a caption has words, all known to the model: a fallback may know others."""
  index = members[0].vocabulary.index
  return bool(caption) and all(word in index for word in caption.split(' '))


def maps_of(attentions: Mapping[str, Attention], video: Video) -> list[Map]:
  """What is drawn of a video's attentions, those over places first, layers and branches last.

  Attention to the words of the caption and to a single frame without places is left out.

  Args:
    attentions: by name; that of an ensemble's member ends with its number, 'NAME of MEMBER'.
    video: with features.
  """
  found = (_map(name, attentions, video) for name in attentions)
  maps = [each for each in found if each is not None and each.weights[0].size > 1]
  return sorted(maps, key=lambda each: (not each.frames, 'places' not in each.axes))


def _map(name: str, attentions: Mapping[str, Attention], video: Video) -> Map | None:
  attention = attentions[name]
  axes = attention.axes.axes
  if 'frames' in axes:
    kept = ('frames', 'places') if attention.grid else ('frames',)
    weights = _summed(attention.weights, axes, kept)
    if weights.size > _MOST_PLACES and weights.ndim == 3:
      kept, weights = ('frames',), weights.sum(axis=2)
    frames = _frames(attention.axes.stream, attention.rows, weights.shape[1])
    return Map(name, kept, weights, frames, grid=attention.grid if len(kept) == 2 else None)
  if 'places' in axes:
    chooser = attention.axes.frames + name.removeprefix(attention.name)  # of the same member
    return _map_of_places(name, attention, attentions.get(chooser), video)
  named = next((axis for axis in ('layers', 'branches') if axis in axes), None)
  if named is None:
    return None
  weights = _summed(attention.weights, axes, (named,))
  return Map(name, (named,), weights, labels=tuple(attention.axes.names))


def _map_of_places(
  name: str, attention: Attention, chooser: Attention | None, video: Video
) -> Map | None:
  """Places of the frames that another attention chooses, or of the only frame."""
  if attention.grid is None:
    return None
  stream = attention.axes.stream
  places = _with_picks(attention, 'places')  # (L, K, N)
  if chooser is not None and 'frames' in chooser.axes.axes:
    over_frames = _with_picks(chooser, 'frames')  # (L, K, T)
    weights = np.einsum('lkt,lkn->ltn', over_frames, places)
    frames = _frames(chooser.axes.stream, chooser.rows, over_frames.shape[2])
  elif len(video.features.get(stream, ())) == 1:
    weights, frames = places.sum(axis=1)[:, None], ((stream, 0),)
  else:
    return None
  if weights.size > _MOST_PLACES:
    return None
  return Map(name, ('frames', 'places'), weights, frames, grid=attention.grid)


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
  caption: str, maps: Sequence[Map], show: Callable[[Frame], Mapping[str, Any]]
) -> dict[str, Any]:
  """What the page reads: weights are whole numbers, of which ``levels`` make a weight of 1.

  Args:
    caption: whose words the weights are of.
    maps: of ``maps_of``.
    show: the time and the picture of a frame.
  """
  frames = list(dict.fromkeys(frame for each in maps for frame in each.frames))
  places = {frame: place for place, frame in enumerate(frames)}
  return {
    'words': caption.split(' '),
    'frames': [show(frame) for frame in frames],
    'maps': [
      {
        'name': each.name,
        'axes': list(each.axes),
        'labels': list(each.labels),
        'grid': None if each.grid is None else list(each.grid),
        'frames': [places[frame] for frame in each.frames],
        **_levels(each),
      }
      for each in maps
    ],
  }


def _levels(drawn: Map) -> dict[str, Any]:
  levels = _PLACE_LEVELS if 'places' in drawn.axes else _LEVELS
  return {'levels': levels, 'weights': np.rint(drawn.weights * levels).astype(int).tolist()}
