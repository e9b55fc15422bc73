"""Histograms as bars."""

import re

from data_prep.report import charts


def test_bins():
  assert charts.edges([3, 4, 6]) == [3, 4, 5, 6, 7]
  assert charts.edges([]) == [0, 1]
  bounds = charts.edges([*range(8, 48)] * 30 + [900])
  assert bounds[0] == 8
  assert bounds[-1] < 120  # One far value doesn't squeeze the others.
  assert len(bounds) <= 36
  drawn = charts.histogram([8, 9, 900], bounds, 'title', 'axis')
  assert sum(int(n) for n in re.findall(r'<title>[^<]*: (\d+)</title>', drawn)) == 3
  assert f'<title>{bounds[-2]} or more: 1</title>' in drawn


def test_rarity():
  words = [('a', 9), ('b', 4), ('c', 3), ('d', 1), ('e', 1)]
  assert charts.rarity(words) == [('1', 2), ('2', 0), ('3 to 4', 2), ('5 to 8', 0), ('9 to 16', 1)]
  assert charts.rarity([]) == []


def test_bars_are_escaped():
  drawn = charts.bars([('<b>', 2), ('x' * 40, 1)], 'a "title"')
  assert '<b>' not in drawn
  assert 'aria-label="a &quot;title&quot;"' in drawn
  assert 'x' * 17 + '…' in drawn
