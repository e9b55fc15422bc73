"""Writes features in each supported form, for tests."""

import contextlib
import io
import pathlib
import pickle
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping

import h5py
import lmdb
import numpy as np
import tensorflow_datasets as tfds


def npy(array) -> bytes:
  file = io.BytesIO()
  np.save(file, array)
  return file.getvalue()


def npz(arrays: Mapping) -> bytes:
  file = io.BytesIO()
  np.savez(file, **arrays)
  return file.getvalue()


def torch_zip(contents: Mapping) -> bytes:
  """A file in the form of PyTorch's archives, with float32 arrays in nested dictionaries."""
  storages: list[np.ndarray] = []

  def tensor(array) -> bytes:
    array = np.array(array, np.float32, order='C')
    storages.append(array)
    strides = tuple(step // 4 for step in array.strides)
    place = ('storage', 'TYPE', str(len(storages) - 1), 'cpu', array.size)
    parts = [_item(part) if part != 'TYPE' else b'ctorch\nFloatStorage\n' for part in place]
    arguments = b'(' + b''.join(parts) + b'tQ' + _item(0) + _item(array.shape) + _item(strides)
    return b'ctorch._utils\n_rebuild_tensor_v2\n(' + arguments + b'\x89}tR'

  def item(value) -> bytes:
    if isinstance(value, Mapping):
      return b'(' + b''.join(_item(k) + item(v) for k, v in value.items()) + b'd'
    return tensor(value) if isinstance(value, np.ndarray) else _item(value)

  code = b'\x80\x02' + item(contents) + b'.'
  file = io.BytesIO()
  with zipfile.ZipFile(file, 'w') as archive:
    archive.writestr('archive/data.pkl', code)
    archive.writestr('archive/byteorder', 'little')
    for i, array in enumerate(storages):
      archive.writestr(f'archive/data/{i}', array.tobytes())
  return file.getvalue()


def _item(value) -> bytes:
  """The pickle opcodes of one object, without start, end and memo."""
  if isinstance(value, tuple):
    return b'(' + b''.join(map(_item, value)) + b't'
  if isinstance(value, int):
    return b'I%d\n' % value
  text = value.encode()
  return b'X' + len(text).to_bytes(4, 'little') + text


def write_folder(path: pathlib.Path, features: Mapping) -> pathlib.Path:
  for name, array in features.items():
    file = path / f'{name}.npy'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(npy(array))
  return path


def write_npz(path: pathlib.Path, features: Mapping) -> pathlib.Path:
  file = path.with_suffix('.npz')
  file.write_bytes(npz(features))
  return file


def write_pickle(path: pathlib.Path, features: Mapping, protocol=pickle.HIGHEST_PROTOCOL):
  file = path.with_suffix('.pkl')
  file.write_bytes(pickle.dumps(dict(features), protocol))
  return file


def write_torch(path: pathlib.Path, features: Mapping) -> pathlib.Path:
  file = path.with_suffix('.pth')
  file.write_bytes(torch_zip(features))
  return file


def write_h5(path: pathlib.Path, features: Mapping) -> pathlib.Path:
  file = path.with_suffix('.h5')
  with h5py.File(file, 'w') as h5:
    for name, array in features.items():
      h5[name] = array
  return file


def write_lmdb(path: pathlib.Path, features: Mapping) -> pathlib.Path:
  with lmdb.open(str(path), map_size=2**24, sync=False) as store:
    with store.begin(write=True) as transaction:
      for name, array in features.items():
        transaction.put(name.encode(), array if isinstance(array, bytes) else npy(array))
    store.sync(True)
  return path


def write_tar(path: pathlib.Path, features: Mapping) -> pathlib.Path:
  """Writes arrays as members ``NAME.npy``, and bytes as members NAME."""
  file = path.with_suffix('.tar')
  with tarfile.open(file, 'w') as archive:
    for name, array in features.items():
      data = array if isinstance(array, bytes) else npy(array)
      member = tarfile.TarInfo(name if isinstance(array, bytes) else f'{name}.npy')
      member.size = len(data)
      archive.addfile(member, io.BytesIO(data))
  return file


def write_tfds(path: pathlib.Path, features: Mapping) -> pathlib.Path:
  """A TFDS data set not made by ``data_prep``: ids in ``id``, one array in ``image``."""
  from array_record.python import array_record_module

  path.mkdir(parents=True, exist_ok=True)
  ranks = {np.ndim(a) for a in features.values()}
  shape = (None,) * (max(ranks) - 1) + (next(iter(features.values())).shape[-1],)
  spec = tfds.features.FeaturesDict(
    {
      'id': tfds.features.Text(),
      'image': tfds.features.Tensor(shape=shape, dtype=np.float32, encoding='bytes'),
    }
  )
  file = path / 'mine-train.array_record-00000-of-00001'
  writer = array_record_module.ArrayRecordWriter(str(file), 'group_size:1')
  for name, array in features.items():
    writer.write(spec.serialize_example({'id': name, 'image': array.astype(np.float32)}))
  writer.close()
  tfds.folder_dataset.write_metadata(
    data_dir=str(path),
    features=spec,
    split_infos=[tfds.core.SplitInfo(name='train', shard_lengths=[len(features)], num_bytes=0)],
    version='1.0.0',
    check_data=False,
  )
  return path


WRITERS = {
  'folder': write_folder,
  'npz': write_npz,
  'pickle': write_pickle,
  'torch': write_torch,
  'h5': write_h5,
  'lmdb': write_lmdb,
  'tar': write_tar,
  'tfds': write_tfds,
}


class Runs:
  """Calls a function when its pickle is loaded."""

  def __init__(self, function, *arguments):
    self.call = function, arguments

  def __reduce__(self):
    return self.call


@contextlib.contextmanager
def temporary_folder() -> Iterator[pathlib.Path]:
  """A fresh folder for each example of a property test."""
  with tempfile.TemporaryDirectory(prefix='features_') as path:
    yield pathlib.Path(path)
