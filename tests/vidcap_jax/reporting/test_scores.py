import math

import pytest

from vidcap_jax.reporting import scores
from vidcap_jax.reporting.evaluations import Evaluation


def evaluation(**metrics):
  return Evaluation('x', None, None, metrics, [])


def test_the_probability_of_a_word_counts_the_end():
  entry = {'caption': 'a red ball', 'log_prob': 4 * math.log(0.5)}
  assert scores.word_probability(entry) == pytest.approx(0.5)
  assert scores.word_probability({'caption': 'a'}) is None
  assert scores.word_probability({'caption': 'a', 'log_prob': -math.inf}) is None


def test_without_references_the_scores_are_the_saved_ones():
  own = evaluation(CIDEr=0.5, BLEU_4=0.25, videos=3, intervals={'CIDEr': [0.4, 0.6]})
  [scored] = scores.score([own], None, pytest.fail)
  assert scored.corpus == {'BLEU_4': 0.25, 'CIDEr': 0.5}
  assert scored.intervals == {'CIDEr': [0.4, 0.6]}
  assert scores.differences([scored, scored]) == {}


def test_scores_that_differ_from_the_saved_ones_are_named():
  own = evaluation(CIDEr=0.5, METEOR=0.25)
  scored = scores.Scored({'CIDEr': 0.6, 'METEOR': 0.25, 'ROUGE_L': 0.1})
  [line] = scores.changed_since(own, scored)
  assert 'CIDEr' in line
  assert '0.6' in line
