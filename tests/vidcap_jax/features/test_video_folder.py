"""Which videos a folder or a list holds: video files, frames of videos, single pictures."""

import collections
import os
import sys
from fractions import Fraction

import pytest

from vidcap_jax.errors import DataError
from vidcap_jax.features.picture_files import FrameFiles
from vidcap_jax.features.video_folder import (
  PictureRules,
  describe,
  find_videos,
  parse_frame_rate,
)

FLICKR = ('1000268201_693b08cb0e.jpg', '1001773457_577c3a7d70.jpg')
PREDICT = PictureRules(top_may_be_frames=True)


@pytest.fixture
def put(tmp_path):
  def create(*names: str):
    for name in names:
      (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
      (tmp_path / name).touch()
    return tmp_path

  return create


def names_of(videos) -> dict:
  """Video id -> the name of its file, or the names of its frames."""
  return {
    video_id: [file.name for file in source.files]
    if isinstance(source, FrameFiles)
    else source.name
    for video_id, source in videos.items()
  }


def test_folders_of_frames_and_pictures_and_videos(put):
  top = put(
    *('clips/b.mp4', 'one.jpg', 'two.PNG', 'x/v1/frame10.jpg', 'x/v1/frame2.jpg'),
    *('x/v1/frame1.jpg', 'x/v1/._frame1.jpg', 'x/v1/notes.txt', 'v2/7.webp'),
  )
  videos = find_videos(top, PictureRules(frame_rate=Fraction(25)))
  assert names_of(videos) == {
    'b': 'b.mp4',
    'one': 'one.jpg',
    'two': 'two.PNG',
    'v2': ['7.webp'],
    'v1': ['frame1.jpg', 'frame2.jpg', 'frame10.jpg'],
  }
  assert videos['v1'].rate == 25
  assert describe(videos) == ('1 video file, 2 videos from 4 pictures as frames, 2 single pictures')
  assert describe({'b': videos['b']}) == ''


def test_pictures_of_the_given_folder(put):
  numbered = put('1.jpg', '2.jpg', '3.jpg')
  single = {'1': '1.jpg', '2': '2.jpg', '3': '3.jpg'}
  assert names_of(find_videos(numbered)) == single
  assert '--pictures=frames' in describe(find_videos(numbered))
  assert names_of(find_videos(numbered, PREDICT)) == {numbered.name: list(single.values())}
  assert names_of(find_videos(numbered, PictureRules('single', top_may_be_frames=True))) == single
  assert names_of(find_videos(numbered, PictureRules('frames'))) == {
    numbered.name: list(single.values())
  }


def test_names_that_do_not_count_up_are_single_pictures_or_open(put):
  images = put(*(f'Images/{name}' for name in FLICKR)) / 'Images'
  assert list(find_videos(images)) == list(find_videos(images, PREDICT))
  assert len(find_videos(images)) == 2
  with pytest.raises(DataError, match=r'Images: .*--pictures=frames .*--pictures=single'):
    find_videos(images.parent)
  assert len(find_videos(images.parent, PictureRules('single'))) == 2
  assert list(find_videos(images.parent, PictureRules('frames'))) == ['Images']


def test_many_numbers_with_gaps_are_not_frames(put):
  coco = put(*(f'val2017/{i * i * 7:012}.jpg' for i in range(150))) / 'val2017'
  for path, rules in ((coco.parent, PictureRules()), (coco, PREDICT)):
    with pytest.raises(DataError, match='val2017: its 150 pictures'):
      find_videos(path, rules)
  put(*(f'v/frame_{i * 5}.jpg' for i in range(150)))
  assert list(find_videos(coco.parent / 'v', PREDICT)) == ['v']


@pytest.mark.parametrize(
  'files', [('a/v.mp4', 'a/1.jpg'), ('a/v.mp4', 'a/v.jpg'), ('v.mp4', 'v.jpg'), ('1.jpg', '2.avi')]
)
def test_folders_of_videos_and_pictures(put, files):
  top = put(*files)
  for rules in (PictureRules(), PREDICT):
    with pytest.raises(DataError, match=r'videos .* pictures .*--pictures=ignore'):
      find_videos(top, rules)
  ignoring = find_videos(top, PictureRules('ignore'))
  assert all(name.endswith(('mp4', 'avi')) for name in names_of(ignoring).values())
  assert len(ignoring) == 1


@pytest.mark.parametrize('inside', ['v1/masks/1.png', 'v1/more/clip.mp4'])
def test_frames_with_more_below_them(put, inside):
  with pytest.raises(DataError, match='v1: .*below'):
    find_videos(put('v1/1.jpg', 'v1/2.jpg', inside))


def test_one_id_twice(put):
  with pytest.raises(DataError, match="both would be video 'a'"):
    find_videos(put('a.jpg', 'a.png'))


def test_lists(put, tmp_path, monkeypatch):
  top = put('in/b.mp4', 'in/c.jpg', 'in/v1/2.jpg', 'in/v1/10.jpg', 'in/odd/x.jpg', 'in/odd/y.jpg')
  listed = top / 'in' / 'list.txt'
  listed.write_text(
    f'b.mp4\n\nin/c.jpg\n{top}/in/v1\nodd\tv1/2.jpg\nodd\todd/y.jpg\nodd\todd/x.jpg\nnew\tc.jpg\n'
  )
  monkeypatch.chdir(tmp_path)
  videos = find_videos(listed, PictureRules(frame_rate=Fraction(5)))
  assert names_of(videos) == {
    'b': 'b.mp4',
    'c': 'c.jpg',
    'v1': ['2.jpg', '10.jpg'],
    'odd': ['2.jpg', 'y.jpg', 'x.jpg'],
    'new': 'c.jpg',
  }
  assert videos['odd'].rate == 5


@pytest.mark.parametrize(
  ('text', 'match'),
  [
    ('b.mp4\nb.mp4\n', "line 2: video 'b'"),
    ('a.jpg\na.jpg\n', "line 2: video 'a'"),
    ('v\tb.mp4\nv\ta.jpg', "line 2: video 'v'"),
    ('a.jpg\n\t\n\tb.mp4', 'line 3: not'),
    ('empty\n', 'empty: a folder without pictures'),
    ('\n', 'no video file or picture'),
  ],
)
def test_lists_that_are_wrong(put, text, match):
  top = put('a.jpg', 'b.mp4', 'empty/x.txt', 'list.txt')
  (top / 'list.txt').write_text(text)
  with pytest.raises(DataError, match=match):
    find_videos(top / 'list.txt')


def test_single_files(put):
  top = put('a.jpg', 'b.mp4', 'c.py')
  assert names_of(find_videos(top / 'a.jpg')) == {'a': 'a.jpg'}
  assert names_of(find_videos(top / 'b.mp4')) == {'b': 'b.mp4'}
  with pytest.raises(DataError, match=r'c\.py: is a file'):
    find_videos(top / 'c.py')


def test_frame_rates():
  assert parse_frame_rate(None) is None
  assert parse_frame_rate('30000/1001') == Fraction(30000, 1001)
  assert parse_frame_rate('29.97') == Fraction('29.97')
  for text in ('0', '-5', 'fast', '1/0', 'nan'):
    with pytest.raises(DataError, match=f'--frame_rate={text}'):
      parse_frame_rate(text)


def folders_of_frames(top, count: int):
  """Folders of two frames each in a folder for every ten of them, and a video beside each ten."""
  for i in range(count):
    folder = top / f'part{i // 10}' / f'v{i}'
    folder.mkdir(parents=True)
    for name in ('1.jpg', '2.jpg'):
      (folder / name).touch()
    (top / f'part{i // 10}' / f'clip{i // 10}.mp4').touch()
  return top


def test_every_folder_is_listed_once(tmp_path, monkeypatch):
  top = folders_of_frames(tmp_path, 60)
  listed = []
  for name in ('scandir', 'listdir'):  # os.walk and pathlib list folders by one of them
    original = getattr(os, name)
    counting = lambda path='.', original=original: listed.append(str(path)) or original(path)  # noqa: E731
    monkeypatch.setattr(os, name, counting)
  videos = find_videos(top)
  monkeypatch.undo()
  assert len(videos) == 60 + 6
  assert sorted(listed) == sorted([str(top), *(str(p) for p in top.rglob('*') if p.is_dir())])


def test_the_work_grows_with_the_number_of_folders(tmp_path):
  """Twice as many folders take about twice as many calls of functions, not four times."""
  counts = []
  for number in (40, 80):
    top = folders_of_frames(tmp_path / str(number), number)
    calls = collections.Counter()
    sys.setprofile(lambda frame, event, argument: calls.update([event]))  # noqa: B023
    try:
      find_videos(top)
    finally:
      sys.setprofile(None)
    counts.append(calls['call'] + calls['c_call'])
  assert counts[0] > 400
  assert counts[1] < 2.3 * counts[0]


def test_videos_in_subfolders_by_id(tmp_path):
  for name in ('b.mp4', 'a.MKV', 'deep/c.v2.webm', 'notes.txt', 'd.npy'):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
  (tmp_path / 'folder.mp4').mkdir()
  assert find_videos(str(tmp_path)) == {
    'a': tmp_path / 'a.MKV',
    'b': tmp_path / 'b.mp4',
    'c.v2': tmp_path / 'deep' / 'c.v2.webm',
  }


def test_errors_name_the_folder_or_files(tmp_path):
  with pytest.raises(DataError, match=f'{tmp_path}/none'):
    find_videos(tmp_path / 'none')
  (tmp_path / 'a.txt').touch()
  with pytest.raises(DataError, match=f'{tmp_path}/a.txt: .*file'):
    find_videos(tmp_path / 'a.txt')
  with pytest.raises(DataError, match=rf'{tmp_path}: .*\.mp4'):
    find_videos(tmp_path)
  for name in ('a.mp4', 'a.avi'):
    (tmp_path / name).touch()
  with pytest.raises(DataError, match=r"a\.mp4 .*a\.avi: .*'a'"):
    find_videos(tmp_path)
