"""Each form of features is read as it was written, or it is said what is wrong with it."""

import os
import pathlib
import pickle

import h5py
import numpy as np
import pytest

from data_prep.dataset.builder import build
from tests.data_prep import feature_files
from tests.data_prep.building import options
from tests.data_prep.feature_files import WRITERS, npy, npz, torch_zip
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features

FEATURES = {
  'video0': np.arange(12, dtype=np.float32).reshape(3, 4),
  '-a_b_000001_000011': np.full((1, 4), -2.5, np.float32),
  'vidéo 2': np.zeros((2, 4), np.float32),
}
TORCH = pathlib.Path(__file__).parent / 'torch_files'


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


def several(path, form, leaf='image'):
  """Two videos, each with features, boxes and scores."""
  arrays = {leaf: np.ones((2, 3, 4), np.float32), 'boxes': np.zeros((2, 3, 4), np.float32)}
  arrays['scores'] = np.arange(6, dtype=np.float32).reshape(2, 3)
  if form == 'folder':
    path.mkdir()
    for name in ('a', 'b'):
      (path / f'{name}.npz').write_bytes(npz(arrays))
      (path / f'{name}.npz').rename(path / f'{name}.{"pkl" if name == "b" else "npz"}')
    (path / 'b.pkl').write_bytes(pickle.dumps(arrays))
    return path
  if form in ('pickle', 'torch'):
    return WRITERS[form](path, {'a': arrays, 'b': arrays})
  if form == 'lmdb':
    return WRITERS[form](path, {'a': npz(arrays), 'b': torch_zip(arrays)})
  if form == 'tar':
    files = {f'a.{name}.npy': npy(array) for name, array in arrays.items()}
    return WRITERS[form](path, {**files, 'a.json': b'{}', 'b.npz': npz(arrays)})
  return WRITERS[form](path, {f'{v}/{name}': arrays[name] for v in 'ab' for name in arrays})


@pytest.mark.parametrize('form', ['folder', 'npz', 'pickle', 'torch', 'h5', 'lmdb', 'tar'])
def test_one_of_several_arrays_is_chosen(tmp_path, form):
  by_stream = open_features('image', several(tmp_path / 'one', form))
  by_key = open_features('image', several(tmp_path / 'two', form, 'feat'), 'feat')
  for reader in (by_stream, by_key):
    assert sorted(reader.ids) == ['a', 'b']
    for name in 'ab':
      assert reader.read(name).tolist() == np.ones((2, 3, 4)).tolist()
      assert reader.read_scores(name).tolist() == [[0, 1, 2], [3, 4, 5]]

  def read_another():
    open_features('image', by_key.path, 'other').read('a')

  with pytest.raises(DataError, match=r'named .?(other|image).*--keys=image='):
    read_another()


def test_scores_beside_the_only_array_need_no_key(tmp_path):
  arrays = {'x': np.ones((2, 3, 4)), 'scores': np.ones((2, 3))}
  path = feature_files.write_pickle(tmp_path / 'objects', {'a': arrays, 'b': arrays})
  reader = open_features('objects', path)
  assert sorted(reader.ids) == ['a', 'b']
  assert reader.read('b').shape == (2, 3, 4)


@pytest.mark.parametrize('protocol', range(6))
def test_pickles_of_every_protocol_and_kind_of_key(tmp_path, protocol):
  contents = {
    'text': np.arange(6, dtype='>f4').reshape(2, 3),
    b'bytes': np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    7: np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(2, 0, 1),
    'list': [[1.5, 2], [3, 4]],
    'scalar': np.float32(3),
  }
  path = feature_files.write_pickle(tmp_path / 'image', contents, protocol)
  reader = open_features('image', path)
  assert sorted(reader.ids) == ['7', 'bytes', 'list', 'scalar', 'text']
  for name, array in zip(('text', 'bytes', '7', 'list', 'scalar'), contents.values()):
    np.testing.assert_array_equal(reader.read(name), array)


