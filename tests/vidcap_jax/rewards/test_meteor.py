"""METEOR on the host as a reward."""

import numpy as np
import pytest

from tests import tiny
from tests.end_to_end.test_reinforcement import rl_config
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


def test_without_java_it_says_so_before_training(tiny_data, tmp_path, monkeypatch):
  def missing(*_):
    raise MetricError('Java is needed')

  monkeypatch.setattr(meteor, 'Meteor', missing)
  with pytest.raises(MetricError, match='Java is needed'):
    tiny.run(rl_config(tiny_data, objective={'rewards': {'meteor': 1.0}}), tmp_path)
  assert not records(tmp_path)
