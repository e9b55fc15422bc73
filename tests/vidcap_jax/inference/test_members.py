"""The checkpoints of an ensemble are found before any is read."""

import pathlib

import pytest

from vidcap_jax.checkpoints import restore
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.inference.members import find_members


def test_paths_and_weights(monkeypatch):
  monkeypatch.setattr(restore, 'find_checkpoint', lambda path, setting: (path, setting))
  assert find_members(['a', pathlib.Path('b')], [1, 2]) == [
    ('a', '--checkpoint'),
    ('b', '--checkpoint'),
  ]
  for paths, weights, setting, words in (
    (['a'], [1.0], '--checkpoint', '--weights needs several'),
    (['a'], [1.0], 'checkpoint', '^weights needs several'),
    (['a', 'b'], [1.0], '--checkpoint', '2 .*weights'),
    (['a', ''], None, '--checkpoint', '--checkpoint=a,: .*comma'),
    ([], None, 'checkpoint', 'checkpoint=: '),
  ):
    with pytest.raises(UserError, match=words):
      find_members(paths, weights, setting)


def test_the_setting_is_named():
  with pytest.raises(DataError, match='fallback=/nowhere'):
    find_members(['/nowhere'], setting='fallback')
