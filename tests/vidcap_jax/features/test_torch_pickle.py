"""State dicts are read as written; other pickles are refused and run no code."""

import collections
import io
import os
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import pytest

from tests.feature_files import Runs, torch_zip
from vidcap_jax.features import torch_pickle

MAGIC = 0x1950A86A20F9469CFC6C
TYPES = {'FloatStorage': '<f4', 'HalfStorage': '<f2', 'LongStorage': '<i8'}


class Storage:
  def __init__(self, key, kind, array, size=None):
    self.key, self.kind = key, kind
    self.array = np.asarray(array, TYPES[kind])
    self.size = self.array.size if size is None else size


class Tensor:
  def __init__(self, storage, offset, shape, strides):
    self.arguments = (storage, offset, shape, strides, False, collections.OrderedDict())

  def __reduce__(self):
    return sys.modules['torch._utils']._rebuild_tensor_v2, self.arguments


@pytest.fixture
def torch(monkeypatch):
  """A stand-in for the names that a pickler writes; it is gone when the file is read."""
  module, inner = types.ModuleType('torch'), types.ModuleType('torch._utils')
  for name in TYPES:
    setattr(module, name, type(name, (), {'__module__': 'torch', '__qualname__': name}))

  def _rebuild_tensor_v2():
    raise AssertionError('called')

  _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = (
    'torch._utils',
    '_rebuild_tensor_v2',
  )
  inner._rebuild_tensor_v2 = _rebuild_tensor_v2
  monkeypatch.setitem(sys.modules, 'torch', module)
  monkeypatch.setitem(sys.modules, 'torch._utils', inner)
  return module


def legacy_bytes(state, storages, torch=None) -> bytes:
  """A file as old versions of PyTorch wrote it."""

  class Pickler(pickle.Pickler):
    def persistent_id(self, value):
      if isinstance(value, Storage):
        return ('storage', getattr(torch, value.kind), value.key, 'cpu', value.size, None)
      return None

  file = io.BytesIO()
  system = {'protocol_version': 1001, 'little_endian': True, 'type_sizes': {'int': 4}}
  for part in (MAGIC, 1001, system):
    pickle.dump(part, file, protocol=2)
  Pickler(file, protocol=2).dump(state)
  pickle.dump([s.key for s in storages], file, protocol=2)
  for storage in storages:
    file.write(struct.pack('<q', storage.array.size) + storage.array.tobytes())
  return file.getvalue()


def write(path, *arguments):
  path.write_bytes(legacy_bytes(*arguments))
  return path


def test_reads_tensors_of_every_layout(tmp_path, torch):
  first = Storage('1', 'FloatStorage', np.arange(12))
  second = Storage('2', 'LongStorage', [7])
  half = Storage('3', 'HalfStorage', [0.5, 1.5])
  state = collections.OrderedDict(
    whole=Tensor(first, 0, (3, 4), (4, 1)),
    turned=Tensor(first, 0, (4, 3), (1, 4)),
    part=Tensor(first, 5, (2,), (3,)),
    scalar=Tensor(second, 0, (), ()),
    empty=Tensor(first, 0, (0, 4), (4, 1)),
    half=Tensor(half, 0, (2,), (1,)),
  )
  state._metadata = {'': {'version': 1}}  # as PyTorch sets it
  path = write(tmp_path / 'model.pth', state, [first, second, half], torch)
  sys.modules.pop('torch')
  sys.modules.pop('torch._utils')
  arrays = torch_pickle.load_state_dict(path)
  whole = np.arange(12, dtype=np.float32).reshape(3, 4)
  np.testing.assert_array_equal(arrays['whole'], whole)
  np.testing.assert_array_equal(arrays['turned'], whole.T)
  np.testing.assert_array_equal(arrays['part'], [5, 8])
  assert arrays['scalar'] == 7
  assert arrays['scalar'].dtype == np.int64
  assert arrays['empty'].shape == (0, 4)
  np.testing.assert_array_equal(arrays['half'], np.array([0.5, 1.5], np.float16))
  assert arrays['whole'].flags.writeable


