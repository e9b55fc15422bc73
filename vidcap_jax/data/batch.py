"""Makes batches of records: subsamples them to static sizes, pads and stacks them.

A batch is a dict of numpy arrays, the same for training, evaluation and prediction:

  features[name]  (B, T, D) sequence, (B, D) vector, (B, T, N, D) grid and regions, in the stored
                  dtype; a grid's cells are flattened row by row; padding is zero
  masks[name]     bool, the same without D; False for padding, for a stream that the video lacks
                  and for a region whose features are all zero
  captions        int32 (B, S, L): words, EOS, PAD; an unused slot is all PAD
  caption_index   int32 (B, S): which of the video's captions, -1 for an unused slot
  video_index     int32 (B,): index into the split, -1 for a padding row
  category        int32 (B,), -1 where unknown
  key_frame       int32 (B,), of the frames as they are in the batch, -1 where unknown
"""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from vidcap_jax.data.records import Video, VideoSource, record_shape
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import PAD, Vocabulary
from vidcap_jax.errors import DataError


def default_sizes(
  streams: Sequence[Stream],
  max_frames: int | None = None,
  blocks: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, tuple[int, ...]]:
  """Static sizes of a batch by stream name: the axes between B and D.

  A sequence has (T,), a grid and regions (T, N), a vector (). T is that of the longest video, at
  most max_frames. Streams that share a clock (``blocks``: stream name -> frames per unit of the
  clock) get the same number of whole units.
  """
  sizes: dict[str, tuple[int, ...]] = {}
  clocked = [s for s in streams if s.name in blocks]
  units = max([1, *(-(-s.longest // blocks[s.name]) for s in clocked)])
  if max_frames is not None and clocked:
    units = min(units, max(1, max_frames // max(blocks[s.name] for s in clocked)))
  for stream in streams:
    longest = stream.longest if max_frames is None else min(stream.longest, max_frames)
    frames = units * blocks[stream.name] if stream.name in blocks else max(1, longest)
    if stream.kind == 'vector':
      sizes[stream.name] = ()
    elif stream.kind == 'sequence':
      sizes[stream.name] = (frames,)
    elif stream.kind == 'grid':
      sizes[stream.name] = (frames, _cells(stream))
    else:
      sizes[stream.name] = (frames, max(1, stream.most_regions))
  return sizes


def subsample(frames: int, size: int, block: int = 1) -> np.ndarray:
  """Indices of at most `size` of `frames` frames, in order.

  They are evenly spaced, deterministic, and include the first and the last frame; a single one is
  the middle frame. With ``block`` > 1, for streams that share a clock, whole blocks of frames are
  chosen (the last one may be shorter).
  """
  if frames <= size:
    return np.arange(frames)
  units, count = -(-frames // block), size // block
  chosen = np.rint(np.linspace(0, units - 1, count)) if count > 1 else np.array([units // 2])
  chosen = chosen.astype(int)[:, None] * block + np.arange(block)  # (units, block)
  return chosen[chosen < frames]


@dataclasses.dataclass(frozen=True)
class Row:
  """One row of a batch before stacking; features are subsampled but not padded."""

  video_index: int
  features: Mapping[str, np.ndarray]
  tokens: np.ndarray  # (S', L), S' <= S
  caption_index: np.ndarray  # (S',)
  category: int = -1
  key_frame: int = -1


def empty_batch(
  streams: Sequence[Stream],
  sizes: Mapping[str, Sequence[int]],
  rows: int,
  captions_per_video: int,
  length: int,
) -> dict:
  """A batch of padding rows, with the shapes and dtypes of all batches of these sizes."""
  shapes = {s.name: (rows, *sizes[s.name]) for s in streams}
  return {
    'features': {s.name: np.zeros((*shapes[s.name], s.channels), s.dtype) for s in streams},
    'masks': {s.name: np.zeros(shapes[s.name], bool) for s in streams},
    'captions': np.full((rows, captions_per_video, length), PAD, np.int32),
    'caption_index': np.full((rows, captions_per_video), -1, np.int32),
    'video_index': np.full(rows, -1, np.int32),
    'category': np.full(rows, -1, np.int32),
    'key_frame': np.full(rows, -1, np.int32),
  }


def read_row(
  source: VideoSource,
  vocabulary: Vocabulary,
  streams: Sequence[Stream],
  sizes: Mapping[str, Sequence[int]],
  captions_per_video: int,
  length: int,
  blocks: Mapping[str, int],
  row: tuple[int, np.ndarray | None],
) -> Row:
  """Reads a video and subsamples it to the sizes of a batch.

  Args:
    source: a split, or any sequence of videos.
    vocabulary: encodes the captions.
    streams: the streams to read.
    sizes: by stream name; frames of longer videos are subsampled, only the first regions are taken.
    captions_per_video: S.
    length: L.
    blocks: see ``default_sizes``.
    row: the video's index, -1 for padding; and its captions' indices (S,), -1 for unused slots, or
      None for the first S.

  Raises:
    DataError: the video lacks a stream or has one of another shape than the stream's.
  """
  index, captions = row
  if index < 0:
    return Row(-1, {}, np.zeros((0, length), np.int32), np.zeros(0, np.int32))
  video = source[index]
  if captions is None:
    captions = np.arange(min(captions_per_video, len(video.captions)))
  captions = captions[captions >= 0]
  tokens = np.empty((len(captions), length), np.int32)
  for slot, caption in enumerate(captions):
    tokens[slot] = vocabulary.encode(video.captions[caption], length)
  features = fit(streams, sizes, blocks, video)
  return Row(index, features, tokens, captions, video.category, video.key_frame)


def fit(
  streams: Sequence[Stream],
  sizes: Mapping[str, Sequence[int]],
  blocks: Mapping[str, int],
  video: Video,
) -> dict[str, np.ndarray]:
  """A video's features by stream name, subsampled to the sizes of a batch; see ``read_row``."""
  return {s.name: _fit(video, s, sizes[s.name], blocks.get(s.name, 1)) for s in streams}


def _fit(video: Video, stream: Stream, size: Sequence[int], block: int) -> np.ndarray:
  """A video's array of a stream, (T', D) or (T', N', D), with T' and N' at most the size."""
  array = video.features.get(stream.name)
  if array is None:
    have = ', '.join(video.features) or 'none'
    raise DataError(f'video {video.video_id!r} has no stream {stream.name!r}; it has: {have}')
  if not len(array):
    return np.zeros((0, *size[1:], stream.channels), stream.dtype)
  expected = record_shape(stream)  # compared in full: numpy would broadcast an axis of 1
  fits = len(array.shape) == len(expected) and all(
    e in (None, n) for e, n in zip(expected, array.shape, strict=True)
  )
  if not fits or (stream.kind == 'vector' and len(array) > 1):
    raise DataError(
      f'video {video.video_id!r}, stream {stream.name!r}: shape {array.shape} does not fit a '
      f'{stream.kind} of shape {expected} (None: any size)'
    )
  if stream.kind == 'vector':
    return array
  if len(array) > size[0]:
    array = array[subsample(len(array), size[0], block)]
  if stream.kind == 'grid':
    array = array.reshape(len(array), size[1], stream.channels)  # (T', rows, columns, D) before
  elif stream.kind == 'regions':
    array = array[:, : size[1]]
  return array


def stack(
  streams: Sequence[Stream],
  sizes: Mapping[str, Sequence[int]],
  captions_per_video: int,
  length: int,
  rows: Sequence[Row],
) -> dict:
  """Stacks rows to a batch; what they don't fill is zero, masked, PAD or -1."""
  batch = empty_batch(streams, sizes, len(rows), captions_per_video, length)
  for r, row in enumerate(rows):
    if row.video_index < 0:
      continue
    batch['video_index'][r] = row.video_index
    batch['category'][r] = row.category
    batch['key_frame'][r] = row.key_frame
    batch['captions'][r, : len(row.tokens)] = row.tokens
    batch['caption_index'][r, : len(row.tokens)] = row.caption_index
    fill_row(batch, r, streams, row.features)
  return batch


def fill_row(
  batch: Mapping, r: int, streams: Sequence[Stream], row_features: Mapping[str, np.ndarray]
) -> None:
  """Fills row ``r`` of an empty batch with features from ``fit``."""
  for stream in streams:
    array = row_features[stream.name]
    features, mask = batch['features'][stream.name], batch['masks'][stream.name]
    if stream.kind == 'vector':
      if len(array):
        features[r], mask[r] = array[0], True
      continue
    filled = (r, *(slice(n) for n in array.shape[:-1]))
    features[filled] = array
    mask[filled] = _nonzero(array) if stream.kind == 'regions' else True


def _nonzero(array: np.ndarray) -> np.ndarray:
  """Which vectors (…, D) have a nonzero entry: bool (…,)."""
  if array.dtype == np.float16:  # any() is 8 times slower for float16 than for integers
    array = array.view(np.uint16) << 1  # drops the sign, as -0 counts as zero
  return np.asarray(array.any(axis=-1))


def _cells(stream: Stream) -> int:
  """N, the cells of a grid."""
  _, rows, columns, _ = stream.shape
  if rows is None or columns is None:
    raise DataError(
      f'stream {stream.name!r}: a grid needs fixed rows and columns, got {stream.shape}'
    )
  return rows * columns


def check_sizes(streams: Sequence[Stream], sizes: Mapping[str, Sequence[int]]) -> None:
  """Raises DataError unless every stream has a size with the axes of its kind."""
  axes = {'vector': '()', 'sequence': '(T,)', 'grid': '(T, N)', 'regions': '(T, N)'}
  for stream in streams:
    if stream.name not in sizes:
      have = ', '.join(sizes) or 'none'
      raise DataError(f'no size for stream {stream.name!r}; there are sizes for: {have}')
    size, form = tuple(sizes[stream.name]), axes[stream.kind]
    if len(size) != form.count('T') + form.count('N') or any(n < 1 for n in size):
      raise DataError(
        f'stream {stream.name!r}: size {size}, but a {stream.kind} has {form}, from 1'
      )
    if stream.kind == 'grid' and size[1] != _cells(stream):
      raise DataError(
        f'stream {stream.name!r}: size {size}, but its grid has {_cells(stream)} cells a frame'
      )
