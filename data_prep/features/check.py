"""From an array as found to an array as stored: shapes, kinds and values are checked here."""

import collections
from collections.abc import Iterable, Mapping

import numpy as np

from data_prep.features import FeatureReader
from vidcap_jax.data.schema import KINDS, DataError, Stream

KIND_OF_RANK = {1: 'vector', 2: 'sequence', 3: 'regions', 4: 'grid'}


def describe(
  name: str,
  reader: FeatureReader,
  samples: Iterable[str],
  *,
  kind: str | None,
  dtype: str,
  optional: bool = False,
  known: Mapping,
) -> Stream:
  """Finds a stream's kind and sizes from a few of its videos; the majority decides.

  Args:
    name: of the stream.
    reader: its features.
    samples: names to look at, in the reader.
    kind: as declared, or None to tell it from the arrays' rank.
    dtype: of storage.
    optional: whether a video may lack the stream.
    known: the sidecar: extractor, version, sampling.

  Raises:
    DataError: no sample is readable, or no kind has that many axes.
  """
  shapes: collections.Counter[tuple[int, ...]] = collections.Counter()
  failure = None
  for sample in samples:
    try:
      array = _as_kind(reader.read(sample), kind)
    except DataError as error:
      failure = error
      continue
    # The free axes do not take part in the vote.
    fixed = array.shape[1:] if array.ndim == 4 else array.shape[-1:]
    shapes[(array.ndim, *fixed)] += 1
  if not shapes:
    raise DataError(f'stream {name!r}: no readable features among those tried: {failure}')
  ((rank, *sizes), _), *_ = shapes.most_common(1)
  if kind is None:
    if rank not in KIND_OF_RANK:
      raise DataError(
        f'stream {name!r}: {reader.path}: arrays with {rank} axes; known are '
        + ', '.join(f'{k} ({", ".join(axes)})' for k, axes in KINDS.items())
      )
    kind = KIND_OF_RANK[rank]
  if rank != len(KINDS[kind]):
    raise DataError(
      f'stream {name!r}: {reader.path}: declared as {kind}, with axes '
      f'({", ".join(KINDS[kind])}), but its arrays have {rank}'
    )
  shape = (*(None,) * (rank - len(sizes)), *sizes)
  return Stream(
    name,
    kind,
    shape,
    dtype=dtype,
    extractor=known.get('extractor'),
    version=known.get('version'),
    sampling=known.get('sampling'),
    optional=optional,
  )


def load(reader: FeatureReader, name: str, stream: Stream) -> np.ndarray:
  """Reads one video's array and returns it as a record holds it.

  Returns:
    An array of the stream's dtype; a vector as (1, D). An array without frames (of a stream that
    a video may lack) has T = 0.

  Raises:
    DataError: unreadable, not numbers, of another shape than the stream, without frames, NaN,
      infinite, or too large for the dtype. The message names the file.
  """
  where = reader.where(name)
  array = _as_kind(reader.read(name), stream.kind)
  if array.dtype.kind not in 'fiu':
    raise DataError(f'{where}: holds {array.dtype}, not real numbers')
  fits = len(array.shape) == len(stream.shape) and all(
    want is None or want == have for want, have in zip(stream.shape, array.shape, strict=True)
  )
  if not fits:
    raise DataError(f'{where}: shape {array.shape}, the stream has {_show(stream.shape)}')
  if stream.kind != 'vector' and not len(array) and not stream.optional:
    raise DataError(f'{where}: no frames (shape {array.shape})')
  with np.errstate(over='ignore'):
    stored = np.ascontiguousarray(array, stream.dtype)
  if not np.isfinite(stored).all():
    raise DataError(f'{where}: {_not_finite(array, stream.dtype)}')
  return stored[None] if stream.kind == 'vector' else stored


def _as_kind(array: np.ndarray, kind: str | None) -> np.ndarray:
  # Vectors are often saved as (1, D); declared as vectors, these are meant.
  if kind == 'vector' and array.ndim == 2 and len(array) == 1:
    return array[0]
  return array


def _show(shape) -> str:
  return '(' + ', '.join('any' if n is None else str(n) for n in shape) + ')'


def _not_finite(array: np.ndarray, dtype: str) -> str:
  if nans := int(np.isnan(array).sum()):
    return f'{nans} of {array.size} values are NaN'
  if infinite := int(np.isinf(array).sum()):
    return f'{infinite} of {array.size} values are infinite'
  largest = float(np.abs(array.astype(np.float64)).max())
  return f'values up to {largest:g} do not fit into {dtype}; store with --dtype=float32'
