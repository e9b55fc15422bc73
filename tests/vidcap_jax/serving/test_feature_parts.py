"""Arrays of features are read without pickles, and checked before memory is allocated."""

import io
import tracemalloc

import numpy as np
import pytest

from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.feature_parts import read_npy


def file_of(array, **settings) -> io.BytesIO:
  file = io.BytesIO()
  np.save(file, array, **settings)
  file.seek(0)
  return file


@pytest.mark.parametrize('dtype', ['<f2', '>f4', '<f8', '|i1', '<u4', '<i8'])
@pytest.mark.parametrize('order', ['C', 'F'])
def test_arrays_of_numbers(dtype, order):
  array = np.asarray(np.arange(24).reshape(2, 3, 4), dtype, order)
  np.testing.assert_array_equal(read_npy('features.image', file_of(array)), array)


@pytest.mark.parametrize('array', [np.ones(3, complex), np.array(['a']), np.ones(2, bool)])
def test_other_values_are_refused(array):
  with pytest.raises(ApiError, match=r'features\.image'):
    read_npy('features.image', file_of(array))


def test_pickles_are_refused():
  file = file_of(np.array([print], object), allow_pickle=True)
  with pytest.raises(ApiError, match='features'):
    read_npy('features.image', file)


def test_a_header_that_declares_more_than_follows_allocates_nothing():
  content = file_of(np.ones((4, 4), np.float32)).getvalue()
  content = content.replace(b'(4, 4), }' + b' ' * 20, b'(40000000000, 4), }'.ljust(29))
  assert b'40000000000' in content
  tracemalloc.start()
  with pytest.raises(ApiError, match='640,000,000,000') as error:
    read_npy('features.image', io.BytesIO(content))
  assert tracemalloc.get_traced_memory()[1] < 2**20
  tracemalloc.stop()
  assert (error.value.status, error.value.code) == (422, 'bad_features')
