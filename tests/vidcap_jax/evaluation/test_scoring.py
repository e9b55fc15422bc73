"""Captions and references may be files or mappings; what is odd about references is logged."""

import dataclasses
import json

import numpy as np
import pytest

from tests import tiny
from vidcap_jax import __version__
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import ConfigError, DataError, UserError
from vidcap_jax.evaluation import metrics, signature
from vidcap_jax.evaluation.programs import Programs
from vidcap_jax.evaluation.scoring import Options, compare_captions, score_captions

REFERENCES = {'a': ['a dog runs fast'], 'b': ['two cats sit still']}
CAPTIONS = {'a': 'a dog runs', 'b': 'a cat'}


@pytest.fixture(autouse=True)
def no_java():
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
  scored = score_captions({'a': 'a dog'}, tmp_path / 'r.jsonl', of_split, notes.append)
  assert (scored.signature.split, scored.signature.videos) == ('a', '1')
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
  monkeypatch.setattr('vidcap_jax.evaluation.scoring.start_meteor', None)  # nothing is started
  with pytest.raises(error, match=words):
    score_captions(captions, references, options, print)


@pytest.mark.parametrize(
  ('options', 'words'),
  [
    ({'programs': Programs(embedding_model='/model')}, '--embedding_model=/model.*BERTScore'),
    ({'clip_model': '/model'}, '--clip_model=/model.*RefCLIPScore'),
    ({'videos': '/clips', 'metrics': ('CIDEr', 'BERTScore')}, '--videos=/clips.*RefCLIPScore'),
  ],
)
def test_folders_that_no_metric_reads_are_refused(options, words):
  with pytest.raises(UserError, match=words):
    score_captions(CAPTIONS, REFERENCES, Options(**options), print)


def test_a_wanted_signature_is_checked_before_scoring(monkeypatch, tmp_path):
  options = Options(metrics=('CIDEr',))
  found = score_captions(CAPTIONS, REFERENCES, options, print).signature
  notes = []
  for wanted in (str(found), 'nrefs:1|beam:5', f'v:{__version__}'):
    same = dataclasses.replace(options, signature=wanted)
    assert score_captions(CAPTIONS, REFERENCES, same, notes.append).signature == found
  assert len(notes) == 1
  assert 'beam' in notes[0]
  monkeypatch.setattr('vidcap_jax.evaluation.scoring.score_details', None)  # nothing is scored
  monkeypatch.setattr('vidcap_jax.evaluation.scoring.prepare_references', None)
  (tmp_path / 'metrics.json').write_text('{"signature": "nrefs:20|videos:2|tok:other-1"}')
  for wanted in ('nrefs:20|videos:2|tok:other-1', str(tmp_path / 'metrics.json')):
    other = dataclasses.replace(options, signature=wanted)
    with pytest.raises(DataError, match='nrefs: 20.* 1 .*tok: other-1.*ptb-3.4.1') as caught:
      score_captions(CAPTIONS, REFERENCES, other, print)
    assert 'videos' not in str(caught.value)


@pytest.mark.parametrize(
  ('text', 'error', 'words'),
  [
    ('', UserError, '--signature'),
    ('old.json', DataError, r'old\.json.*no signature'),
    ('gone.json', UserError, r'gone\.json'),
    ('nref:5', ConfigError, 'nref.*nrefs'),
  ],
)
def test_a_signature_that_cannot_be_read(text, error, words, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'old.json').write_text('{"CIDEr": 0.5}')
  options = Options(signature=text)
  with pytest.raises(error, match=words):
    score_captions('gone_too.json', 'gone.json', options, print)


def test_references_of_a_data_set_have_its_hash(tiny_data):
  options = Options(metrics=('CIDEr',), split='val')
  references = {v.video_id: list(v.captions) for v in open_split(tiny_data, 'val')}
  captions = dict.fromkeys(references, 'a dog')
  found = score_captions(captions, tiny_data, options, print).signature
  assert found.data == read_manifest(tiny_data).hash[:12]
  by_mapping = score_captions(captions, references, options, print).signature
  assert by_mapping.data == ''
  assert by_mapping.refs == found.refs
  assert signature.differences(found, by_mapping) == []


def test_every_score_has_an_interval():
  options = Options(metrics=('BLEU', 'CIDEr'))
  found = score_captions(CAPTIONS, REFERENCES, options, print)
  assert list(found.intervals) == list(found.corpus)
  low, high = found.intervals['CIDEr']
  assert low <= found.corpus['CIDEr'] <= high
  single = score_captions({'a': 'a dog'}, {'a': 'a dog'}, options, lambda _: None)
  assert single.intervals == {}


@pytest.fixture
def systems(tmp_path):
  files = {'a.json': CAPTIONS, 'b.json': {**CAPTIONS, 'b': 'two cats sit'}, 'c.json': {'a': 'a'}}
  for name, captions in files.items():
    (tmp_path / name).write_text(json.dumps(captions))
  return [tmp_path / name for name in files]


def test_two_systems_have_the_scores_of_each(systems):
  options = Options(metrics=('BLEU', 'CIDEr'))
  found = compare_captions((systems[0], systems[1]), REFERENCES, options, print)
  for name, difference in found.differences.items():
    each = [score_captions(path, REFERENCES, options, print).corpus[name] for path in systems[:2]]
    assert [difference.first, difference.second] == pytest.approx(each)
  assert found.names == (str(systems[0]), str(systems[1]))
  assert found.signature == score_captions(CAPTIONS, REFERENCES, options, print).signature


def test_systems_with_other_videos_are_refused_before_references_are_read(systems):
  with pytest.raises(DataError, match=r'c\.json lacks 1 .*\(b\)'):
    compare_captions((systems[0], systems[2]), '/nowhere.json', Options(), print)
  with pytest.raises(UserError, match='--compare'):
    compare_captions((systems[0], ''), REFERENCES, Options(), print)


def test_the_encoder_of_embeddings_is_in_the_signature(monkeypatch):
  class Encoder:
    name, weights_hash = 'wheel-1.2', '0123456789abcdef'

    def __call__(self, sentences):
      return np.eye(len(sentences), dtype=np.float32)

    def token_embeddings(self, sentences):
      return [np.eye(1, 4, i % 4, dtype=np.float32) for i in range(len(sentences))]

  monkeypatch.setattr('vidcap_jax.evaluation.embedding_score.load_encoder', lambda path: Encoder())
  for name, scores in {
    'RefEmbedding': ['RefEmbedding'],
    'BERTScore': ['BERTScore_P', 'BERTScore_R', 'BERTScore_F1'],
  }.items():
    found = score_captions(CAPTIONS, REFERENCES, Options(metrics=('CIDEr', name)), print)
    assert (found.signature.encoder, found.signature.emb) == ('wheel-1.2', '0123456789ab')
    assert list(found.intervals) == ['CIDEr', *scores]
  plain = score_captions(CAPTIONS, REFERENCES, Options(metrics=('CIDEr',)), print)
  assert (plain.signature.encoder, plain.signature.emb) == ('', '')
