"""The synthetic data set, which is the same after any interruption."""

import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from data_prep.synthetic import clips, shapes
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError

pytest.importorskip('av', reason='the extra "video" is not installed')

ROOT = pathlib.Path(__file__).parents[3]
STREAMS = {
  'image': 'random_sequence',
  'audio': 'random_vector',
  'cells': 'random_grid',
  'objects': 'random_regions',
}
VIDEOS = 20


@pytest.fixture(scope='module')
def data_set(tmp_path_factory):
  return clips.prepare(tmp_path_factory.mktemp('made') / 'shapes', STREAMS, VIDEOS)


def test_holds_every_kind_of_stream(data_set):
  manifest = read_manifest(data_set)
  assert {s.name: s.kind for s in manifest.streams} == {
    'image': 'sequence',
    'audio': 'vector',
    'cells': 'grid',
    'objects': 'regions',
  }
  assert {name: s.videos for name, s in manifest.splits.items()} == {
    'train': 14,
    'val': 2,
    'test': 4,
  }
  for stream in manifest.streams:
    assert stream.extractor == STREAMS[stream.name]
    assert dict(stream.sampling) == clips.SAMPLING


def test_captions_agree_with_the_facts(data_set):
  facts = clips.read_facts(data_set)
  count = 0
  for split in ('train', 'val', 'test'):
    source = open_split(data_set, split)
    for i in range(len(source)):
      video = source[i]
      facts_of_video = {**facts[video.video_id]}
      assert facts_of_video.pop('split') == split
      assert len(video.captions) == clips.CAPTIONS
      assert all(shapes.named(caption) == facts_of_video for caption in video.captions)
      assert video.features['cells'].shape == (8, 7, 7, 64)
      assert np.isfinite(video.features['image']).all()
      count += 1
  assert count == VIDEOS


def test_a_second_call_returns_at_once(data_set, monkeypatch):
  monkeypatch.setattr(clips, '_render', None)  # would be called otherwise
  assert clips.prepare(pathlib.Path(data_set).parent, STREAMS, VIDEOS) == data_set


def test_other_arguments_are_refused(data_set, tmp_path):
  folder = pathlib.Path(data_set).parent
  with pytest.raises(DataError, match='seed: 0 there, 1 asked for'):
    clips.prepare(folder, STREAMS, VIDEOS, seed=1)
  (tmp_path / 'thesis.txt').touch()
  with pytest.raises(DataError, match='not empty'):
    clips.prepare(tmp_path, STREAMS, VIDEOS)
  with pytest.raises(DataError, match='data_prep.synthetic.clips'):
    clips.read_facts(tmp_path / 'dataset')


@pytest.mark.parametrize('captions', [0, 13])
def test_too_many_captions_are_an_error(tmp_path, capsys, captions):
  """A star that waits has 12 captions; the error comes before anything is rendered."""
  out = tmp_path / 'shapes'
  assert clips.main([f'--output={out}', f'--captions={captions}']) == 1
  error = capsys.readouterr().err
  assert f'--captions={captions}: ' in error
  assert '12' in error
  assert not out.exists()


def test_killed_runs_resume_to_the_same_data_set(data_set, tmp_path):
  out = tmp_path / 'shapes'
  streams = ','.join(f'{name}:{extractor}' for name, extractor in STREAMS.items())
  command = [
    *(sys.executable, '-m', 'data_prep.synthetic.clips'),
    *(f'--output={out}', f'--videos={VIDEOS}', f'--streams={streams}'),
  ]
  for stage in ('videos/*5.mp4', 'features/audio/*7.npy', 'dataset/*'):
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 60
    while process.poll() is None and not any(out.glob(stage)):
      assert time.monotonic() < limit
      time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any(out.glob(stage)), f'never came to {stage}'
  shutil.rmtree(out / 'features' / 'cells')  # and something lost
  if (out / 'dataset' / 'manifest.json').exists():
    (out / 'dataset' / 'manifest.json').unlink()
  result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
  assert result.returncode == 0, result.stderr
  assert f'{out}/dataset: ready' in result.stdout
  assert read_manifest(out / 'dataset').hash == read_manifest(data_set).hash
  assert not list(out.rglob('*.partial'))


def test_command_reports_errors_in_one_line(tmp_path, capsys):
  for options, message in {
    ('--videos=5',): 'at least 10',
    ('--streams=image:resnet',): 'unknown extractor',
    ('--uniform=0',): 'uniform=0',
  }.items():
    assert clips.main([f'--output={tmp_path / "x"}', *options]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count('\n') == 1
  assert not (tmp_path / 'x').exists()
