"""Checks the shapes, kinds and values of arrays in files, and turns them into what is stored."""

import collections
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from vidcap_jax.data.schema import KINDS, Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import FeatureReader, layout
from vidcap_jax.features.formats.layout import AXES, Layout


def describe(
  name: str,
  reader: FeatureReader,
  samples: Iterable[str],
  *,
  declared: str | None,
  kind: str | None,
  dtype: str,
  optional: bool = False,
  sidecar: Mapping,
) -> tuple[Stream, Layout]:
  """Finds a stream's layout, kind and sizes from a few of its videos; the majority decides.

  Args:
    name: of the stream.
    reader: its features.
    samples: names in the reader of the arrays to try.
    declared: the layout; None: infer it from the arrays' shapes.
    kind: as declared; None: infer it from the layout.
    dtype: of storage.
    optional: whether a video may lack the stream.
    sidecar: the entries of ``stream.json``: extractor, version, sampling.

  Raises:
    DataError: no sample is readable, or their shapes fit no layout, several, or not the declared
      one.
  """
  shapes, failure = [], None
  for sample in samples:
    try:
      shapes.append(reader.read(sample).shape)
    except DataError as error:
      failure = error
  if not shapes:
    raise DataError(f'stream {name!r}: no readable features among those tried: {failure}')
  where = f'stream {name!r}: {reader.path}'
  try:
    axes = layout.parse(declared) if declared else layout.infer(shapes, kind, name)
  except DataError as error:
    raise DataError(f'{where}: {error}') from None
  if kind not in (None, axes.kind):
    raise DataError(f'{where}: the layout {axes.axes} is a {axes.kind}, not a {kind}')
  sizes = _sizes(shapes, axes, where)
  kind = axes.kind
  shape = (*(None,) * (len(KINDS[kind]) - len(sizes)), *sizes)
  stream = Stream(
    name,
    kind,
    shape,
    dtype=dtype,
    extractor=sidecar.get('extractor'),
    version=sidecar.get('version'),
    sampling=sidecar.get('sampling'),
    optional=optional,
  )
  return stream, axes


def _sizes(shapes: Iterable[layout.Shape], axes: Layout, where: str) -> layout.Shape:
  """The sizes of the axes with a fixed size, by majority of the shapes."""
  shapes = list(shapes)
  fitting = [shape for shape in map(axes.shape, shapes) if shape is not None]
  if 2 * len(fitting) < len(shapes):
    wrong = next(shape for shape in shapes if axes.shape(shape) is None)
    raise DataError(
      f'{where}: declared as {axes.kind}, with axes {axes.axes}, but its arrays have '
      f'{len(wrong)} axes, as in {wrong}'
    )
  # Only the axes with a fixed size are counted.
  votes = collections.Counter(s[1:] if axes.kind == 'grid' else s[-1:] for s in fitting)
  ((sizes, count),) = votes.most_common(1)
  if 2 * count < len(fitting):
    shown = ', '.join(map(str, list(dict.fromkeys(shapes))[:3]))
    raise DataError(
      f'{where}: as {axes.axes}, its arrays ({shown}, …) have no common number of channels; '
      'declare another --layout'
    )
  return sizes


def load(
  reader: FeatureReader,
  name: str,
  stream: Stream,
  axes: Layout | None = None,
  most_regions: int | None = None,
  count_underflow: Callable[[int, int], object] | None = None,
) -> np.ndarray:
  """Reads one video's array and returns it in the form of a record.

  Args:
    reader: of the stream's features.
    name: of the video's features in the reader.
    stream: the stream to which the array must fit.
    axes: layout of the array; None: the order of storage.
    most_regions: number of regions a frame to keep, those with the highest scores (the first ones
      if the features have no scores).
    count_underflow: called with how many values are not 0, and how many of those are 0 in the
      stream's dtype.

  Returns:
    An array of the stream's dtype; a vector as (1, D). T = 0 if the array has no frames, which is
    allowed for optional streams.

  Raises:
    DataError: unreadable, not numbers, of another shape than the stream, without frames, NaN,
      infinite, too large for the dtype, or not 0 but all 0 in the dtype. The message names the
      file.
  """
  scores = lambda: reader.read_scores(name)  # noqa: E731
  where = reader.where(name)
  array = reader.read(name)
  return as_stored(array, where, stream, axes, most_regions, scores, count_underflow)


