"""Intervals of scores over videos, and of their means over seeds."""

import random

import numpy as np
import pytest

from tests import tiny
from vidcap_jax.evaluation import intervals, metrics

WORDS = ['a', 'man', 'dog', 'runs', 'plays', 'in', 'the', 'snow']


@pytest.fixture(scope='module')
def details():
  """The scores of 60 videos."""
  rng = random.Random(0)
  sentence = lambda: ' '.join(rng.choices(WORDS, k=rng.randint(1, 9)))  # noqa: E731
  references = metrics.References({f'v{i}': [sentence() for _ in range(3)] for i in range(60)})
  hypotheses = {
    v: rng.choice([sentence(), captions[0]]) for v, captions in references.captions.items()
  }
  hypotheses['v0'] = ''
  with tiny.unscored_by_java():
    return metrics.score_details(hypotheses, references)


def test_sums_over_all_videos_give_the_scores_of_the_split(details):
  statistics = intervals.statistics_of(details)
  found = statistics.scores(statistics.table.sum(axis=0))
  assert dict(zip(statistics.names, found)) == pytest.approx(details.corpus, rel=1e-9)
  assert list(statistics.names) == list(details.corpus)


@pytest.mark.parametrize('names', [('BLEU',), ('CIDEr',), ('METEOR', 'ROUGE_L')])
def test_a_part_of_the_metrics(details, names):
  captions = dict(zip(details.ids, details.tokens))
  with tiny.unscored_by_java():
    part = metrics.score_details(captions, details.references, names)
  whole = intervals.score_intervals(intervals.statistics_of(details))
  found = intervals.score_intervals(intervals.statistics_of(part))
  assert list(found) == list(part.corpus)
  assert found == {name: pytest.approx(whole[name]) for name in found}


def test_draws_are_scored_as_splits_of_their_videos(details):
  """Each draw of a video is scored as if it stood in the split that often."""
  statistics = intervals.statistics_of(details)
  (weights,) = intervals.draw_weights(60, 3, np.random.default_rng(1))
  assert weights.sum(axis=1).tolist() == [60.0] * 3
  drawn = statistics.scores(weights @ statistics.table)
  repeated = [v for v, times in zip(details.ids, weights[0]) for _ in range(int(times))]
  captions = {str(i): details.tokens[details.ids.index(v)] for i, v in enumerate(repeated)}
  references = {str(i): details.references.captions[v] for i, v in enumerate(repeated)}
  with tiny.without_java():
    expected, _ = metrics.score(captions, metrics.References(references), ['BLEU', 'ROUGE_L'])
  found = dict(zip(statistics.names, drawn[0]))
  assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-9)


def test_each_interval_holds_its_score(details):
  found = intervals.score_intervals(intervals.statistics_of(details))
  assert found.keys() == details.corpus.keys()
  for name in ('BLEU_1', 'BLEU_4', 'ROUGE_L', 'CIDEr'):
    low, high = found[name]
    assert low < details.corpus[name] < high
  assert found['METEOR'] == pytest.approx((0.25, 0.25))  # all videos have the same


def test_the_interval_of_a_mean_has_the_width_of_a_normal_one(details):
  values = details.values['CIDEr']
  low, high = intervals.score_intervals(intervals.statistics_of(details))['CIDEr']
  assert high - low == pytest.approx(2 * 1.96 * values.std() / np.sqrt(len(values)), rel=0.1)


def test_a_single_video_has_no_interval(details):
  captions = {'v1': details.references.captions['v1']}
  with tiny.without_java():
    one = metrics.score_details({'v1': 'a dog'}, metrics.References(captions), ['BLEU'])
  assert intervals.score_intervals(intervals.statistics_of(one)) == {}


@pytest.mark.parametrize(('N', 'draws'), [(7, 40), (3, 200_000), (250_000, 2)])
def test_draws_come_in_parts(N, draws):
  parts = list(intervals.draw_weights(N, draws, np.random.default_rng(0)))
  assert sum(map(len, parts)) == draws
  for weights in parts:
    assert weights.shape[1] == N
    assert (weights.sum(axis=1) == N).all()


def test_videos_are_drawn_and_not_answers():
  """Ten equal answers about a video are one observation: the interval does not get narrower."""
  rng = np.random.default_rng(1)
  totals = rng.integers(0, 2, 50).astype(float)
  single = intervals.mean_interval(totals, np.ones(50), np.random.default_rng(0))
  tenfold = intervals.mean_interval(totals * 10, np.full(50, 10.0), np.random.default_rng(0))
  assert tenfold == pytest.approx(single)
  assert single[1] - single[0] > 0.2


def test_the_interval_over_seeds_is_that_of_student():
  """The 97.5 % quantiles for 1, 2 and 4 degrees of freedom are 12.7062, 4.3027 and 2.7764."""
  assert intervals.seeds_interval([0.5]) is None
  assert intervals.seeds_interval([0.0, 2.0]) == pytest.approx((1 - 12.7062, 1 + 12.7062), abs=1e-4)
  values = [0.1, 0.4, 0.2, 0.5, 0.3]
  half = 2.7764 * np.std(values, ddof=1) / np.sqrt(5)
  assert intervals.seeds_interval(values) == pytest.approx((0.3 - half, 0.3 + half), abs=1e-4)
