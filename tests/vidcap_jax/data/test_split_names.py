"""Usual spellings of splits have one name; others stay."""

import pytest

from vidcap_jax.data.split_names import usual_name


@pytest.mark.parametrize(
  ('spelled', 'name'),
  [('Training', 'train'), (' validate ', 'val'), ('DEV', 'val'), ('testing', 'test')],
)
def test_usual_spellings(spelled, name):
  assert usual_name(spelled) == name


def test_other_names_keep_their_case_and_lose_space_around():
  assert usual_name(' Test-A ') == 'Test-A'
