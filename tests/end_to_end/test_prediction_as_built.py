"""Extraction, building and prediction treat videos alike."""

import dataclasses

import numpy as np
import pytest

from data_prep.dataset.builder import Options, build
from tests import video_files
from tests.video_files import tone, write_video
from vidcap_jax.data.provenance import FeatureProvenance, provenance_of
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError
from vidcap_jax.features import (
  extract_folder,
  extractors,
  stream_folders,
)
from vidcap_jax.inference.inputs import videos_of


def test_extraction_building_and_prediction_agree_on_absent_sound(tmp_path):
  sounds = {'v0': tone(2), 'v1': None, 'v2': tone(3, 900)}
  folder = tmp_path / 'videos'
  folder.mkdir()
  paths = {
    name: write_video(folder / f'{name}.mp4', video_files.ramp(12), sound=sound)
    for name, sound in sounds.items()
  }
  made_by = {'image': 'random_sequence@every=5', 'sound': 'random_sound'}
  streams = extractors.describe_all(made_by, {})
  for attempt in range(2):  # known to be absent, it is not looked for again
    outcome = extract_folder.extract(paths, streams, tmp_path / 'features', workers=1)
    assert outcome.absent == {'v1': ['sound']}
    assert len(outcome.reused) == 3 * attempt
  assert not outcome.failed
  file = stream_folders.feature_file(tmp_path / 'features', 'sound', 'v1')
  assert np.load(file).shape == (0, 128)

  rows = [f'{{"video_id": "{name}", "caption": "a cat", "split": "train"}}' for name in sounds]
  (tmp_path / 'captions.jsonl').write_text('\n'.join(rows))
  options = Options(
    form='jsonl',
    annotations=(str(tmp_path / 'captions.jsonl'),),
    features={name: str(tmp_path / 'features' / name) for name in made_by},
    out=str(tmp_path / 'set'),
    min_count=1,
  )
  with pytest.raises(DataError, match='1 of 3 videos have bad.*v1.*--optional=sound'):
    build(options)
  build(dataclasses.replace(options, optional=('sound',)))
  manifest = read_manifest(tmp_path / 'set')
  assert manifest.coverage['train']['streams'] == {'image': 3, 'sound': 2}
  stored = {video.video_id: video.features for video in open_split(tmp_path / 'set', 'train')}
  assert {name: len(f['sound']) for name, f in stored.items()} == {'v0': 2, 'v1': 0, 'v2': 3}

  predicted = dict(videos_of(provenance_of(manifest, manifest.streams), str(folder)))
  assert len(predicted) == 3
  for path, video in predicted.items():
    for name, array in video.features.items():
      np.testing.assert_array_equal(array, stored[video.video_id][name], err_msg=path)
  needed = tuple(dataclasses.replace(stream, optional=False) for stream in manifest.streams)
  failed = [
    r
    for r in dict(videos_of(FeatureProvenance(needed), str(folder))).values()
    if isinstance(r, str)
  ]
  assert len(failed) == 1
  assert 'no sound' in failed[0]


def test_prediction_from_videos_keeps_what_the_build_kept(tmp_path):
  folder = tmp_path / 'videos'
  folder.mkdir()
  paths = {'v0': write_video(folder / 'v0.mp4', video_files.ramp(12))}
  made_by = {'image': 'random_sequence@every=1', 'objects': 'random_regions@every=2'}
  streams = extractors.describe_all(made_by, {})
  assert not extract_folder.extract(paths, streams, tmp_path / 'features', workers=1).failed
  (tmp_path / 'captions.jsonl').write_text('{"video_id": "v0", "caption": "a cat"}\n')
  manifest, _ = build(
    Options(
      form='jsonl',
      annotations=(str(tmp_path / 'captions.jsonl'),),
      features={name: str(tmp_path / 'features' / name) for name in made_by},
      split='train',
      out=str(tmp_path / 'set'),
      min_count=1,
      dtype='float32',  # of what extraction has made float16
      align={'image+objects': 'truncate'},
      max_frames={'image': 4},
      max_regions={'objects': 2},
    )
  )
  stored = open_split(tmp_path / 'set', 'train')[0].features
  assert {name: a.shape[:-1] for name, a in stored.items()} == {'image': (4,), 'objects': (6, 2)}
  for read in (manifest.streams, manifest.streams[:1]):
    ((_, video),) = videos_of(provenance_of(manifest, read), str(folder / 'v0.mp4'))
    for name, array in video.features.items():
      np.testing.assert_array_equal(array, stored[name], strict=True)
