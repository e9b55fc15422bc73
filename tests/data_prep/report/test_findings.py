"""Tables, lists of ids and numbers as text."""

from data_prep.inspect import table
from data_prep.report.findings import ids, min_median_max


def test_tables_and_lists_as_text():
  assert table([('', 'n'), ('train', '100'), ('x', '')]) == ['         n', 'train  100', 'x']
  assert min_median_max([3, 1, 2, 2]) == '1/2/3'
  assert min_median_max([]) == '-'
  assert ids(list('abcdefg')) == 'a, b, c, d, e and 2 more'
