"""Errors with long lists show a few items and write all to a file."""

import pickle
import re

from vidcap_jax.errors import DataError, error_text, first_few


def test_a_short_list_needs_no_file():
  assert first_few(['a', 'b', 'c']) == 'a, b, c'
  assert error_text(DataError('wrong: a', ['a'])) == 'wrong: a'
  assert error_text(OSError('no disk')) == 'no disk'


def test_a_long_list_is_in_a_file(tmp_path, monkeypatch):
  monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
  ids = [f'v{i}' for i in range(900)]
  text = error_text(DataError(f'wrong: {first_few(ids)}', ids))
  assert text.startswith('wrong: v0, v1, v2, and 897 more')
  (file,) = tmp_path.iterdir()
  assert re.search(rf'900 .*{file}', text)
  assert file.read_text().split() == ids


def test_a_list_survives_between_processes():
  copy = pickle.loads(pickle.dumps(DataError('wrong', ['a', 'b'])))
  assert (str(copy), copy.items) == ('wrong', ('a', 'b'))


def test_a_full_disk_does_not_hide_the_error(monkeypatch):
  monkeypatch.setattr('tempfile.tempdir', '/nowhere')
  assert error_text(DataError('wrong', 'abcd')) == 'wrong'
