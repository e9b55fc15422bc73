"""The spread of scores over seeds."""

import json

import pytest

from vidcap_jax.training import stage_scores


def test_mean_and_deviation_over_seeds(tmp_path, capsys):
  reports = {
    7: {'test': {'CIDEr': 0.5, 'BLEU_4': 0.25, 'videos': 3}},
    8: {'test': {'CIDEr': 0.7, 'videos': 3}},
  }
  stage_scores.summarise_seeds(reports, tmp_path)
  saved = json.loads((tmp_path / 'seeds.json').read_text())
  assert saved['seeds'] == [7, 8]
  cider = saved['scores']['test']['CIDEr']
  assert cider['mean'] == pytest.approx(0.6)
  assert cider['stdev'] == pytest.approx(0.1 * 2**0.5)
  assert cider['values'] == [0.5, 0.7]
  assert saved['scores']['test']['BLEU_4']['stdev'] == 0
  assert set(saved['scores']['test']) == {'CIDEr', 'BLEU_4'}
  assert 'test CIDEr: 0.6000' in capsys.readouterr().out
