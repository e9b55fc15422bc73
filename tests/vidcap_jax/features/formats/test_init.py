"""Every form of features is read as written, and errors name what is wrong."""

import json
import pickle

import h5py
import numpy as np
import pytest

from tests import feature_files
from tests.feature_files import WRITERS, npz
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features, read_sidecar

FEATURES = {
  'video0': np.arange(12, dtype=np.float32).reshape(3, 4),
  '-a_b_000001_000011': np.full((1, 4), -2.5, np.float32),
  'vidéo 2': np.zeros((2, 4), np.float32),
}


@pytest.mark.parametrize('form', WRITERS)
def test_every_form_gives_what_was_written(tmp_path, form):
  reader = open_features('image', WRITERS[form](tmp_path / 'image', FEATURES))
  assert sorted(reader.ids) == sorted(FEATURES)
  for name, array in FEATURES.items():
    np.testing.assert_array_equal(reader.read(name), array, strict=True)
    assert str(tmp_path / 'image') in reader.where(name)
    assert reader.read_scores(name) is None
  assert len({reader.fingerprint(name) for name in FEATURES}) == len(FEATURES)


@pytest.mark.parametrize('form', ['folder', 'npz', 'pickle', 'torch', 'h5', 'tar'])
def test_paths_are_part_of_the_names(tmp_path, form):
  nested = {'train/video0': np.ones((2, 4), np.float32), 'test/video1': np.ones((1, 4), np.float32)}
  reader = open_features('image', WRITERS[form](tmp_path / 'image', nested))
  assert sorted(reader.ids) == ['test/video1', 'train/video0']
  np.testing.assert_array_equal(reader.read('train/video0'), nested['train/video0'])


def test_nothing_to_open(tmp_path):
  with pytest.raises(DataError, match="stream 'image'.*no such folder"):
    open_features('image', tmp_path / 'none')
  with pytest.raises(DataError, match=r'no file \.npy, \.npz'):
    open_features('image', tmp_path)
  for name, data, match in (
    ('a.doc', b'x', 'give one .h5 file, one .pkl'),
    ('a.h5', b'not hdf5', 'cannot be read as HDF5'),
    ('a.pkl', b'', r'empty file \(0 bytes\)'),
    ('b.pkl', b'what', 'not a NumPy, pickle'),
    ('c.pkl', pickle.dumps([1]), 'c.pkl: .*dictionary'),
    ('d.pkl', pickle.dumps({}), 'empty dictionary'),
    ('e.pkl', pickle.dumps({(1, 2): 3}), r'a key is \(1, 2\), not a text'),
    ('f.pkl', pickle.dumps({'1': 3, 1: 4}), "'1'"),
    ('g.npz', npz({'x': np.ones(3)})[:-9], 'truncated or damaged'),
    ('a.tar', b'', 'not a tar file'),
    ('b.lmdb', b'abc', 'cannot be read as LMDB'),
  ):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=match) as caught:
      open_features('image', tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
  itself: dict = {}
  itself['a'] = itself
  (tmp_path / 'h.pkl').write_bytes(pickle.dumps(itself))
  with pytest.raises(DataError, match='nested more than 8 deep'):
    open_features('image', tmp_path / 'h.pkl')
  with h5py.File(tmp_path / 'b.h5', 'w') as file:
    file.create_group('empty')
  with pytest.raises(DataError, match='no data set in it'):
    open_features('image', tmp_path / 'b.h5')


def test_internal_keys_of_a_store_are_no_videos(tmp_path):
  notes = {'__keys__': pickle.dumps({'a'}), '__value_dumps__': pickle.dumps('identity')}
  path = feature_files.write_lmdb(tmp_path / 'a', {**notes, 'a': npz({'feat': np.ones((2, 4))})})
  assert list(open_features('image', path).ids) == ['a']


def test_sidecar(tmp_path):
  assert read_sidecar('image', tmp_path) == {}
  (tmp_path / 'stream.json').write_text(json.dumps({'kind': 'grid', 'sampling': {'fps': 2}}))
  assert read_sidecar('image', tmp_path)['sampling'] == {'fps': 2}
  (tmp_path / 'image.h5').write_bytes(b'')
  assert read_sidecar('image', tmp_path / 'image.h5') == {}
  (tmp_path / 'image.stream.json').write_text('{"extractor": "net"}')
  assert read_sidecar('image', tmp_path / 'image.h5') == {'extractor': 'net'}


@pytest.mark.parametrize(
  ('text', 'match'),
  [
    ('{', 'not a JSON file'),
    ('[]', 'not a JSON object'),
    ('{"sampling": "all"}', "'sampling' is 'all', not an object"),
    ('{"version": 1}', "'version' is 1, not a text"),
  ],
)
def test_bad_sidecar(tmp_path, text, match):
  (tmp_path / 'stream.json').write_text(text)
  with pytest.raises(DataError, match=match):
    read_sidecar('image', tmp_path)
