"""Data sets of probes and their truth."""

import json

import numpy as np
import pytest

from data_prep.synthetic import probes
from data_prep.synthetic.probe_clips import PROBES, clips
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError


@pytest.fixture(scope='module')
def made():
  return {name: clips(name, seed=3) for name in PROBES}


def test_answers_are_in_the_captions_and_features(made):
  for name, splits in made.items():
    for part in splits.values():
      for clip in part:
        assert clip.answers
        for answer in clip.answers:
          assert clip.caption.split()[answer.position] == answer.word
          assert answer.look or answer.word == 'nothing'
        assert set(clip.features) == set(PROBES[name].kinds)
        assert len(clip.caption.split()) <= probes.MAX_WORDS


def test_prepare_writes_a_data_set_and_its_truth(tmp_path, capsys):
  sizes = {'train': 8, 'val': 4, 'test': 4}
  data = probes.prepare(tmp_path / 'p', 'key', 1, sizes)
  manifest = read_manifest(data)
  assert {s.name: s.kind for s in manifest.streams} == PROBES['key'].kinds
  assert {name: s.videos for name, s in manifest.splits.items()} == sizes
  truth, planted = probes.read_truth(data), clips('key', 1, sizes)
  for split, part in planted.items():
    source = open_split(data, split)
    for i in range(len(source)):
      video, clip = source[i], part[int(source[i].video_id.removeprefix(split))]
      assert video.captions == (clip.caption,)
      assert truth[video.video_id]['answers'][0]['word'] == clip.answers[0].word
      np.testing.assert_allclose(video.features['objects'], clip.features['objects'], atol=1e-2)
  before = (tmp_path / 'p' / probes.TRUTH).stat().st_mtime_ns
  assert probes.prepare(tmp_path / 'p', 'key', 1, sizes) == data
  assert (tmp_path / 'p' / probes.TRUTH).stat().st_mtime_ns == before

  # Killed before the end: made good by the next call.
  (tmp_path / 'p' / probes.TRUTH).unlink()
  assert probes.prepare(tmp_path / 'p', 'key', 1, sizes) == data
  assert probes.read_truth(data) == json.loads(json.dumps(truth))
  assert read_manifest(data).hash == manifest.hash

  with pytest.raises(DataError, match='seed: 1 there, 2 asked for'):
    probes.prepare(tmp_path / 'p', 'key', 2, sizes)
  with pytest.raises(DataError, match=r'data_prep\.synthetic\.probes'):
    probes.read_truth(tmp_path / 'elsewhere' / 'dataset')
  assert probes.main(['--probe=nothing', f'--output={tmp_path / "q"}']) == 1
  assert 'unknown probe' in capsys.readouterr().err
  assert not (tmp_path / 'q').exists()