def test_pickle_of_python_2(tmp_path):
  code = (
    b"(dp0\nS'v1'\np1\ncnumpy.core.multiarray\n_reconstruct\np2\n(cnumpy\nndarray\np3\n"
    b"(I0\ntp4\nS'b'\np5\ntp6\nRp7\n(I1\n(I1\nI2\ntp8\ncnumpy\ndtype\np9\n(S'f4'\np10\n"
    b"I0\nI1\ntp11\nRp12\n(I3\nS'<'\np13\nNNNI-1\nI-1\nI0\ntp14\nbI00\n"
    b"S'\\x00\\x00\\x80?\\x00\\x00\\x00\\xc0'\np15\ntp16\nbs."
  )
  (tmp_path / 'a.pkl').write_bytes(code)
  reader = open_features('image', tmp_path / 'a.pkl')
  np.testing.assert_array_equal(reader.read('v1'), np.array([[1, -2]], np.float32), strict=True)


@pytest.mark.parametrize('name', ['zip.pth', 'legacy.pth'])
def test_files_that_torch_wrote(name):
  """torch.save of float32, views of one storage, bfloat16, half, a parameter and an array."""
  reader = open_features('image', TORCH / name)
  whole = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
  expected = {
    'view': whole[1],
    'turned': whole[0].T,
    'brain': np.array([1.5, -2], np.float32),
    'half': np.ones((2, 2), np.float16),
    'parameter': np.ones(2, np.float32),
    'array': np.ones((2, 3), np.float32),
    'inner/x': np.zeros(3, np.int64),
  }
  assert sorted(reader.ids) == sorted(expected)
  for key, array in expected.items():
    np.testing.assert_array_equal(reader.read(key), array, strict=True)


class Runs:
  def __reduce__(self):
    return os.system, ('touch ran',)


def test_no_code_is_run(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for attack in ({'a': Runs()}, {'a': [Runs()]}, Runs()):
    code = pickle.dumps(attack)
    (tmp_path / 'x.pkl').write_bytes(code)
    with pytest.raises(DataError, match=r'x.pkl: refuses to load posix.system'):
      open_features('image', tmp_path / 'x.pkl')
    for path in (
      feature_files.write_lmdb(tmp_path / 'lmdb', {'a': code}),
      feature_files.write_tar(tmp_path / 'x', {'a.pkl': code}),
    ):
      with pytest.raises(DataError, match=r"\['a'\]: .*refuses to load"):
        open_features('image', path).read('a')
  objects = np.empty(1, object)
  objects[0] = {}
  reader = open_features('image', feature_files.write_pickle(tmp_path / 'y', {'a': objects}))
  with pytest.raises(DataError, match='Python objects'):
    reader.read('a')
  assert not (tmp_path / 'ran').exists()


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
    ('c.pkl', pickle.dumps([1]), 'no dictionary of features'),
    ('d.pkl', pickle.dumps({}), 'empty dictionary'),
    ('e.pkl', pickle.dumps({(1, 2): 3}), r'a key is \(1, 2\), not a text'),
    ('f.pkl', pickle.dumps({'1': 3, 1: 4}), "two entries of the name '1'"),
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


def test_a_data_set_is_a_source_of_features(source):
  build(options(source))
  reader = open_features('image', source / 'out')
  assert sorted(reader.ids) == ['v1', 'v2', 'v3', 'v4', 'v5']
  assert reader.read('v3').shape == (3, 4)
  manifest, _ = build(options(source, out=str(source / 'two'), name='out'))
  again, _ = build(
    options(source, features={'image': str(source / 'out')}, out=str(source / 'three'), name='out')
  )
  assert again.hash == manifest.hash
  shard = source / 'out' / 'out-val.array_record-00000-of-00001'
  shard.write_bytes(shard.read_bytes()[:-9])
  with pytest.raises(DataError, match="split 'val': truncated|cannot be read by TFDS"):
    open_features('image', source / 'out')
  (source / 'out' / 'dataset_info.json').write_text('{')
  with pytest.raises(DataError, match='cannot be read by TFDS'):
    open_features('image', source / 'out')
