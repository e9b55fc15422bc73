"""Comparing metrics on published captions with their goals."""

import json

import pytest

from benchmarks import golden_msvd
from vidcap_jax.evaluation import metrics


@pytest.fixture
def arguments(tmp_path):
  (tmp_path / 'captions.txt').write_text('a man sings\na dog runs\n')
  (tmp_path / 'references.txt').write_text('vid1\ta man\nvid1\ta singer\nvid2\ta dog\n')
  return [
    f'--predictions={tmp_path}/captions.txt',
    f'--references={tmp_path}/references.txt',
    f'--json={tmp_path}/rows.json',
  ]


def test_captions_are_scored_in_the_order_of_the_references(arguments, tmp_path, monkeypatch):
  calls = []

  def score(hypotheses, references):
    calls.append((hypotheses, references))
    return golden_msvd.GOALS, {}

  monkeypatch.setattr(metrics, 'score', score)
  golden_msvd.main(arguments)
  captions = {'vid1': 'a man sings', 'vid2': 'a dog runs'}
  assert calls == [(captions, {'vid1': ['a man', 'a singer'], 'vid2': ['a dog']})]
  assert all(row['met'] for row in json.loads((tmp_path / 'rows.json').read_text()))


def test_a_different_score_is_an_error(arguments, monkeypatch, capsys):
  scores = {**golden_msvd.GOALS, 'METEOR': 0.3353}
  monkeypatch.setattr(metrics, 'score', lambda *_: (scores, {}))
  with pytest.raises(SystemExit, match='differ'):
    golden_msvd.main(arguments)
  (missed,) = [line for line in capsys.readouterr().out.splitlines() if 'MISSED' in line]
  assert missed.startswith('METEOR')


def test_a_wrong_number_of_captions(arguments, tmp_path):
  (tmp_path / 'captions.txt').write_text('a man sings\n')
  with pytest.raises(SystemExit, match='captions.txt has 1 .*references.txt .* 2'):
    golden_msvd.main(arguments)
