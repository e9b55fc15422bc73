"""Properties of every annotation form."""

import pathlib

import pytest

from tests.vidcap_jax.annotations.written import listing, write
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


def test_a_file_given_twice_is_an_error(tmp_path):
  first = write(tmp_path / 'a.csv', 'video_id,caption\nv1,a man\nv1,a dog')
  copy = write(tmp_path / 'b.csv', 'video_id,caption\nv1,a man\nv1,a dog')
  for second in (first, copy):
    with pytest.raises(DataError, match=f'{second}.*{first}'):
      read_annotations('csv', [first, second])


def test_a_file_whose_captions_are_all_in_another_is_an_error(tmp_path):
  first = write(tmp_path / 'a.csv', 'video_id,caption\nv1,a man\nv2,a cat\nv1,a dog')
  second = write(tmp_path / 'b.csv', 'caption,video_id\na dog,v1\n')
  with pytest.raises(DataError, match=f'{second}.*1 video .*v1.*{first}'):
    read_annotations('csv', [first, second])


def test_one_id_for_two_sources_is_an_error(tmp_path):
  def coco(name, file, caption):
    images = [{'id': 1, 'file_name': file}, {'id': 2}]
    captions = [{'image_id': i, 'caption': caption} for i in (1, 2)]
    return write(tmp_path / name, {'images': images, 'annotations': captions})

  first, second = coco('a.json', 'a/1.mp4', 'a man'), coco('b.json', 'b/1.mp4', 'a dog')
  with pytest.raises(DataError, match=rf"{second}: images\[0\].*'1'.*b/1.mp4.*a/1.mp4.*{first}"):
    read_annotations('coco', [first, second])


def test_captions_of_a_video_in_two_files_are_kept_and_counted(tmp_path):
  def coco(name, file, caption):
    images = [{'id': 1, 'file_name': file}, {'id': 2}]
    captions = [{'image_id': i, 'caption': caption} for i in (1, 2)]
    captions.append({'image_id': 2, 'caption': 'a cat'})
    return write(tmp_path / name, {'images': images, 'annotations': captions})

  first, second = coco('a.json', 'videos/1.mp4', 'a man'), coco('b.json', '1.mp4', 'a dog')
  found = read_annotations('coco', [first, second])
  assert listing(found) == [
    ('1', None, ['a man', 'a dog']),
    ('2', None, ['a man', 'a cat', 'a dog', 'a cat']),
  ]
  (note,) = found.notes
  assert all(text in note for text in ('2 videos (1, 2)', first, second, '1 caption '))


def test_videos_and_captions_in_separate_files_are_not_noted(tmp_path):
  videos = write(tmp_path / 'a.json', {'videos': [{'video_id': 'v1', 'split': 'test'}]})
  captions = {'sentences': [{'video_id': 'v1', 'caption': 'a man'}]}
  found = read_annotations('msrvtt', [videos, write(tmp_path / 'b.json', captions)])
  assert listing(found) == [('v1', 'test', ['a man'])]
  assert found.notes == []
