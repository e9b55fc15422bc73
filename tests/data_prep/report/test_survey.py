"""Unusual lengths."""

from data_prep.report.survey import unusual_lengths


def test_unusual_lengths():
  usual = {f'v{i}': 40 + i for i in range(20)}
  assert unusual_lengths(usual) == ([], [])
  found = unusual_lengths({**usual, 'a': 5, 'b': 2, 'c': 500, 'd': 900})
  assert found == (['b', 'a'], ['d', 'c'])
  assert unusual_lengths({'a': 1, 'b': 900}) == ([], [])
