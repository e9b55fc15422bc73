"""Intervals of scores over videos."""

import random

import numpy as np
import pytest

from tests import tiny
from vidcap_jax.evaluation import intervals, metrics

WORDS = ['a', 'man', 'dog', 'runs', 'plays', 'in', 'the', 'snow']


@pytest.fixture(scope='module')
def scored():
  """Hypotheses, references and scores of 60 videos."""
  rng = random.Random(0)
  sentence = lambda: ' '.join(rng.choices(WORDS, k=rng.randint(1, 9)))  # noqa: E731
  references = metrics.References({f'v{i}': [sentence() for _ in range(3)] for i in range(60)})
  hypotheses = {
    v: rng.choice([sentence(), captions[0]]) for v, captions in references.captions.items()
  }
  hypotheses['v0'] = ''
  with tiny.unscored_by_java():
    corpus, per_video = metrics.score(hypotheses, references)
  return hypotheses, references, corpus, per_video


def intervals_of(scored):
  with tiny.without_java():
    return intervals.score_intervals(*scored)


def test_counts_of_all_videos_give_the_bleu_of_the_split(scored):
  hypotheses, references, corpus, _ = scored
  captions = references.captions
  counts = intervals.bleu_counts([hypotheses[v] for v in captions], list(captions.values()))
  bleu = intervals.bleu_of_counts(counts.sum(axis=0))
  assert bleu.tolist() == pytest.approx([corpus[f'BLEU_{n}'] for n in range(1, 5)], rel=1e-9)


def test_each_interval_holds_its_score(scored):
  found = intervals_of(scored)
  assert found.keys() == scored[2].keys()
  for name in ('BLEU_1', 'BLEU_4', 'ROUGE_L', 'CIDEr'):
    low, high = found[name]
    assert low < scored[2][name] < high
  assert found['METEOR'] == pytest.approx((0.25, 0.25))  # all videos have the same


def test_the_interval_of_a_mean_has_the_width_of_a_normal_one(scored):
  values = np.array([video['CIDEr'] for video in scored[3].values()])
  low, high = intervals_of(scored)['CIDEr']
  assert high - low == pytest.approx(2 * 1.96 * values.std() / np.sqrt(len(values)), rel=0.1)


def test_videos_are_drawn_and_not_answers():
  """Ten equal answers about a video are one observation: the interval does not get narrower."""
  rng = np.random.default_rng(1)
  totals = rng.integers(0, 2, 50).astype(float)
  single = intervals.mean_interval(totals, np.ones(50), np.random.default_rng(0))
  tenfold = intervals.mean_interval(totals * 10, np.full(50, 10.0), np.random.default_rng(0))
  assert tenfold == pytest.approx(single)
  assert single[1] - single[0] > 0.2
