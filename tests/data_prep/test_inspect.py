import dataclasses

import numpy as np
import pytest

from data_prep.dataset.builder import Options, build
from data_prep.inspect import main
from vidcap_jax.data.records import Video, encode_video, tfds_features, write_shard
from vidcap_jax.data.schema import Split, read_manifest, write_manifest


@pytest.fixture
def folder(tmp_path):
  """A data set with a fault of every kind, on purpose."""
  rng = np.random.default_rng(0)
  arrays = {f'v{i:02d}': rng.normal(size=(8, 4)) for i in range(20)}
  arrays['v01'] = np.full((8, 4), 0.5)
  arrays['v02'] = arrays['v03']
  arrays['v16'] = arrays['v04']
  arrays['v05'][3:6] = arrays['v05'][0]
  arrays['v06'] = rng.normal(size=(1, 4))
  arrays['v07'] = rng.normal(size=(90, 4))
  (tmp_path / 'image').mkdir()
  (tmp_path / 'audio').mkdir()
  rows = ['id,caption,split']
  for i, (name, array) in enumerate(arrays.items()):
    np.save(tmp_path / 'image' / f'{name}.npy', array)
    if i != 9:
      np.save(tmp_path / 'audio' / f'{name}.npy', rng.normal(size=(3,)))
    split = 'train' if i < 15 else 'val' if i < 18 else 'test'
    rows += [f'{name},a dog runs fast,{split}', f'{name},a dog {name},{split}']
  rows += ['v00,a dog runs fast,train', 'v20,a cat,train', 'v21,a cat,']
  rows = [r.replace('a dog runs fast', '') if r[:3] == 'v19' else r for r in rows]
  rows.remove('v19,a dog v19,test')
  (tmp_path / 'clips.csv').write_text('\n'.join(rows))
  build(
    Options(
      'csv',
      (str(tmp_path / 'clips.csv'),),
      {'image': str(tmp_path / 'image'), 'audio': str(tmp_path / 'audio')},
      str(tmp_path / 'data'),
      optional=('audio',),
      missing='skip',
      min_count=2,
      max_words=3,
    )
  )
  return tmp_path / 'data'


def squeezed(text: str) -> list[str]:
  return [' '.join(line.split()) for line in text.splitlines()]


def test_a_data_set_in_full(folder, capsys):
  assert main([str(folder)]) == 0
  lines = squeezed(capsys.readouterr().out)
  manifest = read_manifest(folder)
  for expected in (
    f'hash {manifest.hash}',
    'train 1 15 31 2/2/3 3/4/4 16 1',
    'val 1 3 6 2/2/2 3/3.5/4 3 0',
    'test 1 2 2 0/1/2 3/3.5/4 1 0',
    'image: sequence (T, 4) float16, up to 90 frames',
    'audio: vector (3) float16, optional',
    'dropped 1 video: in no split (first: v21)',
    'dropped 1 caption: empty, of v19',
    'dropped 1 video of train: no features in image (first: v20)',
    '7 words, 4 of them special; hash ' + manifest.vocabulary['hash'],
    'tokenizer ptb_like, words that occur 2 times or more, captions up to 3 words',
    'train 93 15 83.87%',
    'most frequent: a 39, dog 39, fast 20, runs 20, v00 1, v01 1, v02 1, v03 1, v04 1, v05 1, '
    'v06 1, v07 1, v08 1, v09 1, v10 1, v11 1, v12 1, v13 1, v14 1, v15 1',
    'test: 1 video without captions: v19',
    'train, image: 1 video whose values are all equal: v01',
    'train, image: 2 videos with repeated frames, the most in v01 (7 of 8), v05 (3 of 8)',
    'train, image: 1 video unusually short in frames: v06 (1)',
    'train, image: 1 video unusually long in frames: v07 (90)',
    'image: 4 videos share their features with another: v02 (train) = v03 (train), '
    'v04 (train) = v16 (val)',
    'image: 2 videos share their features with another across splits: v04 (train) = v16 (val)',
  ):
    assert expected in lines
  stream = lines[lines.index('audio: vector (3) float16, optional') :]
  train = next(line for line in stream if line.startswith('train '))
  assert train.startswith('train 14 1/1/1')
  assert train.endswith(' 1')
  assert lines[-2:] == ['Broken', 'nothing']


