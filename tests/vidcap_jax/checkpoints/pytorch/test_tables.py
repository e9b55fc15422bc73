"""What a table does with a state dict that is not quite its own, and how arrays convert."""

import jax
import numpy as np
import pytest

from vidcap_jax.checkpoints.pytorch import tables
from vidcap_jax.checkpoints.pytorch.tables import Entry, Table
from vidcap_jax.errors import DataError

TABLE = Table(
  (
    Entry('layer/kernel', ('fc.weight',), tables.kernel()),
    Entry('layer/bias', ('fc.bias_1', 'fc.bias_2'), tables.total),
  ),
  (r'fc\.count', r'other\..*'),
)
SHAPES = {
  'layer': {
    'kernel': jax.ShapeDtypeStruct((3, 2), np.float32),
    'bias': jax.ShapeDtypeStruct((2,), np.float32),
  }
}


def arrays(**changes):
  made = {
    'fc.weight': np.arange(6, dtype=np.float16).reshape(2, 3),
    'fc.bias_1': np.array([1, 2], np.float32),
    'fc.bias_2': np.array([10, 20], np.float32),
  }
  return made | {key.replace('__', '.'): x for key, x in changes.items()}


def convert(given):
  return tables.convert(TABLE, given, SHAPES, 'model.pth')


def test_parameters_by_path_in_float32():
  params = convert(arrays(fc__count=np.int64(7), other__x=np.zeros(9)))
  np.testing.assert_array_equal(params['layer']['kernel'], [[0, 3], [1, 4], [2, 5]])
  np.testing.assert_array_equal(params['layer']['bias'], [11, 22])
  assert {x.dtype for x in jax.tree.leaves(params)} == {np.dtype(np.float32)}


def test_missing_and_unknown_keys_are_named():
  given = arrays(fc__extra=np.zeros(2), fc__counts=np.zeros(2))
  del given['fc.bias_2']
  with pytest.raises(DataError, match=r'model\.pth.*fc\.bias_2.*fc\.counts, fc\.extra'):
    convert(given)


def test_many_unknown_keys_are_counted():
  with pytest.raises(DataError, match='extra_0, .* 27 more') as caught:
    convert(arrays(**{f'extra_{i}': np.zeros(1) for i in range(30)}))
  assert len(caught.value.items) == 30
  assert 'extra_9' not in str(caught.value)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'fc__weight': np.zeros((2, 4))}, r'fc\.weight \(2, 4\).*layer/kernel.*\(4, 2\).*\(3, 2\)'),
    ({'fc__weight': np.zeros(6)}, r'fc\.weight \(6,\)'),
    ({'fc__bias_1': np.zeros(1)}, r'fc\.bias_1 \(1,\), fc\.bias_2 \(2,\)'),
    ({'fc__bias_1': np.array([1, np.nan])}, r'fc\.bias_1.*finite'),
    ({'fc__bias_1': np.array([1, 1e39])}, r'fc\.bias_1.*finite'),
  ],
)
@pytest.mark.filterwarnings('ignore:overflow')
def test_arrays_that_do_not_fit(changes, message):
  with pytest.raises(DataError, match=f'model.pth.*{message}'):
    convert(arrays(**changes))


def test_conversions():
  weight = np.arange(12).reshape(3, 4)  # 3 outputs, 4 inputs
  np.testing.assert_array_equal(tables.kernel(slice(1, 3))(weight), weight.T[1:3])
  np.testing.assert_array_equal(tables.kernel(outputs=[2, 0, 1])(weight), weight.T[:, [2, 0, 1]])
  np.testing.assert_array_equal(
    tables.stacked(tables.kernel(slice(1)), tables.kernel())(weight, weight),
    [*weight.T[:1], *weight.T],
  )
  np.testing.assert_array_equal(tables.flat(weight[:1]), [0, 1, 2, 3])
  np.testing.assert_array_equal(tables.chosen([2, 0])(np.array([5, 6, 7])), [7, 5])
