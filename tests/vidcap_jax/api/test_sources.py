"""A path or array that can't be read keeps its place among the inputs."""

import pathlib

import numpy as np
import pytest

from vidcap_jax.api import sources
from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import ConfigError, DataError, UserError

PROVENANCE = FeatureProvenance((Stream('image', 'sequence', (None, 4)),))
TWO = FeatureProvenance((*PROVENANCE.streams, Stream('motion', 'sequence', (None, 3))))


def test_paths(tmp_path, monkeypatch):
  (tmp_path / 'features').mkdir()
  (tmp_path / 'empty').mkdir()
  monkeypatch.chdir(tmp_path / 'empty')
  for name in ('b', 'a'):
    np.save(tmp_path / 'features' / f'{name}.npy', np.ones((2, 4)))
  paths = (tmp_path / name for name in ('clip.mp4', 'features', 'gone.npy'))
  found = sources.from_paths(PROVENANCE, paths)
  assert [each.video_id for each in found] == ['clip', 'a', 'b', 'gone']
  assert found[1].load([]).features['image'].shape == (2, 4)
  for place, words in ((0, "'image': .*extractor"), (3, 'no such file')):
    with pytest.raises(UserError, match=words):
      found[place].load([])
  (of_two,) = sources.from_paths(TWO, str(tmp_path / 'features'))
  with pytest.raises(DataError, match='image=PATH,motion=PATH'):
    of_two.load([])
  for path in ('', '.'):
    (bad,) = sources.from_paths(PROVENANCE, path)
    assert bad.video_id == path
  with pytest.raises(ConfigError, match="'all'"):
    sources.from_paths(PROVENANCE, [], pictures='all')


@pytest.mark.parametrize('path', ['image=a,motion=b', 'image=a'])
def test_the_form_of_the_command_line(path):
  (bad,) = sources.from_paths(TWO, path)
  with pytest.raises(DataError, match=r"features=\{'image': 'DIR', 'motion': 'DIR'\}"):
    bad.load([])


def test_features(tmp_path):
  np.save(tmp_path / 'one.npy', np.ones((2, 4)))
  arrays = {'image': np.ones((3, 4))}
  files = {'image': tmp_path / 'one.npy'}
  found = sources.from_features(PROVENANCE, iter([arrays, files, {'image': 'gone'}]))
  assert [each.video_id for each in found] == ['0', 'one', '2']
  assert [len(each.load([]).features['image']) for each in found[:2]] == [3, 2]
  with pytest.raises(DataError, match="'image': gone"):
    found[2].load([])
  assert [each.video_id for each in sources.from_features(PROVENANCE, arrays, ['a'])] == ['a']
  for features, ids in ((arrays, 'a'), (arrays, ['a', 'b']), (files, ['a'])):
    with pytest.raises(ConfigError, match='ids'):
      sources.from_features(PROVENANCE, features, ids)


def test_one_path_or_several():
  assert sources.as_list('ab') == ['ab']
  assert sources.as_list(pathlib.Path('a')) == [pathlib.Path('a')]
  assert sources.as_list(each for each in 'ab') == ['a', 'b']
  with pytest.raises(TypeError, match='3'):
    sources.as_list(3)
