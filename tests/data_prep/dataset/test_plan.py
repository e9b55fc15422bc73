"""Videos that are left out, and errors before anything is written."""

import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

from data_prep.build import main
from data_prep.dataset.builder import Options, build
from tests.building import arguments, options, values
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import Dropped
from vidcap_jax.errors import DataError


def test_videos_without_features(source):
  (source / 'image' / 'v3.npy').unlink()
  (source / 'image' / 'v2.npy').rename(source / 'image' / 'v9.npy')
  (source / 'clips.csv').open('a').write('\nv7,one more,val\nv9,x,val')
  with pytest.raises(DataError, match=r'3 of 7 .*v3 \(train: .*image\); v2.*v7.*skip'):
    build(options(source))
  assert not (source / 'out').exists()
  manifest, report = build(options(source, missing='skip'))
  assert manifest.dropped == (
    Dropped('v3', 'train', 'no features in image'),
    Dropped('v2', 'val', 'no features in image'),
    Dropped('v7', 'val', 'no features in image'),
  )
  assert {n: s.videos for n, s in manifest.splits.items()} == {'train': 2, 'val': 1, 'test': 1}
  assert 'dog' not in manifest.vocabulary['words']
  assert report.unused == {'image': []}


def spoil(source):
  np.save(source / 'image' / 'v1.npy', np.full((2, 4), np.nan))
  np.save(source / 'image' / 'v2.npy', np.ones((2, 5)))
  np.save(source / 'image' / 'v6.npy', np.ones((2, 4)))
  (source / 'image' / 'v5.npy').write_bytes(b'')
  (source / 'clips.csv').open('a').write('\nv6,a bird,val')


def test_bad_features_fail_before_anything_is_written(source):
  spoil(source)
  with pytest.raises(DataError) as caught:
    build(options(source))
  message = str(caught.value)
  assert '3 of 6 videos have bad features' in message
  for text in (
    f'v1: {source}/image/v1.npy: 8 of 8 values are NaN',
    f'v2: {source}/image/v2.npy: shape (2, 5), the stream has (any, 4)',
    f'v5: {source}/image/v5.npy: empty file (0 bytes)',
    '--bad=skip',
  ):
    assert text in message
  assert not (source / 'out').exists()


def test_bad_features_are_skipped_counted_and_named(source, capsys):
  spoil(source)
  manifest, report = build(options(source, missing='skip', shard_mb=1e-9))
  assert [(d.video_id, d.split) for d in manifest.dropped] == [
    ('v1', 'train'),
    ('v5', 'train'),
    ('v2', 'val'),
  ]
  assert 'NaN' in manifest.dropped[0].reason
  # One video a shard: those of bad videos are empty, and TFDS reads past them.
  assert [s.records for s in manifest.splits['train'].shards] == [1, 0, 0]
  assert [v.video_id for v in open_split(source / 'out', 'train')] == ['v3']
  data = tfds.builder_from_directory(source / 'out').as_data_source()
  assert {n: len(s) for n, s in data.items()} == {'train': 1, 'val': 1, 'test': 1}
  assert data['val'][0]['video_id'] == b'v6'
  np.testing.assert_allclose(
    manifest.stream('image').mean, values('v3', (3, 4)).astype(np.float16).mean(0, np.float64)
  )
  assert 'sings' not in manifest.vocabulary['words']
  assert main(['--missing=skip', '--shard_mb=1e-9', *arguments(source)]) == 0
  printed = capsys.readouterr().out
  assert 'nothing to do' in printed
  assert '2 videos of train: bad features (first: ' in printed


def test_many_faults_are_listed_and_counted(source):
  rows = [f'w{i:02d},a b,train' for i in range(30)]
  (source / 'clips.csv').open('a').write('\n' + '\n'.join(rows))
  with pytest.raises(DataError, match=r'30 of 35 .*w02.*and 27 more') as caught:
    build(options(source))
  assert 'w03' not in str(caught.value)
  assert [item.split()[0] for item in caught.value.items] == [f'w{i:02d}' for i in range(30)]


def test_split_without_remaining_videos_is_an_error(source):
  (source / 'image' / 'v2.npy').unlink()
  with pytest.raises(DataError, match=r"'val' is left without videos: all 1 .*\(v2\): no features"):
    build(options(source, missing='skip'))
  np.save(source / 'image' / 'v2.npy', np.full((1, 4), np.inf))
  with pytest.raises(DataError, match=r"'val' is left without videos: all 1 .*infinite"):
    build(options(source, missing='skip'))
  assert not (source / 'out' / 'manifest.json').exists()


