"""Means, intervals and agreement of judgements, compared with figures known otherwise."""

import sys

import numpy as np
import pytest

from tests.vidcap_jax.studies.test_human_sheets import drawn
from vidcap_jax.studies import human_scores
from vidcap_jax.studies.human_sheets import Answer

# The example of Krippendorff's alpha that textbooks print: 3 raters, 15 units, points 1 to 4.
RATINGS = ('*****3412113 3*3', '1*2133 43*******', '**21344*2 1133*4')
NOMINAL, INTERVAL = 0.691, 0.811


def textbook(criterion='relevance', rate=True):
  return [
    Answer(f'rater_{r}', f'v{unit}', criterion, 'a' if rate else value, int(value))
    for r, row in enumerate(RATINGS)
    for unit, value in enumerate(row.replace(' ', ''))
    if value != '*'
  ]


def test_agreement_is_that_of_the_textbook():
  assert human_scores.agreement(textbook(), rate=True) == pytest.approx(INTERVAL, abs=5e-4)
  nominal = human_scores.agreement(textbook(rate=False), rate=False)
  assert nominal == pytest.approx(NOMINAL, abs=5e-4)


def test_agreement_needs_two_raters_of_one_video():
  answers = [Answer('a', 'v1', 'x', 'soft'), Answer('b', 'v2', 'x', 'soft')]
  assert human_scores.agreement(answers, rate=False) is None
  answers.append(Answer('b', 'v1', 'x', 'soft'))
  assert human_scores.agreement(answers, rate=False) == 1.0


def test_without_nltk_the_error_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, 'nltk.metrics', None)
  with pytest.raises(ModuleNotFoundError, match=r'nltk.*vidcap_jax\[human\]'):
    human_scores.agreement(textbook(), rate=True)


def preferences():
  """30 videos, 2 raters: soft preferred by both in 12, by one in 6; baseline by both in 3."""
  chosen = [('soft', 'soft')] * 12 + [('soft', 'neither')] * 6 + [('baseline',) * 2] * 3
  chosen += [('neither', 'neither')] * 9
  return [
    Answer(f'rater_{r}', f'v{video}', criterion, pair[r])
    for criterion in ('relevance', 'coherence')
    for video, pair in enumerate(chosen)
    for r in (0, 1)
  ]


def test_shares_of_preferences():
  result = human_scores.score(preferences(), drawn())
  assert (result['videos'], result['raters'], result['task']) == (30, 2, 'compare')
  entry = result['criteria']['relevance']
  shares = {label: run['mean'] for label, run in entry['runs'].items()}
  assert shares == pytest.approx({'baseline': 6 / 60, 'soft': 30 / 60, 'neither': 24 / 60})
  low, high = entry['runs']['soft']['interval']
  # Of the mean of 30 numbers 1, 0.5 and 0 with this variance.
  values = np.repeat([1.0, 0.5, 0.0], [12, 6, 12])
  half = 1.96 * values.std() / 30**0.5
  assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.02)
  text = human_scores.table(result)
  assert 'soft       50.00' in text
  assert '60 answers' in text


def test_mean_points():
  answers = [
    Answer(rater, f'v{video}', criterion, run, points)
    for rater in ('rater_01', 'rater_02')
    for video in range(8)
    for criterion in ('relevance', 'coherence')
    for run, points in (('baseline', 2 + video % 2), ('soft', 4))
  ]
  result = human_scores.score(answers, drawn('rate'))
  runs = result['criteria']['coherence']['runs']
  assert runs['soft'] == {'mean': 4.0, 'interval': [4.0, 4.0]}
  assert runs['baseline']['mean'] == 2.5
  low, high = runs['baseline']['interval']
  assert 2 <= low < 2.5 < high <= 3
  assert result['criteria']['coherence']['agreement'] == 1.0
