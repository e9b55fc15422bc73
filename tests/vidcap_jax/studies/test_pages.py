"""The folder of a study: names of its files, and what is in it before."""

import json

import pytest

from vidcap_jax.errors import UserError
from vidcap_jax.studies import pages


def test_file_names_for_any_ids():
  names = pages.file_names(['../a', 'ü/"', 'x' * 300])
  assert len({*names}) == 3
  assert all(len(name) < 70 and '/' not in name and '.' not in name for name in names)


def save(folder, name, *entries):
  (folder / f'{name}.json').write_text(json.dumps({'videos': entries}))
  (folder / 'index.html').write_text('')


@pytest.mark.parametrize('other', ['examples.json', 'key_frames.json', 'key.json', 'index.html'])
def test_results_of_another_study_are_kept(tmp_path, other):
  (tmp_path / other).write_text('{}')
  with pytest.raises(UserError, match=f'--output={tmp_path}: .*{other}'):
    pages.check_folder(str(tmp_path), 'attention')


@pytest.mark.parametrize('text', ['{"videos":', '[]', '{}', '{"videos": [{"picture": 1}]}'])
def test_a_damaged_report_is_refused(tmp_path, text):
  (tmp_path / 'attention.json').write_text(text)
  with pytest.raises(UserError, match='--output.*attention.json'):
    pages.check_folder(str(tmp_path), 'attention')


def test_only_files_that_an_earlier_run_lists_are_removed(tmp_path):
  folder = tmp_path / 'out'
  folder.mkdir()
  listed = {'picture': '0_v7.png', 'weights': '0_v7.npz'}
  save(folder, 'attention', listed, {'picture': '../mine.png', 'weights': 'notes.txt'})
  kept = [folder / 'mine_too.png', folder / 'notes.txt', tmp_path / 'mine.png']
  for path in [*kept, *(folder / name for name in listed.values())]:
    path.write_text('')
  pages.check_folder(str(folder), 'attention')
  assert (folder / '0_v7.png').exists()  # the work has not started
  pages.prepare(folder, 'attention')
  assert all(path.exists() for path in kept)
  assert not any((folder / name).exists() for name in listed.values())
