"""METEOR on the host as a reward."""

import numpy as np
import pytest

from tests import tiny
from tests.end_to_end.test_reinforcement import rl_config
from vidcap_jax.data.vocabulary import Vocabulary, build_vocabulary
from vidcap_jax.evaluation import meteor_python
from vidcap_jax.evaluation.java import MetricError
from vidcap_jax.rewards import meteor
from vidcap_jax.training.metric_log import read_metric_log


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


def records(workdir, kind='train'):
  return [r for r in read_metric_log(workdir) if r['kind'] == kind and r['stage'] == 'rl']


# ---------------------------------------------------------------- METEOR, on the host


class FakeMeteor:
  """Scores the share of a caption's words that are in a reference."""

  asked: list = []

  def __init__(self, time_limit):
    assert time_limit > 0

  def score(self, hypotheses, references):
    self.asked.append(list(zip(hypotheses, references)))
    words = [h.split() for h in hypotheses]
    shares = [
      np.mean([w in ' '.join(r).split() for w in h] or [0]) for h, r in zip(words, references)
    ]
    return float(np.mean(shares)), shares


@pytest.mark.parametrize('baseline', ['greedy', 'others'])
def test_meteor_scores_what_the_step_learns_from(tiny_data, tmp_path, monkeypatch, baseline):
  monkeypatch.setattr(meteor, 'Meteor', FakeMeteor)
  monkeypatch.setattr(FakeMeteor, 'asked', [])
  rewards = {'cider': 0.0, 'bleu4': 1.0, 'meteor': 2.0}
  settings = {'rewards': rewards, 'baseline': baseline, 'samples': 2}
  tiny.run(rl_config(tiny_data, objective=settings), tmp_path)
  logged = records(tmp_path)
  sides = 2 if baseline == 'greedy' else 1
  assert len(FakeMeteor.asked) == sides * len(logged)
  for step, record in enumerate(logged):
    asked = FakeMeteor.asked[sides * step]  # the samples come first
    assert len(asked) % 2 == 0
    shares = FakeMeteor(1).score(*zip(*asked))[1]
    assert record['reward_meteor'] == pytest.approx(np.mean(shares), rel=1e-5)
    assert record['reward'] == pytest.approx(
      2 * record['reward_meteor'] + record['reward_bleu4'], rel=1e-4
    )
  FakeMeteor.asked.clear()


REFERENCES = [
  ['a red ball moves left', 'the ball is moving to the left', "a ball doesn't stop"],
  ['people take part in a race', 'some children are running'],
]


def some_vocabulary() -> Vocabulary:
  others = ['kids participate in races', 'a puppy runs down the street', "u.s. cars don't run ."]
  return build_vocabulary([*REFERENCES[0], *REFERENCES[1], *others], 1, 8)


def samples(vocabulary: Vocabulary, count: int) -> tuple[np.ndarray, np.ndarray]:
  """Random captions (count, 2, 8) with words after <EOS>, special tokens, and their rows."""
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, len(vocabulary), (count, 2, 8), dtype=np.int32)
  return tokens, rng.integers(-1, len(REFERENCES), count)


def test_python_has_the_values_of_java():
  vocabulary = some_vocabulary()
  tokens, rows = samples(vocabulary, 60)
  in_java, in_python = (
    meteor.make_meteor(REFERENCES, vocabulary, program) for program in ('java', 'python')
  )
  expected = in_java(tokens, rows)
  assert (expected[rows < 0] == 0).all()
  assert 0 < expected.mean() < 1
  for part in np.split(np.arange(60), 3):  # as in successive steps
    np.testing.assert_allclose(in_python(tokens[part], rows[part]), expected[part], atol=1e-6)


def test_the_table_is_read_once_but_for_words_that_are_new(monkeypatch):
  read = []
  original = meteor_python.read_entries

  def counted(*arguments, **options):
    read.append(1)
    return original(*arguments, **options)

  monkeypatch.setattr(meteor_python, 'read_entries', counted)
  program = meteor_python.ReferencesMeteor(REFERENCES, ['a', 'people', 'race', 'take'])
  known, texts = ['a race', 'people take a race'], ['people participate in a race', 'kids run']
  program.score(known, [1, 1])
  assert len(read) == 1
  found = program.score(texts, [1, 0])
  assert len(read) == 2
  _, expected, _ = meteor_python.PythonMeteor().score_with_statistics(texts, REFERENCES[::-1])
  np.testing.assert_array_equal(found, expected)
  assert found[0] > program.score(['people talk of a race'], [1])[0]  # 'participate in'


def test_python_is_used_without_java_or_where_it_is_asked_for(monkeypatch):
  monkeypatch.setattr(meteor, 'Meteor', None)
  monkeypatch.setattr(meteor, 'ReferencesMeteor', FakePython)
  tokens, rows = samples(some_vocabulary(), 3)
  assert (
    meteor.make_meteor(REFERENCES, some_vocabulary(), 'python')(tokens, rows * 0) == 0.5
  ).all()
  monkeypatch.setattr('vidcap_jax.evaluation.java.find_java', lambda: None)
  assert (meteor.make_meteor(REFERENCES, some_vocabulary())(tokens, rows * 0) == 0.5).all()
  with pytest.raises(MetricError, match='eval.meteor=java'):
    meteor.make_meteor(REFERENCES, some_vocabulary(), 'java')


class FakePython:
  def __init__(self, references, words):
    assert set(references[0][0].split()) <= set(words)

  def score(self, hypotheses, rows):
    return [0.5] * len(hypotheses)


def test_training_without_java_uses_python_and_says_so(tiny_data, tmp_path, monkeypatch, capsys):
  for module in ('evaluation.java', 'objectives.self_critical'):
    monkeypatch.setattr(f'vidcap_jax.{module}.find_java', lambda: None)
  monkeypatch.setattr(meteor, 'ReferencesMeteor', FakePython)
  tiny.run(rl_config(tiny_data, objective={'rewards': {'cider': 0.0, 'meteor': 1.0}}), tmp_path)
  assert {r['reward_meteor'] for r in records(tmp_path)} == {0.5}
  assert 'no Java' in capsys.readouterr().out


def test_a_java_that_is_asked_for_and_missing_is_an_error_before_training(
  tiny_data, tmp_path, monkeypatch
):
  monkeypatch.setattr('vidcap_jax.evaluation.java.find_java', lambda: None)
  config = rl_config(tiny_data, objective={'rewards': {'meteor': 1.0}})
  config.eval.meteor, config.eval.splits = 'java', ()
  with pytest.raises(MetricError, match='eval.meteor=java'):
    tiny.run(config, tmp_path)
  assert not records(tmp_path)
