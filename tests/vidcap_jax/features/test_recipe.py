"""A generated folder is gone on with by the same call and refused to another."""

import json

import pytest

from vidcap_jax.errors import DataError
from vidcap_jax.features.recipe import RECIPE, check_recipe


def test_the_same_options_go_on_and_others_are_named(tmp_path):
  folder = tmp_path / 'above' / 'made'
  check_recipe(folder, {'videos': 4, 'seed': 1}, 'maker')
  assert json.loads((folder / RECIPE).read_text()) == {'videos': 4, 'seed': 1}
  (folder / 'v0.mp4').touch()
  check_recipe(folder, {'videos': 4, 'seed': 1}, 'maker')
  with pytest.raises(DataError, match=r'\(seed: 1 there, 2 asked for\)'):
    check_recipe(folder, {'videos': 4, 'seed': 2}, 'maker')


def test_a_foreign_folder_is_left_alone(tmp_path):
  (tmp_path / 'mine.txt').touch()
  with pytest.raises(DataError, match='not empty and not made by maker'):
    check_recipe(tmp_path, {'videos': 4}, 'maker')
  assert [p.name for p in tmp_path.iterdir()] == ['mine.txt']
