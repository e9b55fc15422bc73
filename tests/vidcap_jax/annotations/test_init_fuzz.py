"""Readers on arbitrary files: these are read or refused, and no caption is lost."""

import csv
import io
import json
import pathlib
import pickle
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidcap_jax.annotations import FORMATS, read_annotations
from vidcap_jax.annotations.splits import read_id_map, read_splits
from vidcap_jax.annotations.text import clean
from vidcap_jax.errors import DataError

# Fuzzed as the one file that cocotalk is not; its faults are in test_caption_forms.py.
READERS = [(f, code) for f, readers in FORMATS.items() for code in readers if f != 'cocotalk']
NAMES = {'msvd': 'sents_train.txt'}  # Of the form's files, where it matters.

KEYS = (
  *('videos', 'sentences', 'video_id', 'id', 'caption', 'captions', 'split', 'category', 'source'),
  *('images', 'annotations', 'image_id', 'videoID', 'enCap', 'chCap', 'timestamps', 'v_a', 'url'),
)
SCALARS = st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats() | st.text(max_size=5)
JSON = st.recursive(
  SCALARS | st.sampled_from(['train', 'val_1', 'a_000001_000002']),
  lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
  ),
  max_leaves=15,
)
LINES = st.lists(
  st.text(max_size=60)
  | st.sampled_from(
    [
      *('{', '[' * 5000, '\t', ',', '"', '"a', '\r', '\0', 'vid1\ta', 'a\t1\t2\t3\t4\tb', 'a,b'),
      *('id,caption', 'videoid,name', 'VideoID,Start,End,Language,Description', 'a,1,2,English,b'),
    ]
  ),
  max_size=5,
).map('\n'.join)


def read_bytes(form, language, content: bytes):
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, NAMES.get(form, 'train.csv'))
    file.write_bytes(content)
    try:
      return read_annotations(form, [str(file)], language)
    except DataError as error:
      assert str(file) in str(error)  # noqa: PT017 - other types of errors get out
      return None


@pytest.mark.parametrize(('form', 'language'), READERS)
@settings(max_examples=50, deadline=None)
@given(content=st.binary() | LINES.map(str.encode) | JSON.map(lambda x: json.dumps(x).encode()))
def test_any_contents_are_read_or_refused(form, language, content):
  found = read_bytes(form, language, content)
  for video_id, video in found.videos.items() if found else ():
    assert video_id == video.video_id == video_id.strip() != ''
    (video_id + ''.join(video.captions)).encode()  # no halves of surrogate pairs
    assert all(caption == clean(caption) or '&' in caption for caption in video.captions)


# Captions that a form can hold: JSON and quoted CSV hold any text, lines neither tabs nor breaks.
ANY = st.text(max_size=12) | st.sampled_from(['\ufeffa\r\nb', '&lt;', '\u2028', 'a\x07', '"'])
ONE_LINE = ANY.map(lambda text: text.translate(dict.fromkeys(map(ord, '\t\n\r'), ' ')))
IDS = st.sampled_from(['vid1', 'vid2', '-a_b'])


def table(header, rows) -> str:
  text = io.StringIO()
  csv.writer(text).writerows([header, *rows])
  return text.getvalue()


def activitynet(pairs) -> str:
  segments = {
    f'v_{n}': {'timestamps': [[0, 1]], 'sentences': [c]} for n, (_, c) in enumerate(pairs)
  }
  return json.dumps(segments)


def by_id(pairs) -> dict[str, list[str]]:
  captions: dict[str, list[str]] = {}
  for video_id, caption in pairs:
    captions.setdefault(video_id, []).append(caption)
  return captions


def vatex(key):
  return lambda pairs: json.dumps([{'videoID': v, key: c} for v, c in by_id(pairs).items()])


WRITERS = {
  ('msrvtt', 'en'): lambda pairs: json.dumps(
    {
      'videos': [{'video_id': v, 'split': 'test'} for v, _ in pairs],
      'sentences': [{'video_id': v, 'caption': c} for v, c in pairs],
    }
  ),
  ('msvd', 'en'): lambda pairs: ''.join(f'{v}\t{c}\n' for v, c in pairs),
  ('msvd_corpus', 'en'): lambda pairs: table(
    ['VideoID', 'Start', 'End', 'Language', 'Description'],
    [[v, 1, 2, 'English', c] for v, c in pairs],
  ),
  ('vatex', 'en'): vatex('enCap'),
  ('vatex', 'zh'): vatex('chCap'),
  ('lsmdc', 'en'): lambda pairs: ''.join(f'{v}\t1\t2\t3\t4\t{c}\n' for v, c in pairs),
  ('activitynet', 'en'): activitynet,
  ('webvid', 'en'): lambda pairs: table(['videoid', 'name'], pairs),
  ('coco', None): lambda pairs: json.dumps(
    {
      'images': [{'id': v} for v, _ in pairs],
      'annotations': [{'image_id': v, 'caption': c} for v, c in pairs],
    }
  ),
  ('karpathy', None): lambda pairs: json.dumps(
    {'images': [{'cocoid': v, 'sentences': [{'raw': c}]} for v, c in pairs]}
  ),
  ('flickr', 'en'): lambda pairs: ''.join(f'{v}#{i}\t{c}\n' for i, (v, c) in enumerate(pairs)),
  ('json', None): lambda pairs: json.dumps(by_id(pairs)),
  ('pickle', None): lambda pairs: pickle.dumps(by_id(pairs)),
  ('jsonl', None): lambda pairs: ''.join(
    json.dumps({'id': v, 'caption': c}) + '\n' for v, c in pairs
  ),
  ('csv', None): lambda pairs: table(['id', 'caption'], pairs),
}


def written(form, language, pairs) -> bytes:
  content = WRITERS[form, language](pairs)
  return content if isinstance(content, bytes) else content.encode()


@pytest.mark.parametrize(('form', 'language'), READERS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_every_caption_is_kept_or_counted(form, language, data):
  text = ONE_LINE if form in ('msvd', 'lsmdc', 'flickr') else ANY
  pairs = data.draw(st.lists(st.tuples(IDS, text), min_size=1, max_size=5))
  if form == 'vatex' and not any(clean(caption) for _, caption in pairs):
    return  # captions in neither language: refused
  found = read_bytes(form, language, written(form, language, pairs))
  captions = [caption for video in found.videos.values() for caption in video.captions]
  if form == 'activitynet':
    expected = [clean(caption) for _, caption in pairs]
  else:
    expected = [clean(caption) for captions in by_id(pairs).values() for caption in captions]
  assert captions == [caption for caption in expected if caption]
  assert sum(map(len, found.left_out.values())) == expected.count('')


@pytest.mark.parametrize(('form', 'language'), READERS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(form, language, data):
  whole = written(form, language, [('vid1', 'a dog'), ('vid2', 'a "cat"'), ('vid1', 'it')])
  start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
  read_bytes(form, language, whole[:start] + data.draw(st.binary(max_size=4)) + whole[stop:])


@pytest.mark.parametrize('name', ['splits.json', 'train.txt', 'val.csv'])
@settings(max_examples=50, deadline=None)
@given(content=st.binary() | LINES.map(str.encode) | JSON.map(lambda x: json.dumps(x).encode()))
def test_split_files_and_id_maps_are_read_or_refused(name, content):
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, name)
    file.write_bytes(content)
    for read in (lambda: read_splits([file]), lambda: read_id_map(file)):
      try:
        read()
      except DataError as error:
        assert str(file) in str(error)  # noqa: PT017 - other types of errors get out