def test_a_misspelled_split_is_odd(tmp_path, capsys):
  (tmp_path / 'image').mkdir()
  np.save(tmp_path / 'image' / 'v0.npy', np.ones((4, 3)))
  (tmp_path / 'a.csv').write_text('id,caption,split\nv0,a b,Trainig\n')
  options = Options('csv', (str(tmp_path / 'a.csv'),), {'image': str(tmp_path / 'image')}, '')
  build(dataclasses.replace(options, out=str(tmp_path / 'data')))
  assert main([str(tmp_path / 'data')]) == 0
  assert 'no split train, but Trainig: is a name misspelled?' in squeezed(capsys.readouterr().out)


def test_nothing_odd(tmp_path, capsys):
  (tmp_path / 'image').mkdir()
  for i in range(3):
    np.save(tmp_path / 'image' / f'v{i}.npy', np.random.default_rng(i).normal(size=(4, 3)))
  (tmp_path / 'a.csv').write_text('id,caption\nv0,a b\nv1,c\nv2,d e f\n')
  options = Options('csv', (str(tmp_path / 'a.csv'),), {'image': str(tmp_path / 'image')}, '')
  build(dataclasses.replace(options, out=str(tmp_path / 'data'), split='test'))
  assert main([str(tmp_path / 'data'), '--verify']) == 0
  lines = squeezed(capsys.readouterr().out)
  assert lines[lines.index('Odd') + 1] == 'nothing'
  assert lines[lines.index('Left out (the manifest names all)') + 1] == 'nothing'
  assert 'none: built without a train split and without --vocabulary' in lines
  assert 'checksums of all shards compared' in lines


def test_nan_is_reported_and_gives_exit_code_1(folder, capsys):
  # What build refuses may come from elsewhere.
  manifest = read_manifest(folder)
  arrays = {'image': np.zeros((100, 4), np.float16), 'audio': np.ones((1, 3), np.float16)}
  arrays['image'][:, 1] = np.nan
  arrays['image'][0, 0] = 7
  video = Video('odd', ('a',), arrays)
  shard = write_shard(
    folder / manifest.splits['val'].shards[0].file,
    [encode_video(video, tfds_features(manifest.streams))] * 2,
  )
  splits = {**manifest.splits, 'val': Split(3, 6, (shard,))}
  write_manifest(dataclasses.replace(manifest, splits=splits), folder)
  assert main([str(folder)]) == 1
  lines = squeezed(capsys.readouterr().out)
  broken = lines[lines.index('Broken') + 1 :]
  assert broken == [
    'val: 2 videos with 2 captions, the manifest says 3 with 6',
    'val: 1 record with the id of another record',
    'val, image: 2 videos with NaN or Inf: odd, odd',
    'val, image: 100 frames in one video, the manifest says 90 at most',
  ]
  assert 'val 1 100/100/100 0 to 7 0' in lines


def test_broken_shards_are_named_and_the_rest_is_shown(folder, capsys):
  path = folder / read_manifest(folder).splits['val'].shards[0].file
  data = bytearray(path.read_bytes())
  at = data.index(b'a dog runs fast')
  path.write_bytes(data[:at] + b'A' + data[at + 1 :])
  assert main([str(folder)]) == 1
  assert f'val: {path}: record 0: damaged record' in capsys.readouterr().out
  assert main([str(folder), '--verify']) == 1
  assert f'val: {path}: changed since it was written' in capsys.readouterr().out
  path.write_bytes(data[:70_000])
  assert main([str(folder)]) == 1
  lines = squeezed(capsys.readouterr().out)
  assert 'val 1 3 6 broken' in lines
  assert 'train 1 15 31 2/2/3 3/4/4 16 1' in lines
  assert lines[-1].startswith(f'val: {path}: truncated or damaged')


def test_no_data_set(tmp_path, capsys):
  assert main([str(tmp_path)]) == 1
  assert 'is not a data set' in capsys.readouterr().err


def test_coverage_is_counted_by_stream_and_split(folder, capsys):
  assert main([str(folder)]) == 0
  lines = squeezed(capsys.readouterr().out)
  table_of = lines[lines.index('Coverage') + 1 :]
  assert table_of[:4] == [
    'listed kept missing bad uncaptioned image audio',
    'train 16 15 1 0 0 15 (100.0%) 14 (93.3%)',
    'val 3 3 0 0 0 3 (100.0%) 3 (100.0%)',
    'test 2 2 0 0 0 2 (100.0%) 2 (100.0%)',
  ]
  # A folder from before it was counted says what its records say.
  manifest = read_manifest(folder)
  write_manifest(dataclasses.replace(manifest, coverage={}), folder)
  assert main([str(folder)]) == 0
  lines = squeezed(capsys.readouterr().out)
  assert 'train - 15 - - - 15 (100.0%) 14 (93.3%)' in lines