def test_archives_of_newer_versions(tmp_path):
  arrays = {'a': np.arange(6, dtype=np.float32).reshape(2, 3), 'b': np.ones((), np.float32)}
  (tmp_path / 'model.pth').write_bytes(torch_zip(arrays))
  found = torch_pickle.load_state_dict(tmp_path / 'model.pth')
  for name, array in arrays.items():
    np.testing.assert_array_equal(found[name], array, strict=True)


def test_checkpoints_and_numpy_arrays(tmp_path):
  array = np.arange(6.0).reshape(2, 3)
  (tmp_path / 'checkpoint.pth').write_bytes(torch_zip({'state_dict': {'a': array}, 'epoch': 3}))
  found = torch_pickle.load_state_dict(tmp_path / 'checkpoint.pth')
  assert list(found) == ['a']
  np.testing.assert_array_equal(found['a'], array)

  path = write(tmp_path / 'pca.pth', {'means': array, 'one': np.float32(2)}, [])
  found = torch_pickle.load_state_dict(path)
  np.testing.assert_array_equal(found['means'], array)
  assert found['one'] == 2
  words = write(tmp_path / 'words.pth', {'names': np.array(['a', 'b'])}, [])
  with pytest.raises(
    torch_pickle.WeightsError, match=r"words.pth: 'names': it holds .*not numbers"
  ):
    torch_pickle.load_state_dict(words)


def test_runs_no_code(tmp_path):
  trace = tmp_path / 'trace'
  attacks = [
    Runs(os.system, f'touch {trace}'),
    Runs(os.mkdir, str(trace)),
    Runs(eval, f'open({str(trace)!r}, "w")'),
    Runs(getattr, 'x', 'upper'),
    Runs(pickle.loads, pickle.dumps(Runs(os.mkdir, str(trace)))),
    Runs(bytearray, 10),
  ]
  for attack in attacks:
    for state in (attack, {'weight': attack}, collections.OrderedDict(a=[attack])):
      path = write(tmp_path / 'evil.pth', state, [])
      with pytest.raises(torch_pickle.WeightsError, match='refuses to load'):
        torch_pickle.load_state_dict(path)
  # Where the magic number belongs, too.
  path = tmp_path / 'first.pth'
  path.write_bytes(pickle.dumps(Runs(os.mkdir, str(trace)), protocol=2))
  with pytest.raises(torch_pickle.WeightsError, match='refuses to load'):
    torch_pickle.load_state_dict(path)
  assert not trace.exists()


# What an attacker might do with the names that are known: instructions of the pickle machine.
NAMES = {
  'tensor': b'ctorch._utils\n_rebuild_tensor_v2\n',
  'type': b'ctorch\nFloatStorage\n',
  'dict': b'ccollections\nOrderedDict\n',
}


@pytest.mark.parametrize(
  'code',
  [
    NAMES['type'] + b')R.',  # calls a storage type
    NAMES['type'] + b')\x81.',  # … makes an object of it
    NAMES['type'] + b'N}X\x05\x00\x00\x00dtypeX\x01\x00\x00\x00Os\x86b.',  # changes what it is
    NAMES['tensor'] + b')R.',  # a tensor of nothing
    NAMES['tensor'] + b'}X\x08\x00\x00\x00__call__' + NAMES['dict'] + b'sb.',
    b'ctorch._utils\n_rebuild_tensor_v2.__globals__\n.',
    b'ccollections\nOrderedDict.__subclasses__\n.',
    b'cbuiltins\nexec\n.',
    b'\x80\x02\x82\x01.',  # the extension registry
    b'\x80\x04\x8c\x02os\x8c\x06system\x93.',  # names from the stack
    b'(X\x07\x00\x00\x00storagetQ.',  # a persistent object
  ],
)
def test_known_names_cannot_run_code(tmp_path, code):
  head = b''.join(pickle.dumps(p, protocol=2) for p in (MAGIC, 1001, {'little_endian': True}))
  path = tmp_path / 'evil.pth'
  path.write_bytes(head + code + pickle.dumps([], protocol=2))
  with pytest.raises(torch_pickle.WeightsError, match='evil.pth'):
    torch_pickle.load_state_dict(path)


