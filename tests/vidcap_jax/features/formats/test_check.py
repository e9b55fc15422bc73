"""Kinds and shapes of features, and errors in them."""

import numpy as np
import pytest

from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features
from vidcap_jax.features.formats.check import describe, load

SEQUENCE = Stream('image', 'sequence', (None, 4))


def folder(path, **arrays):
  path.mkdir(exist_ok=True)
  for name, array in arrays.items():
    np.save(path / f'{name}.npy', array)
  return path


def described(path, *, layout=None, kind=None, dtype='float16', sidecar=None):
  reader = open_features('image', path)
  declared = {'declared': layout, 'kind': kind, 'dtype': dtype, 'sidecar': sidecar or {}}
  return describe('image', reader, list(reader.ids), **declared)


def stream_of(path, **declared):
  return described(path, **declared)[0]


@pytest.mark.parametrize(
  ('shape', 'kind', 'expected'),
  [
    ((6,), 'vector', (6,)),
    ((3, 6), 'sequence', (None, 6)),
    ((3, 2, 6), 'regions', (None, None, 6)),
    ((3, 2, 5, 6), 'grid', (None, 2, 5, 6)),
  ],
)
def test_kind_is_inferred_from_the_rank(tmp_path, shape, kind, expected):
  stream = stream_of(folder(tmp_path, a=np.ones(shape), b=np.ones(shape)))
  assert (stream.kind, stream.shape) == (kind, expected)


def test_the_majority_decides(tmp_path):
  folder(tmp_path, a=np.ones((2, 3)), b=np.ones((9, 4)), c=np.ones((1, 4)), d=np.ones(4))
  (tmp_path / 'e.npy').write_bytes(b'')
  stream = stream_of(
    tmp_path, sidecar={'extractor': 'net', 'version': '1', 'sampling': {'every': 2}}
  )
  assert stream.shape == (None, 4)
  assert (stream.extractor, stream.version, stream.sampling) == ('net', '1', {'every': 2})


def test_declared_kinds(tmp_path):
  folder(tmp_path, a=np.ones((1, 4)), b=np.ones((1, 4)))
  stream = stream_of(tmp_path, kind='vector', dtype='float32')
  assert stream.shape == (4,)
  stored = load(open_features('image', tmp_path), 'a', stream)
  np.testing.assert_array_equal(stored, np.ones((1, 4), np.float32), strict=True)
  with pytest.raises(DataError, match='declared as grid.*but its arrays have 2'):
    stream_of(tmp_path, kind='grid')


def test_no_kind_has_that_many_axes(tmp_path):
  with pytest.raises(DataError, match='arrays with 5 axes'):
    stream_of(folder(tmp_path / 'five', a=np.ones((1,) * 5)))
  with pytest.raises(DataError, match='arrays with 0 axes'):
    stream_of(folder(tmp_path / 'zero', a=np.ones(())))
  with pytest.raises(DataError, match='no readable features.*holds Python'):
    stream_of(folder(tmp_path / 'none', a=np.array([None], object)))


def test_load_checks_and_converts(tmp_path):
  values = np.arange(8).reshape(2, 4)
  folder(tmp_path, integers=values, big_endian=values.astype('>f8'), columns=values.T.copy().T)
  reader = open_features('image', tmp_path)
  for name in reader.ids:
    stored = load(reader, name, SEQUENCE)
    np.testing.assert_array_equal(stored, values.astype(np.float16), strict=True)
    assert stored.flags.c_contiguous


@pytest.mark.parametrize(
  ('array', 'match'),
  [
    (np.full((2, 4), np.nan), '8 of 8 values are NaN'),
    (np.array([[1, np.inf, 2, -np.inf]]), '2 of 4 values are infinite'),
    (np.array([[1, -1e6, 2, 3]]), r'up to 1e\+06 do not fit into float16; .*--dtype=float32'),
    (np.ones((2, 5)), r'shape \(2, 5\), the stream has \(any, 4\)'),
    (np.ones(4), r'shape \(4,\)'),
    (np.ones((0, 4)), 'no frames'),
    (np.ones((2, 4), bool), 'holds bool'),
    (np.ones((2, 4), complex), 'holds complex128'),
    (np.full((2, 4), 'a'), 'holds <U1'),
  ],
)
def test_load_errors(tmp_path, array, match):
  folder(tmp_path, a=array)
  with pytest.raises(DataError, match=match) as caught:
    load(open_features('image', tmp_path), 'a', SEQUENCE)
  assert str(tmp_path / 'a.npy') in str(caught.value)


def test_float32_holds_large_values(tmp_path):
  folder(tmp_path, a=np.full((1, 4), 1e6))
  stored = load(
    open_features('image', tmp_path), 'a', Stream('i', 'sequence', (None, 4), 'float32')
  )
  assert stored.dtype == np.float32
  assert stored.max() == 1e6


def test_optional_streams_may_have_no_frames(tmp_path):
  folder(tmp_path, a=np.ones((0, 4)))
  stream = Stream('image', 'sequence', (None, 4), optional=True)
  assert load(open_features('image', tmp_path), 'a', stream).shape == (0, 4)


def test_values_that_all_become_0_are_an_error(tmp_path):
  reader = open_features('image', folder(tmp_path, a=np.full((2, 4), 1e-9, np.float32)))
  with pytest.raises(DataError, match=r'a\.npy.*1e-09.*--dtype=float32'):
    load(reader, 'a', SEQUENCE)
  stream = Stream('image', 'sequence', (None, 4), dtype='float32')
  assert load(reader, 'a', stream).any()


def test_values_that_become_0_are_counted(tmp_path):
  array = np.array([[1e-9, 1, -1e-9, 0], [1, 1e-7, 0, 2]], np.float32)
  reader = open_features('image', folder(tmp_path, a=array, b=np.zeros((2, 4))))
  counts = []
  for name in ('a', 'b'):
    load(reader, name, SEQUENCE, count_underflow=lambda *count: counts.append(count))
  assert counts == [(6, 2), (0, 0)]
