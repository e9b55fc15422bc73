"""METEOR without Java, against the Java program and the golden values."""

import random

import numpy as np
import pytest

from vidcap_jax.evaluation import meteor_python, metrics
from vidcap_jax.evaluation.meteor_python import PythonMeteor, choose_meteor
from vidcap_jax.evaluation.meteor_statistics import best_statistics, split_videos

WORDS = (
  *('a', 'a', 'a', 'the', 'the', 'man', 'men', 'boy', 'is', 'are', 'running', 'runs', 'ran', 'car'),
  *('automobile', 'vehicle', 'street', 'road', 'on', 'in', 'down', 'slowly', 'quickly', 'dog'),
  *('dogs', 'puppy', 'plays', 'playing', 'guitar', 'music', 'of', 'at', 'least', 'minimum', 'take'),
  *('part', 'participate', 'in', 'order', 'to', 'people', 'persons', 'kid', 'child', 'children'),
  *("'s", "n't", '.', ',', 'singer/songwriter', 'u.s.', 'is'),
)


def random_captions(count: int, rng: random.Random) -> list[str]:
  return [' '.join(rng.choices(WORDS, k=rng.randint(0, 16))) for _ in range(count)]


def test_equals_the_program_and_the_golden_values(golden, running_meteor):
  hypotheses, references, expected = [], [], []
  for one_set in golden.values():
    tokens = one_set['tokenised']
    for video_id, captions in tokens['refs'].items():
      hypotheses.append(tokens['hyps'][video_id])
      references.append(captions)
      expected.append(one_set['scores']['per_video'][video_id]['METEOR'])
  rng = random.Random(0)
  hypotheses += random_captions(300, rng)
  references += [random_captions(rng.randint(1, 5), rng) for _ in range(300)]
  corpus, videos, table = PythonMeteor().score_with_statistics(hypotheses, references, 'METEOR')
  assert videos[: len(expected)] == pytest.approx(expected, abs=1e-6)
  java_corpus, java_videos, java_table = running_meteor.score_with_statistics(
    hypotheses, references
  )
  np.testing.assert_array_equal(table, java_table)
  assert videos == pytest.approx(java_videos, abs=1e-12)
  assert corpus == pytest.approx(java_corpus, abs=1e-12)


@pytest.mark.parametrize('processors', [{0}, {0, 1}])
def test_auto_is_python_for_many_references(monkeypatch, processors):
  monkeypatch.setattr('vidcap_jax.evaluation.java.find_java', lambda: '/usr/bin/java')
  monkeypatch.setattr('os.sched_getaffinity', lambda _: processors)
  many = [['a dog'] * 20] * 1000
  assert choose_meteor('auto', many) == 'python'
  assert choose_meteor('java', many) == 'java'
  assert choose_meteor('auto', many[:999]) == 'java'


def test_without_java_all_scores_are_there(no_java):
  captions = {'v1': 'a man runs', 'v2': ''}
  references = {'v1': ['the man is running', 'a boy runs'], 'v2': ['a dog']}
  corpus, per_video = metrics.score(captions, references)
  assert list(corpus) == ['BLEU_1', 'BLEU_2', 'BLEU_3', 'BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr']
  assert 0 < per_video['v1']['METEOR'] < 1
  assert per_video['v2']['METEOR'] == 0


@pytest.mark.slow
def test_two_processes_have_the_statistics_of_one(monkeypatch):
  rng = random.Random(1)
  hypotheses, references = random_captions(9, rng), [random_captions(3, rng) for _ in range(9)]
  videos = split_videos(hypotheses, references)
  alone = best_statistics(videos, videos.paraphrases())
  monkeypatch.setattr(meteor_python, 'MANY_REFERENCES', 1)
  monkeypatch.setattr('os.sched_getaffinity', lambda _: {0, 1})
  with PythonMeteor(27) as process:
    for videos in (slice(None), slice(4)):  # the second process answers several requests
      _, _, table = process.score_with_statistics(hypotheses[videos], references[videos])
      np.testing.assert_array_equal(table, alone[videos])


def test_an_error_of_the_second_process_is_one_of_metrics(monkeypatch):
  monkeypatch.setattr(meteor_python, 'MANY_REFERENCES', 1)
  monkeypatch.setattr('os.sched_getaffinity', lambda _: {0, 1})
  monkeypatch.setattr('sys.executable', '/bin/false')
  with pytest.raises(metrics.MetricError, match='meteor_worker.*status 1'):
    PythonMeteor().score_with_statistics(['a', 'b'], [['a'], ['b']])
