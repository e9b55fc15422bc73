"""The folders and the text of results."""

import json
import types

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.evaluation import results


def test_a_stage_that_was_the_last_one_when_it_was_trained(tmp_path):
  config = ConfigDict({'order': ('xe',), 'stages': {'xe': {}}})
  path = epath.Path(tmp_path / 'checkpoints' / 'xe' / '4')
  restored = types.SimpleNamespace(meta={'stage': 'xe'}, path=path, config=config)
  assert results.folder_of(restored) == tmp_path / 'eval'
  grown = {'order': ['xe', 'rl'], 'stages': {'xe': {}, 'rl': {}}}
  (tmp_path / 'config.json').write_text(json.dumps(grown))
  assert results.folder_of(restored) == tmp_path / 'eval' / 'xe'


def test_each_split_has_a_table_of_the_stages():
  scores = {'BLEU_4': 0.25, 'METEOR': 0.2, 'ROUGE_L': 0.5, 'CIDEr': 1.25}
  reports = {
    'temporal': {'val': scores, 'test': scores},
    'embedding': {'val': {'R@1': 0.5}, 'test': {'R@1': 0.5}},
    'fusion': {'val': {**scores, 'CIDEr': 1.5}},
  }
  assert results.stage_table(reports).splitlines() == [
    'val         BLEU_4   METEOR  ROUGE_L    CIDEr',
    'temporal    0.2500   0.2000   0.5000   1.2500',
    'fusion      0.2500   0.2000   0.5000   1.5000',
    'test        BLEU_4   METEOR  ROUGE_L    CIDEr',
    'temporal    0.2500   0.2000   0.5000   1.2500',
  ]
