import concurrent.futures
import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds

from data_prep.dataset.writer import write_tfds_metadata
from vidcap_jax.data.records import (
  Video,
  absent,
  check_shard,
  encode_video,
  open_split,
  tfds_features,
  write_shard,
)
from vidcap_jax.data.schema import Manifest, Split, Stream, read_manifest, write_manifest
from vidcap_jax.errors import DataError

STREAMS = (
  Stream('image', 'sequence', (None, 4)),
  Stream('clip', 'vector', (3,), 'float32'),
  Stream('cells', 'grid', (None, 2, 3, 4)),
  Stream('boxes', 'regions', (None, None, 5)),
)


def video(i: int, *, frames: int = 2) -> Video:
  rng = np.random.default_rng(i)
  shapes = {
    'image': (frames, 4),
    'clip': (1, 3),
    'cells': (frames, 2, 3, 4),
    'boxes': (frames, 3, 5),
  }
  features = {
    s.name: rng.normal(size=shapes[s.name]).astype(s.dtype) if frames else absent(s)
    for s in STREAMS
  }
  captions = tuple(f'caption {n} of \u732b {i}' for n in range(i % 3))
  return Video(f'v{i}-\u00e9', captions, features, i - 1)


VIDEOS = [video(i, frames=i % 4) for i in range(10)]


@pytest.fixture
def folder(tmp_path):
  features = tfds_features(STREAMS)
  parts = {'train': [VIDEOS[:4], VIDEOS[4:7]], 'val': [VIDEOS[7:], []], 'test': [[]]}
  splits = {}
  for split, shards in parts.items():
    written = [
      write_shard(
        tmp_path / f'x-{split}.array_record-{i:05d}-of-{len(shards):05d}',
        (encode_video(v, features) for v in shard),
      )
      for i, shard in enumerate(shards)
    ]
    captions = sum(len(v.captions) for shard in shards for v in shard)
    splits[split] = Split(sum(map(len, shards)), captions, tuple(written))
  write_tfds_metadata(tmp_path, 'x', STREAMS, splits)
  write_manifest(Manifest('x', STREAMS, splits), tmp_path)
  return tmp_path


def assert_same(a: Video, b: Video):
  assert (a.video_id, a.captions, a.category) == (b.video_id, b.captions, b.category)
  assert a.features.keys() == b.features.keys()
  for name, array in a.features.items():
    assert array.dtype == b.features[name].dtype
    np.testing.assert_array_equal(array, b.features[name], strict=True)


def test_round_trip(folder):
  train, val = open_split(folder, 'train'), open_split(folder, 'val')
  assert (len(train), len(val), len(open_split(folder, 'test'))) == (7, 3, 0)
  for expected, found in zip(VIDEOS, [*train, *val], strict=True):
    assert_same(expected, found)
  assert_same(train[np.int64(5)], VIDEOS[5])
  for index in (7, -1):
    with pytest.raises(IndexError, match=f'video {index} of 7'):
      train[index]


def test_tfds_reads_the_same(folder):
  builder = tfds.builder_from_directory(folder)
  source = builder.as_data_source('train')
  assert len(source) == 7
  assert builder.info.splits['val'].num_examples == 3
  for expected, found in zip(VIDEOS, source, strict=False):
    assert found['video_id'].decode() == expected.video_id
    assert tuple(c.decode() for c in found['captions']) == expected.captions
    assert found['category'] == expected.category
    for name in ('image', 'clip', 'cells'):
      np.testing.assert_array_equal(found['features'][name], expected.features[name], strict=True)


def test_source_can_be_pickled_before_and_after_reading(folder):
  source = open_split(folder, 'train')
  for _ in range(2):
    source = pickle.loads(pickle.dumps(source))
    assert_same(source[6], VIDEOS[6])


def test_threads_read_at_once(folder):
  source = open_split(folder, 'train')
  indices = np.random.default_rng(0).integers(7, size=200).tolist()
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for i, found in zip(indices, pool.map(source.__getitem__, indices), strict=True):
      assert_same(found, VIDEOS[i])


