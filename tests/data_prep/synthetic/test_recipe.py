"""A generated folder resumes with the options it was made with, and refuses others."""

import json

import pytest

from data_prep.synthetic.recipe import RECIPE, check_recipe
from vidcap_jax.errors import DataError


def test_same_options_resume_and_changed_options_are_named(tmp_path):
  folder = tmp_path / 'above' / 'made'
  check_recipe(folder, {'videos': 4, 'seed': 1}, 'maker')
  assert json.loads((folder / RECIPE).read_text()) == {'videos': 4, 'seed': 1}
  (folder / 'v0.mp4').touch()
  check_recipe(folder, {'videos': 4, 'seed': 1}, 'maker')
  with pytest.raises(DataError, match='seed: 1.*2'):
    check_recipe(folder, {'videos': 4, 'seed': 2}, 'maker')


def test_folder_of_other_files_is_refused(tmp_path):
  (tmp_path / 'mine.txt').touch()
  with pytest.raises(DataError, match=f'{tmp_path}.*maker'):
    check_recipe(tmp_path, {'videos': 4}, 'maker')
  assert [p.name for p in tmp_path.iterdir()] == ['mine.txt']
