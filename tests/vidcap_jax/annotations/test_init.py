"""Properties of every annotation form."""

import pathlib

import pytest

from vidcap_jax.annotations import FORMATS, read_annotations
from vidcap_jax.errors import DataError


def test_every_form_is_documented():
  page = (pathlib.Path(__file__).parents[3] / 'docs' / 'data.md').read_text()
  for form in FORMATS:
    assert f'\n| `{form}` | ' in page
    assert f'`--format={form} ' in page


def test_a_misspelled_caption_key_is_named(tmp_path):
  path = tmp_path / 'captions.jsonl'
  path.write_text('{"video_id": "a", "captoin": "a man"}\n{"video_id": "b"}\n')
  with pytest.raises(
    DataError, match="captions.jsonl.*no caption, but 'captoin'; give captions as"
  ):
    read_annotations('jsonl', [path])


def test_missing_file_and_unknown_format(tmp_path):
  with pytest.raises(DataError, match='no such annotation file'):
    read_annotations('csv', [str(tmp_path / 'none.csv')])
  with pytest.raises(DataError, match="'spice'; known: msrvtt, msvd, msvd_corpus, vatex, lsmdc"):
    read_annotations('spice', [str(tmp_path)])


@pytest.mark.parametrize('form', FORMATS)
def test_a_folder_where_a_file_belongs(tmp_path, form):
  for language in FORMATS[form]:
    with pytest.raises(DataError, match=str(tmp_path)):
      read_annotations(form, [str(tmp_path)], language)
