"""Captions and references may be files or mappings; what is odd about references is logged."""

import json

import pytest

from tests import tiny
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import metrics
from vidcap_jax.evaluation.scoring import Options, score_captions

REFERENCES = {'a': ['a dog runs fast'], 'b': ['two cats sit still']}
CAPTIONS = {'a': 'a dog runs', 'b': 'a cat'}


@pytest.fixture(autouse=True)
def no_java(monkeypatch):
  monkeypatch.setattr('vidcap_jax.evaluation.scoring.require_java', lambda: None)
  with tiny.without_java():
    yield


def test_files_and_mappings_give_the_same(tmp_path):
  (tmp_path / 'h.json').write_text(json.dumps(CAPTIONS))
  rows = [{'video_id': v, 'caption': c, 'split': v} for v, (c,) in REFERENCES.items()]
  (tmp_path / 'r.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
  options, notes = Options(metrics=('ROUGE_L', 'CIDEr')), []
  found = score_captions(CAPTIONS, REFERENCES, options, notes.append)
  assert list(found.corpus) == ['ROUGE_L', 'CIDEr']
  assert found.corpus == metrics.score(CAPTIONS, REFERENCES, options.metrics)[0]
  assert found == score_captions(tmp_path / 'h.json', tmp_path / 'r.jsonl', options, notes.append)
  assert notes == []
  of_split = Options(metrics=('CIDEr',), split='a')
  with pytest.raises(DataError, match='--split=a: 1 of 2 .*b: b'):
    score_captions(CAPTIONS, tmp_path / 'r.jsonl', of_split, notes.append)
  score_captions({'a': 'a dog'}, tmp_path / 'r.jsonl', of_split, notes.append)
  assert len(notes) == 1
  assert 'CIDEr' in notes[0]


@pytest.mark.parametrize(
  ('captions', 'references', 'options', 'error', 'words'),
  [
    (CAPTIONS, REFERENCES, Options(metrics=('CIDER',)), ConfigError, 'CIDER.*CIDEr'),
    ({'a': 'x'}, REFERENCES, Options(), DataError, 'no hypothesis.*b'),
    ({'a': 3, 'b': 'x'}, REFERENCES, Options(), DataError, 'a'),
    (CAPTIONS, {'a': ['a dog', 3], 'b': ['x']}, Options(), DataError, 'list of strings.*a'),
  ],
)
def test_what_is_wrong_is_found_first(captions, references, options, error, words, monkeypatch):
  monkeypatch.setattr('vidcap_jax.evaluation.scoring.meteor', None)  # nothing is started
  with pytest.raises(error, match=words):
    score_captions(captions, references, options, print)
