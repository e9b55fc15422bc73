import json

import pytest

from tests.vidcap_jax.reporting import results
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.reporting import evaluations


def test_a_workdir_a_folder_of_results_and_the_split(evaluated_run):
  found = evaluations.find(str(evaluated_run), None)
  assert (found.split, found.label, found.workdir) == ('val', 'run', evaluated_run)
  assert evaluations.find(str(evaluated_run / 'eval' / 'val'), 'val').captions == found.captions
  assert evaluations.find(str(evaluated_run), 'test').split == 'test'
  assert found.checkpoints[0].is_dir()


def test_what_is_not_there(evaluated_run, tmp_path):
  with pytest.raises(UserError, match='--run.*other.*test, val'):
    evaluations.find(str(evaluated_run), 'other')
  with pytest.raises(UserError, match='--run.*evaluate.*--split=val'):
    evaluations.find(str(tmp_path), None)
  (tmp_path / 'seed_0').mkdir()
  with pytest.raises(UserError, match='seed_0'):
    evaluations.find(str(tmp_path), None)
  with pytest.raises(UserError, match='not several.*--compare=runs/b$'):
    evaluations.find('runs/a,runs/b', None)
  with pytest.raises(UserError, match='--compare'):
    evaluations.find(str(tmp_path / 'no'), None, '--compare')


def test_a_model_without_captions(tmp_path):
  folder = results.write(tmp_path / 'results')
  (folder / 'captions.json').unlink()
  with pytest.raises(UserError, match='captions.json'):
    evaluations.find(str(folder), None)


def test_the_checkpoint_of_a_run_that_was_moved(tmp_path):
  workdir = tmp_path / 'moved'
  results.write(workdir / 'eval' / 'val')
  (workdir / 'config.json').write_text('{}')
  found = evaluations.find(str(workdir), None)
  assert found.checkpoints == [workdir / 'checkpoints' / 'xe' / '7']


def test_the_data_set_must_be_the_one_that_was_evaluated(evaluated_run, tiny_data, tmp_path):
  found = evaluations.find(str(evaluated_run), 'val')
  data = evaluations.data_of(found, None, pytest.fail)
  assert {*found.hypotheses} == {*data.videos}
  contents = json.loads((found.folder / 'metrics.json').read_text())
  contents['data']['hash'] = 'another'
  other = evaluations.Evaluation('x', found.folder, None, contents, found.captions)
  notes = []
  assert evaluations.data_of(other, None, notes.append) is None
  assert 'another' in notes[0]
  with pytest.raises(DataError, match='--data.*another'):
    evaluations.data_of(other, tiny_data, notes.append)


@pytest.mark.parametrize(
  ('name', 'contents', 'words'),
  [
    ('metrics.json', [], 'metrics.json'),
    ('metrics.json', {'split': 'val', 'data': {}}, 'metrics.json.*checkpoint.*stage'),
    ('captions.json', {'v1': 'a dog'}, 'captions.json.*video_id'),
    ('captions.json', [{'image_id': 'v1', 'caption': 'a dog'}], 'captions.json.*0.*video_id'),
    ('captions.json', [{'video_id': 'v1', 'caption': None}], 'captions.json.*0.*caption'),
    ('captions.json', [{'video_id': 'v1', 'caption': 'a dog'}] * 2, 'captions.json.*v1'),
    ('captions.json', [], 'captions.json'),
  ],
)
def test_files_of_another_program_and_empty_ones(tmp_path, name, contents, words):
  folder = results.write(tmp_path / 'results')
  (folder / name).write_text(json.dumps(contents))
  for flag in ('--run', '--compare'):
    with pytest.raises(DataError, match=f'{flag}.*{words}'):
      evaluations.find(str(folder), None, flag)


def test_a_file_that_is_cut_short(tmp_path):
  folder = results.write(tmp_path / 'results')
  text = (folder / 'captions.json').read_text()
  (folder / 'captions.json').write_text(text[: len(text) // 2])
  with pytest.raises(DataError, match='captions.json'):
    evaluations.find(str(folder), None)