def as_stored(
  array: np.ndarray,
  where: str,
  stream: Stream,
  axes: Layout | None = None,
  most_regions: int | None = None,
  scores: Callable[[], np.ndarray | None] = lambda: None,
  count_underflow: Callable[[int, int], object] | None = None,
) -> np.ndarray:
  """Like ``load``, for an array that is already read; ``where`` it is from is for messages."""
  if array.dtype.kind not in 'fiu':
    raise DataError(f'{where}: holds {array.dtype}, not real numbers')
  axes = axes or Layout(AXES[stream.kind])
  try:
    array = axes.order(array)
  except DataError as error:
    raise DataError(f'{where}: {error}, the stream has {_show(stream.shape)}') from None
  fits = len(array.shape) == len(stream.shape) and all(
    want is None or want == have for want, have in zip(stream.shape, array.shape, strict=True)
  )
  if not fits:
    raise DataError(f'{where}: shape {array.shape}, the stream has {_show(stream.shape)}')
  if stream.kind != 'vector' and not len(array) and not stream.optional:
    raise DataError(
      f'{where}: no frames (shape {array.shape}); to allow that, build the data set with '
      f'--optional={stream.name}'
    )
  with np.errstate(over='ignore'):
    stored = np.ascontiguousarray(array, stream.dtype)
  if not np.isfinite(stored).all():
    raise DataError(f'{where}: {_not_finite(array, stream.dtype)}')
  nonzero, stored_nonzero = int(np.count_nonzero(array)), int(np.count_nonzero(stored))
  if nonzero and not stored_nonzero:
    raise DataError(
      f'{where}: all values become 0 in {stream.dtype}, the largest is {_largest(array):g}; build '
      'the data set with --dtype=float32, or scale the features'
    )
  if count_underflow:
    count_underflow(nonzero, nonzero - stored_nonzero)
  if most_regions is not None and stream.kind == 'regions' and array.shape[1] > most_regions:
    stored = _top_regions(stored, scores(), most_regions, where)
  return stored[None] if stream.kind == 'vector' else stored


def _top_regions(array: np.ndarray, scores: np.ndarray | None, most: int, where: str) -> np.ndarray:
  """The regions of each frame with the highest scores, highest first; without scores the first.

  Args:
    array: (T, N, D).
    scores: (T, N), or None.
    most: number of regions to keep.
    where: for messages.
  """
  if scores is None:
    return array[:, :most]
  frames, regions, _ = array.shape
  if scores.size != frames * regions or scores.dtype.kind not in 'fiu':
    raise DataError(
      f'{where}: scores are {scores.dtype} of shape {scores.shape}, for {frames} frames of '
      f'{regions} regions'
    )
  if np.isnan(scores).any():
    raise DataError(f'{where}: {int(np.isnan(scores).sum())} of {scores.size} scores are NaN')
  ranked = scores.reshape(frames, regions).astype(np.float64)
  ranked = np.where(array.any(axis=-1), ranked, -np.inf)  # all-zero regions are padding
  order = np.argsort(-ranked, axis=1, kind='stable')[:, :most]  # (T, most)
  return np.take_along_axis(array, order[:, :, None], axis=1)


def _show(shape) -> str:
  return '(' + ', '.join('any' if n is None else str(n) for n in shape) + ')'


def _not_finite(array: np.ndarray, dtype: str) -> str:
  if nans := int(np.isnan(array).sum()):
    return f'{nans} of {array.size} values are NaN'
  if infinite := int(np.isinf(array).sum()):
    return f'{infinite} of {array.size} values are infinite'
  return (
    f'values up to {_largest(array):g} do not fit into {dtype}; build the data set with '
    '--dtype=float32'
  )


def _largest(array: np.ndarray) -> float:
  return float(np.abs(array.astype(np.float64)).max())