def test_tensorflow_is_never_imported(folder):
  code = (
    'import sys; from vidcap_jax.data.records import open_split; '
    f'source = open_split({str(folder)!r}, "train"); assert source[0].video_id; '
    'assert "tensorflow" not in sys.modules and "jax" not in sys.modules'
  )
  subprocess.run([sys.executable, '-c', code], check=True, timeout=60)


def test_same_videos_give_the_same_bytes_in_any_process(folder):
  code = (
    'import hashlib; from vidcap_jax.data.records import encode_video, open_split, tfds_features; '
    f'source = open_split({str(folder)!r}, "train"); f = tfds_features(source.streams); '
    'print(hashlib.sha256(b"".join(encode_video(v, f) for v in source)).hexdigest())'
  )
  runs = [
    subprocess.run([sys.executable, '-c', code], check=True, timeout=60, capture_output=True).stdout
    for _ in range(2)
  ]
  assert runs[0] == runs[1]


@pytest.mark.parametrize('cut', [0, 100, 0.5, -1])
def test_truncated_shard_is_an_error(folder, cut):
  file = folder / 'x-train.array_record-00001-of-00002'
  data = file.read_bytes()
  size = int(len(data) * cut) if isinstance(cut, float) else cut
  file.write_bytes(data[:size])
  with pytest.raises(DataError, match='truncated or damaged') as caught:
    open_split(folder, 'train')
  assert str(file) in str(caught.value)
  assert 'found no records, expected 3' in str(caught.value)
  assert len(open_split(folder, 'val')) == 3


def test_shard_of_another_data_set_is_an_error(folder):
  # Whole and readable, but with another number of records.
  file = folder / 'x-train.array_record-00001-of-00002'
  file.write_bytes((folder / 'x-train.array_record-00000-of-00002').read_bytes())
  with pytest.raises(DataError, match='4 records.*3'):
    open_split(folder, 'train')


def test_missing_shard_and_split(folder):
  (folder / 'x-val.array_record-00000-of-00002').unlink()
  with pytest.raises(DataError, match='shard file is missing'):
    open_split(folder, 'val')
  with pytest.raises(DataError, match=r"'dev'.*train \(7\), val \(3\)"):
    open_split(folder, 'dev')


def test_another_size_is_found_when_opened(folder):
  shard = read_manifest(folder).splits['train'].shards[1]
  file = folder / shard.file
  assert shard.bytes == file.stat().st_size
  grown = dataclasses.replace(shard, bytes=shard.bytes - 1)
  with pytest.raises(DataError, match=f'{shard.bytes} bytes'):
    check_shard(folder, grown)
  check_shard(folder, dataclasses.replace(shard, bytes=0))  # Manifests that do not say.


def test_checksum_finds_a_changed_byte(folder):
  file = folder / 'x-train.array_record-00000-of-00002'
  data = bytearray(file.read_bytes())
  at = data.index(b'caption 0')
  data[at] ^= 1
  file.write_bytes(data)
  shard = read_manifest(folder).splits['train'].shards[0]
  check_shard(folder, shard)
  with pytest.raises(DataError, match='changed since it was written'):
    check_shard(folder, shard, checksum=True)


def test_a_failing_writer_leaves_no_shard(tmp_path):
  def records():
    yield b'one'
    raise RuntimeError('stop')

  with pytest.raises(RuntimeError, match='stop'):
    write_shard(tmp_path / 'shard', records())
  assert not (tmp_path / 'shard').exists()


def test_changed_bytes_are_found_when_read(folder):
  file = folder / 'x-train.array_record-00001-of-00002'
  data = bytearray(file.read_bytes())
  data[data.rindex(b'caption 0 of')] ^= 1
  file.write_bytes(data)
  source = open_split(folder, 'train')
  assert_same(source[4], VIDEOS[4])
  with pytest.raises(DataError, match=r'00001-of-00002: record \d'):
    list(source)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
  with pytest.raises(OSError, match='cannot be written') as caught:
    write_shard(tmp_path / 'none' / 'shard', [b'one'])
  assert caught.value.filename == str(tmp_path / 'none' / 'shard.partial')
