"""Captions of several runs: where they are found, their names, and their references."""

import json

import pytest

from vidcap_jax.errors import DataError, UserError
from vidcap_jax.studies import run_captions

CAPTIONS = {'v1': 'a dog runs', 'v2': 'a ball rolls'}


def evaluated(workdir, split='test', captions=CAPTIONS, data=None):
  """A workdir with the files that an evaluation writes."""
  folder = workdir / 'eval' / split
  folder.mkdir(parents=True)
  rows = [{'video_id': video_id, 'caption': text} for video_id, text in captions.items()]
  (folder / 'captions.json').write_text(json.dumps(rows))
  if data:
    (folder / 'metrics.json').write_text(json.dumps({'data': {'dir': str(data)}}))
  return workdir


def test_workdirs_folders_of_evaluations_and_files(tmp_path):
  workdir = evaluated(tmp_path / 'soft')
  file = tmp_path / 'other.json'
  file.write_text(json.dumps(CAPTIONS))
  folder = workdir / 'eval' / 'test'
  names = [str(workdir), f'folder={folder}', f'G2L = 1={file}', f'{file}']
  runs = run_captions.read(names[:2] + names[3:], 'test')
  assert [run.label for run in runs] == ['soft', 'folder', 'other']
  assert all(run.captions == CAPTIONS for run in runs)
  assert [run.path for run in runs] == [folder / 'captions.json'] * 2 + [file]


@pytest.mark.parametrize(
  ('names', 'error', 'message'),
  [
    (['{0}/a', '{0}/sub/a'], UserError, "--runs=.*'a'.*LABEL=PATH"),
    (['{0}/nothing'], UserError, '--runs=.*nothing/eval/test/captions.json.*--split=test'),
    (['{0}/a', '{0}/fewer'], DataError, 'fewer/eval/test/captions.json lacks .* 1 .*v2'),
  ],
)
def test_captions_that_cannot_be_compared(names, error, message, tmp_path):
  for place in ('a', 'sub/a'):
    evaluated(tmp_path / place)
  evaluated(tmp_path / 'fewer', captions={'v1': 'a cat'})
  with pytest.raises(error, match=message):
    run_captions.read([name.format(tmp_path) for name in names], 'test')


def test_references_are_those_of_the_data_set_evaluated_on(tmp_path, tiny_data):
  ids = {'v7': 'a', 'v8': 'b', 'v9': 'c'}
  runs = run_captions.read([str(evaluated(tmp_path / 'a', 'val', ids, tiny_data))], 'val')
  references = run_captions.references_of(runs, None, 'val')
  assert {video_id: len(texts) for video_id, texts in references.items()} == {
    'v7': 4,
    'v8': 1,
    'v9': 2,
  }


def test_references_in_a_file(tmp_path):
  runs = run_captions.read([str(evaluated(tmp_path / 'a'))], 'test')
  path = tmp_path / 'references.json'
  path.write_text(json.dumps({'v1': ['x', 'y'], 'v2': ['z'], 'v3': ['w']}))
  references = run_captions.references_of(runs, str(path), 'test')
  assert references == {'v1': ['x', 'y'], 'v2': ['z']}
  with pytest.raises(DataError, match='captions.json: .*metrics.json.*--references'):
    run_captions.references_of(runs, None, 'test')
  path.write_text(json.dumps({'v1': ['x', 'y']}))
  with pytest.raises(DataError, match='references.json .* 1 of the 2 .*v2'):
    run_captions.references_of(runs, str(path), 'test')
  rows = [{'video_id': i, 'caption': i, 'split': s} for i, s in (('v1', 'test'), ('v2', 'val'))]
  path = tmp_path / 'rows.jsonl'
  path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  with pytest.raises(DataError, match='rows.jsonl .* 1 of the 2 .*v2'):
    run_captions.references_of(runs, str(path), 'test')


def test_a_data_set_that_was_moved(tmp_path):
  runs = run_captions.read([str(evaluated(tmp_path / 'a', data=tmp_path / 'gone'))], 'test')
  with pytest.raises(DataError, match='gone.*--references'):
    run_captions.references_of(runs, None, 'test')