@pytest.mark.parametrize(
  ('offset', 'shape', 'strides'),
  [
    (0, (7,), (1,)),
    (5, (2,), (1,)),
    (0, (2, 3), (6, 1)),
    (0, (2,), (-1,)),
    (-1, (2,), (1,)),
    (0, (2, 2), (1,)),
    (0, (10**18, 2), (0, 10**18)),
    (0, [2], (1,)),
    (0, (2.0,), (1,)),
  ],
)
def test_tensors_stay_within_their_storage(tmp_path, torch, offset, shape, strides):
  storage = Storage('1', 'FloatStorage', np.arange(6))
  state = {'weight': Tensor(storage, offset, shape, strides)}
  path = write(tmp_path / 'model.pth', state, [storage], torch)
  with pytest.raises(torch_pickle.WeightsError, match='tensor'):
    torch_pickle.load_state_dict(path)


def damaged_zips() -> dict[bytes, str]:
  whole = torch_zip({'w': np.arange(100)})
  code = whole[whole.index(b'\x80\x02') : whole.index(b'PK\x03\x04', 10)]

  def archive(*members, compression=zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w', compression) as made:
      for name, data in members:
        made.writestr(name, data)
    return file.getvalue()

  pickled, data = ('a/data.pkl', code), ('a/data/0', bytes(400))
  return {
    whole[:-30]: 'zip',
    archive(('x.npy', b'')): 'without data.pkl',
    archive(pickled): 'There is no item',
    archive(pickled, ('a/data/0', bytes(399))): '100 elements expected, found 399 bytes',
    archive(pickled, data, ('a/byteorder', 'big')): 'big-endian',
    archive(pickled, data, compression=zipfile.ZIP_DEFLATED): 'is compressed',
    whole.replace(np.float32(7).tobytes(), np.float32(8).tobytes(), 1): 'cannot be read .*CRC',
    archive(('a/data.pkl', pickle.dumps(Runs(os.getcwd)))): 'refuses to load',
  }


def test_damaged_and_other_files(tmp_path, torch):
  storage = Storage('1', 'FloatStorage', np.arange(100))
  whole = legacy_bytes({'w': Tensor(storage, 0, (100,), (1,))}, [storage], torch)
  liar = Storage('1', 'FloatStorage', np.arange(5), size=100)
  other = Storage('2', 'FloatStorage', np.arange(100))
  contents = {
    b'': 'damaged',
    whole[:30]: 'damaged',
    whole[:-1]: 'ends within',
    b'PK\x03\x04 and so on': 'zip',
    **damaged_zips(),
    b'text': 'damaged',
    pickle.dumps(1): 'legacy format',
    legacy_bytes([1, 2], []): 'not a state dict',
    legacy_bytes({'w': 3}, []): "'w' is not a tensor",
    legacy_bytes({'w': Tensor(liar, 0, (100,), (1,))}, [liar], torch): 'expected, found 5',
    legacy_bytes({'w': Tensor(storage, 0, (2,), (1,))}, [other], torch): 'list of storages',
  }
  for i, (data, message) in enumerate(contents.items()):
    path = tmp_path / f'{i}.pth'
    path.write_bytes(data)
    with pytest.raises(torch_pickle.WeightsError, match=message) as caught:
      torch_pickle.load_state_dict(path)
    assert path.name in str(caught.value)
  with pytest.raises(FileNotFoundError):
    torch_pickle.load_state_dict(tmp_path / 'none.pth')
