"""Two systems compared: p values, intervals of differences, and sacrebleu's tests of BLEU."""

import random

import numpy as np
import pytest
from sacrebleu import significance
from sacrebleu.metrics import BLEU
from scipy import special

from tests import tiny
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import comparison, intervals, metrics
from vidcap_jax.evaluation.signature import Signature

WORDS = ['a', 'man', 'dog', 'cat', 'runs', 'plays', 'sits', 'in', 'on', 'the', 'snow', 'guitar']


def system(references, share, seed):
  """Captions that keep this share of a reference's words."""
  rng = random.Random(seed)
  return {
    video_id: ' '.join(
      word if rng.random() < share else rng.choice(WORDS) for word in rng.choice(captions).split()
    )
    for video_id, captions in references.captions.items()
  }


@pytest.fixture(scope='module')
def references():
  rng = random.Random(0)
  sentence = lambda: ' '.join(rng.choices(WORDS, k=rng.randint(4, 9)))  # noqa: E731
  return metrics.References({f'v{i}': [sentence() for _ in range(3)] for i in range(200)})


def statistics(captions, references):
  with tiny.unscored_by_java():
    return intervals.statistics_of(metrics.score_details(captions, references))


def test_scores_differences_and_intervals(references):
  first = statistics(system(references, 0.5, 1), references)
  second = statistics(system(references, 0.8, 2), references)
  found = comparison.compare(first, second)
  assert list(found) == list(first.names)
  for name in ('BLEU_4', 'ROUGE_L', 'CIDEr'):
    d = found[name]
    assert d.difference == pytest.approx(d.second - d.first)
    assert 0 < d.interval[0] < d.difference < d.interval[1]
    assert d.p_bootstrap == d.p_randomization == 1 / (intervals.DRAWS + 1)
  assert (found['METEOR'].difference, found['METEOR'].p_bootstrap) == (0.0, 1.0)
  reverse = comparison.compare(second, first)
  assert reverse['CIDEr'].difference == -found['CIDEr'].difference


def test_equal_systems_do_not_differ(references):
  own = statistics(system(references, 0.5, 1), references)
  for d in comparison.compare(own, own).values():
    assert (d.difference, d.interval, d.p_bootstrap, d.p_randomization) == (0, (0, 0), 1, 1)


def test_one_different_caption_of_many_is_no_evidence(references):
  """Exchanging it gives the same difference with the other sign: each test has a p value of 1."""
  captions = system(references, 0.9, 1)
  changed = {**captions, 'v7': 'a dog'}
  found = comparison.compare(statistics(captions, references), statistics(changed, references))
  assert found['CIDEr'].difference != 0
  assert found['CIDEr'].p_randomization == 1
  assert found['BLEU_1'].p_randomization == 1


def test_means_have_the_p_value_of_a_normal_test(references):
  first, second = system(references, 0.5, 1), system(references, 0.55, 2)
  own, other = statistics(first, references), statistics(second, references)
  column = [n for n in own.names if n in ('ROUGE_L', 'CIDEr')].index('CIDEr')
  change = other.means[:, column] - own.means[:, column]
  z = change.mean() / (change.std() / np.sqrt(len(change)))
  found = comparison.compare(own, other)['CIDEr']
  expected = 2 * special.ndtr(-abs(z))
  assert 0.01 < expected < 0.99
  assert found.p_bootstrap == pytest.approx(expected, abs=0.03)
  assert found.p_randomization == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(('share', 'seed'), [(0.5, 2), (0.56, 4)])
def test_bleu_is_tested_as_sacrebleu_tests_it(references, share, seed):
  """Both make their own draws: p values agree within 4 standard deviations of 4,000 and 10,000."""
  draws = 4000
  captions = system(references, 0.5, 1), system(references, share, seed)
  first, second = (statistics(each, references) for each in captions)
  columns = [list(column) for column in zip(*references.captions.values())]
  named = list(zip(('first', 'second'), (list(each.values()) for each in captions)))
  own, place = comparison.compare(first, second)['BLEU_4'], first.names.index('BLEU_4')
  drawn = comparison.drawn_differences(first, second, np.random.default_rng(0))[:, place]
  sizes = np.abs(drawn)  # the statistic of sacrebleu's bootstrap, see the module
  expected = {
    'ar': own.p_randomization,
    'bs': float(np.mean(sizes - sizes.mean() > abs(own.difference))),
  }
  for kind, p in expected.items():
    bleu = BLEU(tokenize='none', smooth_method='none', force=True)
    test = significance.PairedTest(named, {'BLEU': bleu}, columns, kind, draws)
    base, other = test()[1]['BLEU']
    assert own.first == pytest.approx(base.score / 100, abs=1e-9)
    assert own.second == pytest.approx(other.score / 100, abs=1e-9)
    deviation = np.sqrt(p * (1 - p) * (1 / draws + 1 / intervals.DRAWS))
    assert p == pytest.approx(other.p_value, abs=4 * deviation + 1 / draws)


def test_other_videos_are_named():
  captions = {'v1': 'a', 'v2': 'b'}, {'v2': 'b', 'v3': 'c', 'v4': 'd'}
  with pytest.raises(DataError, match=r'4 videos: a\.json lacks 2 .*v3, v4.*b\.json lacks 1 .*v1'):
    comparison.check_same_videos(('a.json', 'b.json'), captions)
  comparison.check_same_videos(('a', 'b'), (captions[0], dict(reversed(captions[0].items()))))


def test_a_single_video_is_refused():
  references = metrics.References({'v1': ['a dog runs']})
  own = statistics({'v1': 'a dog'}, references)
  with pytest.raises(UserError, match='single'):
    comparison.compare(own, own)
  with pytest.raises(UserError, match='single'):
    comparison.check_same_videos(('a.json', 'b.json'), [{'v1': 'a dog'}] * 2)


def test_text_and_json(references):
  first = statistics(system(references, 0.5, 1), references)
  second = statistics(system(references, 0.6, 2), references)
  differences = comparison.compare(first, second)
  made = comparison.Comparison(Signature(nrefs='3'), ('a.json', 'b.json'), 200, differences)
  lines = made.as_text().splitlines()
  assert lines[:2] == ['A: a.json', 'B: b.json']
  assert len({len(line) for line in lines[2:-1]}) == 1
  (cider,) = [line for line in lines if line.startswith('CIDEr')]
  assert f'{differences["CIDEr"].difference:+.4f}' in cider
  written = made.as_json()
  assert (written['signature'], written['videos'], written['first']) == ('nrefs:3', 200, 'a.json')
  assert written['metrics']['CIDEr']['p_bootstrap'] == differences['CIDEr'].p_bootstrap
