"""The command that extracts a folder: its files, its errors, and how it resumes."""

import json

import numpy as np
import pytest

from data_prep import extract
from tests import video_files
from vidcap_jax.features import extract_folder, video_folder
from vidcap_jax.features.backbones import random as random_features
from vidcap_jax.features.extractors import EXACT_CLOCK


def run(*arguments) -> int:
  return extract.main(['--pool=threads', *map(str, arguments)])  # processes are slow to start


def test_command(clips, tmp_path, capsys):
  streams = '--streams=image:random_sequence,places:random_regions'
  options = (f'--videos={clips}', f'--output={tmp_path}', streams, '--uniform=6')
  assert run(*options) == 0
  assert '4 videos extracted, 0 damaged in part, 0 failed' in capsys.readouterr().out
  assert json.loads((tmp_path / 'image' / 'stream.json').read_text()) == {
    'name': 'image',
    'kind': 'sequence',
    'extractor': 'random_sequence',
    'version': random_features.VERSION + EXACT_CLOCK,
    'sampling': {'uniform': 6},
    'dtype': 'float16',
  }
  files = sorted((tmp_path / 'places').glob('*.npy'))
  assert [f.stem for f in files] == list(video_folder.find_videos(clips))
  assert np.load(files[0]).shape == (6, 10, 64)

  before = {f: f.stat().st_mtime_ns for f in files[1:]}
  wanted = np.load(files[0])
  files[0].unlink()
  assert run(*options) == 0
  assert '1 video extracted, 3 kept' in capsys.readouterr().out
  np.testing.assert_array_equal(np.load(files[0]), wanted)
  assert before == {f: f.stat().st_mtime_ns for f in files[1:]}

  assert run(*options[:-1], '--uniform=7') == 1
  error = capsys.readouterr().err
  assert error.count('\n') == 1
  assert 'made in another way' in error
  assert "{'uniform': 7}" in error


def test_bad_files_are_named_and_the_others_extracted(clips, tmp_path, capsys):
  folder, out = tmp_path / 'videos', tmp_path / 'out'
  (folder / 'deep').mkdir(parents=True)
  good = next(clips.glob('*.mp4')).read_bytes()
  (folder / 'good.mp4').write_bytes(good)
  (folder / 'deep' / 'empty.avi').touch()
  (folder / 'text.mp4').write_text('no video')
  (folder / 'notes.txt').write_text('not looked at')
  options = (f'--videos={folder}', f'--output={out}', '--streams=image:random_vector')
  assert run(*options) == 1
  printed = capsys.readouterr().out
  assert '1 video extracted, 0 damaged in part, 2 failed' in printed
  failed = json.loads((out / extract_folder.FAILURES).read_text())['failed']
  assert sorted(failed) == ['empty', 'text']
  assert 'empty.avi: the file is empty' in failed['empty']
  assert [f.stem for f in (out / 'image').glob('*.npy')] == ['good']
  # Mended, they are taken in.
  (folder / 'text.mp4').write_bytes(good)
  (folder / 'deep' / 'empty.avi').write_bytes(good)
  assert run(*options) == 0
  assert json.loads((out / extract_folder.FAILURES).read_text()) == {
    'failed': {},
    'damaged': {},
    'absent': {},
  }


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    (('--videos=/no/such/folder',), 'no such folder'),
    ((f'--videos={__file__}',), 'test_extract.py: is a file'),
    (('--streams=image:resnet',), 'unknown extractor'),
    (('--streams=efficientnet_lite0',), 'NAME:EXTRACTOR'),
    (('--streams=a:random_vector,a:random_grid',), 'given twice'),
    (('--streams=',), 'no stream'),
    (('--uniform=0',), 'uniform=0'),
    (('--workers=0',), 'workers'),
    (('--videos=',), '--videos=: an empty path'),
    (('--output=',), '--output=: an empty path'),
    (('--output=/dev/null/x',), '--output=/dev/null/x: cannot write to /dev/null'),
  ],
)
def test_bad_options_are_one_line(clips, tmp_path, capsys, options, message):
  assert run(f'--videos={clips}', f'--output={tmp_path}', *options) == 1
  error = capsys.readouterr().err
  assert message in error
  assert error.count('\n') == 1
  assert not any(tmp_path.iterdir())


def test_two_files_with_the_same_id(tmp_path, capsys):
  for name in ('a.mp4', 'a.avi'):
    (tmp_path / name).touch()
  assert run(f'--videos={tmp_path}', f'--output={tmp_path / "out"}') == 1
  assert "both would be video 'a'" in capsys.readouterr().err