def test_ids_that_do_not_match(source):
  for path in (source / 'image').iterdir():
    path.rename(path.with_name('clip_' + path.name))
  match = "features 'clip_v1', 'clip_v2', 'clip_v3', …; videos 'v3', 'v1', 'v5', …"
  for missing in ('skip', 'fail'):
    with pytest.raises(DataError, match=match):
      build(options(source, missing=missing))
  (source / 'map.txt').write_text(''.join(f'clip_v{n} v{n}\n' for n in range(1, 6)))
  manifest, _ = build(options(source, id_map=str(source / 'map.txt')))
  assert manifest.splits['train'].videos == 3
  assert open_split(source / 'out', 'val')[0].video_id == 'v2'


def test_split_file(source):
  file = source / 'splits.json'
  file.write_text(json.dumps({'train': ['v1', 'v2'], 'dev': ['v3'], 'test': ['v4', 'v5']}))
  np.save(source / 'image' / 'v6.npy', np.ones((2, 4)))
  manifest, report = build(options(source, splits=str(file)))
  assert {n: s.videos for n, s in manifest.splits.items()} == {'train': 2, 'val': 1, 'test': 2}
  assert report.unused == {'image': ['v6']}
  # A listed video need not be annotated, except to train on it; an unlisted one is left out.
  file.write_text(json.dumps({'train': ['v1', 'v6'], 'test': ['v6b', 'v3']}))
  np.save(source / 'image' / 'v6b.npy', np.ones((2, 4)))
  manifest, report = build(options(source, splits=str(file), overwrite=True))
  assert [v.video_id for v in open_split(source / 'out', 'test')] == ['v3', 'v6b']
  assert report.without_captions == {'train': 0, 'test': 1}
  assert Dropped('v6', 'train', 'no caption to train on') in manifest.dropped
  assert [d.video_id for d in manifest.dropped if d.reason == 'in no split'] == ['v2', 'v4', 'v5']


def test_missing_and_bad_features_have_separate_policies(source):
  (source / 'image' / 'v1.npy').unlink()
  np.save(source / 'image' / 'v3.npy', np.full((2, 4), np.inf))
  with pytest.raises(DataError, match='1 of 5 .*--missing=skip'):
    build(options(source, bad='skip'))
  with pytest.raises(DataError, match='1 of 4 .*v3: .*--bad=skip'):
    build(options(source, missing='skip', bad='fail'))
  manifest, _ = build(options(source, missing='skip'))
  assert [d.video_id for d in manifest.dropped] == ['v1', 'v3']


def test_unmatched_names_are_shown_from_both_sides(source):
  for n in (1, 2):
    (source / 'image' / f'v{n}.npy').rename(source / 'image' / f'clip{n}.npy')
  match = "v1 .train.*v2 .val.*image.*'clip1', 'clip2'"
  with pytest.raises(DataError, match=match):
    build(options(source))


@pytest.mark.parametrize('form', ['coco', 'karpathy'])
def test_features_named_as_the_files_of_pictures(tmp_path, form):
  """COCO's ids are numbers, and its features are made from files with other names."""
  files = {9: 'COCO_val2014_000000000009.jpg', 25: 'COCO_val2014_000000000025.jpg'}
  images = {
    'coco': [{'id': i, 'file_name': f'val2014/{name}'} for i, name in files.items()],
    'karpathy': [
      {'cocoid': i, 'filename': name, 'sentences': [{'raw': 'a cat'}]} for i, name in files.items()
    ],
  }[form]
  content = {'images': images}
  if form == 'coco':
    content['annotations'] = [{'image_id': i, 'caption': 'a cat'} for i in files]
  (tmp_path / 'captions.json').write_text(json.dumps(content))
  (tmp_path / 'image').mkdir()
  for i, name in files.items():
    np.save(tmp_path / 'image' / name.replace('.jpg', '.npy'), values(f'v{i}', (2, 4)))
  build(
    Options(
      form=form,
      annotations=(str(tmp_path / 'captions.json'),),
      features={'image': str(tmp_path / 'image')},
      split='train',
      out=str(tmp_path / 'set'),
      min_count=1,
      dtype='float32',
    )
  )
  stored = {v.video_id: v.features['image'] for v in open_split(tmp_path / 'set', 'train')}
  assert list(stored) == ['9', '25']
  for i in files:
    np.testing.assert_array_equal(stored[str(i)], values(f'v{i}', (2, 4)))
