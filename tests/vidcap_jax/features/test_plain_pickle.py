"""Pickles of arrays are read as written; others are refused and run no code."""

import collections
import contextlib
import io
import os
import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.feature_files import Runs
from vidcap_jax.features.plain_pickle import ArrayData, PickleError, load_plain

NAMES = {
  'array': b'cnumpy._core.multiarray\n_reconstruct\n',
  'dtype': b'cnumpy\ndtype\n',
  'buffer': b'cnumpy._core.numeric\n_frombuffer\n',
  'encode': b'c_codecs\nencode\n',
}
WHOLE = pickle.dumps({'a': np.arange(6.0).reshape(2, 3), 'b': [1, 'x']}, 2)


def load(data: bytes):
  return load_plain(io.BytesIO(data))


@pytest.mark.parametrize('protocol', range(6))
@pytest.mark.parametrize(
  'array',
  [
    np.arange(6, dtype=np.float16).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype='>i8').reshape(2, 3)),
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(1, 2, 0),
    np.array([True, False]),
    np.zeros((0, 4), np.float32),
    np.array(3.5),
    np.float64(2),
  ],
)
def test_arrays(array, protocol):
  found = load(pickle.dumps([array], protocol))[0]
  assert type(found) is ArrayData
  np.testing.assert_array_equal(found.array(), np.asarray(array), strict=True)


@pytest.mark.parametrize(
  'array',
  [
    np.array([{}, None], object),
    np.array(['a']),
    np.array([b'a']),
    np.array([1j]),
    np.zeros(2, 'M8'),
  ],
)
def test_arrays_of_other_elements_are_errors_when_read(array):
  made = load(pickle.dumps({'bad': array, 'good': np.ones(2)}, 2))
  assert made['good'].array().tolist() == [1, 1]
  with pytest.raises(PickleError, match='not numbers'):
    made['bad'].array()


def test_runs_no_code(tmp_path):
  trace = tmp_path / 'trace'
  for attack in (
    Runs(os.system, f'touch {trace}'),
    Runs(os.mkdir, str(trace)),
    Runs(eval, '1'),
    Runs(getattr, 'x', 'upper'),
    Runs(bytearray, 10),
    Runs(np.fromfile, str(trace)),
    Runs(np.load, str(trace)),
  ):
    for protocol in (0, 2, 5):
      with pytest.raises(PickleError, match='refuses to load'):
        load(pickle.dumps({'a': [attack]}, protocol))
  assert not trace.exists()


STATE = b'(I1\n(I2\nt' + NAMES['dtype'] + b'(U\x02f8tRI00\nC\x10' + bytes(16) + b't'


@pytest.mark.parametrize(
  'code',
  [
    NAMES['dtype'] + b')R.',  # no type
    NAMES['dtype'] + b'(X\x02\x00\x00\x00f3tR.',  # no such type
    NAMES['dtype'] + b'(X\x0a\x00\x00\x00f8,f8,f8,ftR.',  # fields
    NAMES['dtype'] + b'(X\x02\x00\x00\x00f8tRI7\nb.',  # a state that is none
    NAMES['array'] + b')RI7\nb.',
    NAMES['array'] + b')R(I1\n(I2\ntI8\nI00\nC\x01xtb.',  # its type is a number
    NAMES['array'] + b'}X\x08\x00\x00\x00__call__' + NAMES['dtype'] + b'sb)R)R.',
    NAMES['buffer']
    + b'(C\x08'
    + bytes(8)
    + NAMES['dtype']
    + b'(X\x02\x00\x00\x00f8tR(I2\ntC\x01CtR.',
    NAMES['buffer']
    + b'(C\x08'
    + bytes(8)
    + NAMES['dtype']
    + b'(X\x02\x00\x00\x00f8tR(I-1\ntC\x01CtR.',
    NAMES['buffer']
    + b'(C\x08'
    + bytes(8)
    + NAMES['dtype']
    + b'(X\x02\x00\x00\x00f8tR(I1\ntC\x01XtR.',
    NAMES['encode'] + b'(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR.',
    b'cbuiltins\nexec\n.',
    b'cnumpy\nndarray.tofile\n.',
    b'\x80\x02\x82\x01.',  # the extension registry
    b'\x80\x04\x8c\x02os\x8c\x06system\x93.',  # names from the stack
    b'(X\x01\x00\x00\x00atQ.',  # a persistent object
    b'',
    WHOLE[:-20],
  ],
)
def test_malformed(code):
  with pytest.raises(PickleError):
    load(code)


@given(st.integers(0, len(WHOLE)), st.binary(max_size=8), st.integers(0, 20))
@example(0, b'', 0)
def test_random_bytes_are_read_or_refused(start, middle, gap):
  with contextlib.suppress(PickleError):
    load(WHOLE[:start] + middle + WHOLE[start + gap :])


def test_a_defaultdict_is_a_dictionary():
  found = collections.defaultdict(list, {'a': [1], 'b': ['x']})
  for protocol in range(6):
    assert load(pickle.dumps(found, protocol)) == {'a': [1], 'b': ['x']}