def test_bad_files_do_not_stop_the_others(tmp_path, capsys):
  """One of each kind that people have; features of all that can be read."""
  folder = tmp_path / 'videos'
  folder.mkdir()
  ramp, sound = video_files.ramp(12), video_files.tone(1.2)
  write = lambda name, *a, **k: video_files.write_video(folder / name, *a, **k)  # noqa: E731
  good = write('good.mp4', ramp, sound=sound).read_bytes()
  write('one_frame.mp4', ramp[:1])
  write('uneven.mp4', ramp, times=[*range(6), *range(20, 26)])
  write('huge.mp4', [np.full((2304, 4096, 3), 80, np.uint8)] * 2)
  write('sound_alone.mp4', [], sound=sound)
  (folder / 'empty.mp4').touch()
  (folder / 'noise.mp4').write_bytes(np.random.default_rng(0).bytes(5000))
  (folder / 'headless.mp4').write_bytes(good[: good.index(b'moov')])
  streams = 'image:random_sequence@every=5,parts:random_vector@uniform=3,sound:random_sound'
  assert run(f'--videos={folder}', f'--output={tmp_path / "out"}', f'--streams={streams}') == 1
  assert '4 videos extracted, 0 damaged in part, 4 failed, 3 without sound' in (
    capsys.readouterr().out
  )
  report = json.loads((tmp_path / 'out' / extract_folder.FAILURES).read_text())
  assert sorted(report['failed']) == ['empty', 'headless', 'noise', 'sound_alone']
  assert all(f'{name}.mp4: ' in why for name, why in report['failed'].items())
  assert sorted(report['absent']) == ['huge', 'one_frame', 'uneven']
  shapes_of = {
    name: [len(np.load(tmp_path / 'out' / stream / f'{name}.npy')) for stream in ('image', 'sound')]
    for name in ('good', 'one_frame', 'uneven', 'huge')
  }
  assert shapes_of == {'good': [3, 1], 'one_frame': [1, 0], 'uneven': [3, 0], 'huge': [1, 0]}


def picture_files(folder):
  """The frames of v1, numbered 1 to 12, and pictures one, two and bad, which can't be read."""
  image = pytest.importorskip('PIL.Image')
  (folder / 'v1').mkdir(parents=True)
  for i, frame in enumerate(video_files.ramp(12), 1):
    image.fromarray(frame).save(folder / 'v1' / f'frame{i}.png')
  image.fromarray(video_files.gray(99)).save(folder / 'one.jpg')
  image.fromarray(video_files.gray(50)).save(folder / 'two.webp')
  (folder / 'bad.jpeg').write_text('no picture')
  return folder


def test_frames_and_pictures(tmp_path, capsys):
  videos, out = picture_files(tmp_path / 'videos'), tmp_path / 'out'
  (videos / 'v1' / 'frame3.png').write_bytes(b'')
  streams = 'image:random_sequence@every=5,some:random_vector@fps=2,sound:random_sound'
  options = (f'--videos={videos}', f'--output={out}', f'--streams={streams}')
  assert run(*options) == 1
  error = capsys.readouterr().err
  assert "v1: stream 'some'" in error
  assert '--frame_rate' in error
  assert not out.exists()

  assert run(*options, '--frame_rate=4') == 1
  printed = capsys.readouterr().out
  assert '1 video from 12 pictures as frames, 3 single pictures' in printed
  assert '3 videos extracted, 1 damaged in part, 1 failed, 3 without sound' in printed
  report = json.loads((out / extract_folder.FAILURES).read_text())
  assert list(report['failed']) == ['bad']
  assert 'bad.jpeg: ' in report['failed']['bad']
  assert 'frame3.png: ' in report['damaged']['v1']  # which fps=2 of 4 chooses
  lengths = {name: len(np.load(out / 'image' / f'{name}.npy')) for name in ('v1', 'one', 'two')}
  assert lengths == {'v1': 3, 'one': 1, 'two': 1}
  recorded = [json.loads((out / name / 'stream.json').read_text()) for name in ('image', 'some')]
  assert [stream.get('frame_rate') for stream in recorded] == [None, '4']
  assert run(*options, '--frame_rate=5') == 1
  assert "frame_rate '5'" in capsys.readouterr().err


def test_frames_give_the_features_of_their_video(tmp_path):
  """Frame 2 comes before frame 10."""
  frames = picture_files(tmp_path / 'videos')
  (frames / 'bad.jpeg').unlink()
  whole = tmp_path / 'whole'
  whole.mkdir()
  video_files.write_video(whole / 'v1.mp4', video_files.ramp(12))
  for name, videos in (('of_frames', frames / 'v1'), ('of_video', whole)):
    options = (f'--videos={videos}', f'--output={tmp_path / name}', '--pictures=frames')
    assert run(*options, '--streams=image:random_sequence', '--every=1') == 0
  of_frames, of_video = (
    np.load(tmp_path / name / 'image' / 'v1.npy') for name in ('of_frames', 'of_video')
  )
  np.testing.assert_allclose(of_frames, of_video, atol=0.04)
  assert np.abs(of_frames[1] - of_video[9]).max() > 0.1  # the test can fail
