"""Filling in captions of videos without the main model's features."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
from ml_collections import ConfigDict

from data_prep.dataset.builder import Options, build
from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import results
from vidcap_jax.inference import captioning, fallback
from vidcap_jax.training.metric_log import read_metric_log

# v8 (val) and v10 (test) have no image; v11 has neither stream where `neither` is asked for.
LACKING = ('v8', 'v10')


def build_two_streams(folder, *, min_count=1, without_i3d=()) -> str:
  """The tiny data with a second stream i3d and an image that some videos lack."""
  folder = pathlib.Path(folder)
  tiny.build(folder / 'source')
  shutil.copytree(folder / 'source' / 'image', folder / 'i3d')
  for stream, lacking in (('source/image', LACKING), ('i3d', without_i3d)):
    for video in lacking:
      (folder / stream / f'{video}.npy').unlink()
  build(
    Options(
      form='jsonl',
      annotations=(str(folder / 'source' / 'captions.jsonl'),),
      features={'image': str(folder / 'source' / 'image'), 'i3d': str(folder / 'i3d')},
      optional=('image', 'i3d') if without_i3d else ('image',),
      out=str(folder / 'data'),
      min_count=min_count,
    )
  )
  return str(folder / 'data')


def two_stages(data) -> ConfigDict:
  """A stage on i3d, then one on image whose gaps it fills."""
  config = tiny.small_config(data, epochs=2.0)
  with config.unlocked():
    config.order = ('i3d', 'main')
    config.stages = ConfigDict(
      {
        'i3d': {'model': {'global_streams': ('i3d',), 'hidden': 6}},
        'main': {'eval': {'fallback': 'stage:i3d'}},
      }
    )
  return config


@pytest.fixture(scope='module')
def data(tmp_path_factory):
  return build_two_streams(tmp_path_factory.mktemp('two_streams'))


@pytest.fixture(scope='module')
def run(data, tmp_path_factory):
  """A finished run and its output."""
  with tiny.without_java():
    return tiny.run(two_stages(data), tmp_path_factory.mktemp('fallback') / 'work')


def restored(workdir, stage):
  path = restore.find_checkpoint(str(workdir / 'checkpoints' / stage))
  return restore.restore(path, mesh.make_mesh())


def captions_of(folder):
  return {c['video_id']: c for c in json.loads((folder / 'captions.json').read_text())}


def test_fallback_in_a_run(run):
  filled, second = captions_of(run / 'eval' / 'test'), captions_of(run / 'eval' / 'i3d' / 'test')
  main_path, i3d_path = (restored(run, stage).path for stage in ('main', 'i3d'))
  assert filled['v10'] == {**second['v10'], 'checkpoint': str(i3d_path)}
  assert set(filled['v11']) == {'video_id', 'caption', 'log_prob'}
  assert filled['v11']['log_prob'] != second['v11']['log_prob']
  report = json.loads((run / 'eval' / 'test' / 'metrics.json').read_text())
  assert report['checkpoint'] == str(main_path)
  assert report['fallback'] == {
    'checkpoint': str(i3d_path),
    'videos': 1,
    'without_features_of_either': 0,
  }
  assert results.summary(report).endswith(f'1 of them filled in from {i3d_path}')
  assert report['distinct_captions'] == len({c['caption'] for c in filled.values()})
  submitted = json.loads((run / 'eval' / 'test' / 'submission_vatex.json').read_text())
  assert submitted == {video: c['caption'] for video, c in filled.items()}
  assert 'fallback' not in json.loads((run / 'eval' / 'i3d' / 'test' / 'metrics.json').read_text())


def test_results_of_a_finished_run_are_reused(run, data, capsys):
  before = (run / 'eval' / 'test' / 'metrics.json').stat().st_mtime_ns
  tiny.run(two_stages(data), run)
  assert (run / 'eval' / 'test' / 'metrics.json').stat().st_mtime_ns == before
  assert '1 of them filled in from ' in capsys.readouterr().out


def test_another_vocabulary_and_videos_without_features(run, tmp_path):
  """Captions are merged as text, whatever the words' numbers are."""
  data = build_two_streams(tmp_path / 'other', min_count=4, without_i3d=('v10',))
  config = tiny.small_config(data, epochs=1.0)
  config.model.global_streams = ('i3d',)
  config.data.val_split = 'train'
  config.eval.splits = ()
  with tiny.without_java():
    other = tiny.run(config, tmp_path / 'work')
  first, second = restored(run, 'main'), restored(other, 'xe')
  assert first.vocabulary.words != second.vocabulary.words
  videos = list(open_split(data, 'val')) + list(open_split(data, 'test'))
  ids = [video.video_id for video in videos]
  assert ids == ['v7', 'v8', 'v9', 'v10', 'v11']
  by_main = captioning.captioner_of(first)(videos, ids)
  by_second = captioning.captioner_of(second)(videos, ids)
  filled, report = fallback.fill_in(by_main, first, second, captioning.captioner_of(second), videos)
  assert report == {'checkpoint': str(second.path), 'videos': 1, 'without_features_of_either': 1}
  for i, video in enumerate(ids):
    if video != 'v8':
      assert filled[i] == by_main[i]
  assert filled[1]['caption'] == by_second[1]['caption']
  np.testing.assert_allclose(filled[1]['log_prob'], by_second[1]['log_prob'], rtol=1e-5)
  assert filled[1]['checkpoint'] == str(second.path)
  assert 'without the features of both' in results.summary(
    {'references': False, 'videos': 5, 'distinct_captions': 5, 'fallback': report}
  )


def test_nothing_to_fill_in(run, data):
  first, second = restored(run, 'main'), restored(run, 'i3d')

  def never(*_):
    raise AssertionError

  captions = [{'video_id': 'v11', 'caption': '', 'log_prob': 0.0}]
  videos = [video for video in open_split(data, 'test') if video.video_id == 'v11']
  same, report = fallback.fill_in(captions, first, second, never, videos)
  assert same == captions
  assert report['videos'] == 0


def test_main_features(run):
  """Streams that every video had in training; where there is none, all of them."""
  first, second = restored(run, 'main'), restored(run, 'i3d')
  assert first.streams[0].optional
  assert not second.streams[0].optional
  always = dataclasses.replace(first, streams=(*first.streams, *second.streams))
  assert fallback.main_streams(first) == {'image'}
  assert fallback.main_streams(always) == {'i3d'}


@pytest.mark.parametrize(
  ('order', 'setting', 'error', 'message'),
  [
    (
      ('main', 'i3d'),
      'stage:i3d',
      ConfigError,
      "'stage:i3d' of stage 'main' is no stage with task 'train' that .*: n",
    ),
    (
      ('i3d', 'main'),
      'stage:main',
      ConfigError,
      "no stage with task 'train' that runs before it.*: stage:i3d",
    ),
    (('i3d', 'main'), '/nowhere', DataError, 'config.eval.fallback=/nowhere: no such folder'),
  ],
)
def test_errors_are_raised_before_training(order, setting, error, message, data, tmp_path):
  config = two_stages(data)
  config.order, config.stages.main.eval.fallback = order, setting
  with pytest.raises(error, match=message):
    tiny.run(config, tmp_path / 'work')
  assert read_metric_log(tmp_path / 'work') == []
