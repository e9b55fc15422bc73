import json
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest
import tensorflow_datasets as tfds

from data_prep import builder, writer
from data_prep.build import main
from data_prep.builder import Options, build
from vidcap_jax.data.records import count_records, open_split
from vidcap_jax.data.schema import DataError, Dropped, read_manifest
from vidcap_jax.data.vocabulary import Vocabulary, build_vocabulary

ROWS = [
  ('v3', 'a dog runs', 'train'),
  ('v1', 'a man sings a song', 'train'),
  ('v3', 'the dog', 'train'),
  ('v2', 'a cat', 'val'),
  ('v4', '', 'test'),
  ('v5', 'a man', 'train'),
]


def values(video_id: str, shape) -> np.ndarray:
  rng = np.random.default_rng(int(video_id.removeprefix('v')))
  return rng.normal(size=shape).astype(np.float32)


@pytest.fixture
def source(tmp_path):
  """Annotations and one stream of five videos, with (n, 4) frames for video n."""
  lines = ['video_id,caption,split'] + [','.join(row) for row in ROWS]
  (tmp_path / 'clips.csv').write_text('\n'.join(lines))
  (tmp_path / 'image').mkdir()
  for n in range(1, 6):
    np.save(tmp_path / 'image' / f'v{n}.npy', values(f'v{n}', (n, 4)))
  return tmp_path


def options(source, **changes) -> Options:
  fields = {
    'form': 'csv',
    'annotations': (str(source / 'clips.csv'),),
    'features': {'image': str(source / 'image')},
    'out': str(source / 'out'),
    'min_count': 1,
    **changes,
  }
  return Options(**fields)


def contents(directory) -> dict[str, bytes]:
  return {p.name: p.read_bytes() for p in sorted(pathlib.Path(directory).iterdir()) if p.is_file()}


def test_build_and_read(source):
  manifest, report = build(options(source))
  assert read_manifest(source / 'out') == manifest
  assert not report.unchanged
  assert {n: (s.videos, s.captions) for n, s in manifest.splits.items()} == {
    'train': (3, 4),
    'val': (1, 1),
    'test': (1, 0),
  }
  train = list(open_split(source / 'out', 'train'))
  # The order of the annotation.
  assert [v.video_id for v in train] == ['v3', 'v1', 'v5']
  assert train[0].captions == ('a dog runs', 'the dog')
  for video in train:
    n = int(video.video_id[1:])
    expected = values(video.video_id, (n, 4)).astype(np.float16)
    np.testing.assert_array_equal(video.features['image'], expected, strict=True)
  assert open_split(source / 'out', 'test')[0].captions == ()
  assert (report.empty_captions, report.without_captions['test']) == (1, 1)
  assert not (source / 'out' / '.build').exists()

  builder = tfds.builder_from_directory(source / 'out')
  assert builder.name == 'out'
  assert [e['video_id'] for e in builder.as_data_source('train')] == [b'v3', b'v1', b'v5']


def test_streams_are_described(source):
  stream = build(options(source))[0].stream('image')
  assert (stream.kind, stream.shape, stream.dtype) == ('sequence', (None, 4), 'float16')
  assert (stream.longest, stream.most_regions, stream.optional) == (5, 0, False)
  # Of the training split alone: v1, v3 and v5.
  rows = np.concatenate([values(f'v{n}', (n, 4)).astype(np.float16) for n in (3, 1, 5)])
  np.testing.assert_allclose(stream.mean, rows.astype(np.float64).mean(0), rtol=1e-12)
  np.testing.assert_allclose(stream.std, rows.astype(np.float64).std(0), rtol=1e-12)


def test_vocabulary_is_of_the_training_split(source):
  manifest, report = build(options(source, max_words=4))
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  assert vocabulary == build_vocabulary([r[1] for r in ROWS if r[2] == 'train'], 1, 4)
  assert 'cat' not in vocabulary.words
  assert 'song' not in vocabulary.words  # The fifth word of its caption.
  assert report.coverage['val'] == (1, 2)


def test_no_word_is_frequent_enough(source):
  with pytest.raises(DataError, match='no word occurs 9 times.*lower --min_count'):
    build(options(source, min_count=9))
  assert not (source / 'out').exists()


def test_many_streams_of_all_kinds(source):
  for name in ('clip', 'cells'):
    (source / name).mkdir()
  with h5py.File(source / 'boxes.h5', 'w') as file:
    for n in range(1, 6):
      np.save(source / 'clip' / f'v{n}.npy', values(f'v{n}', (1, 3)))
      np.savez(source / 'cells' / f'v{n}.npz', values(f'v{n}', (2, 3, 3, 5)))
      if n != 3:
        file[f'v{n}'] = values(f'v{n}', (2, n, 6))
  sidecar = {'extractor': 'net', 'version': '2', 'sampling': {'uniform': 2}, 'kind': 'grid'}
  (source / 'cells' / 'stream.json').write_text(json.dumps(sidecar))
  features = {n: str(source / n) for n in ('image', 'clip', 'cells')}
  manifest, _ = build(
    options(
      source,
      features={**features, 'boxes': str(source / 'boxes.h5')},
      kinds={'clip': 'vector'},
      optional=('boxes',),
      dtype='float32',
    )
  )
  clip, cells, boxes = (manifest.stream(n) for n in ('clip', 'cells', 'boxes'))
  assert (clip.kind, clip.shape, clip.longest) == ('vector', (3,), 1)
  assert (cells.shape, cells.extractor, cells.version) == ((None, 3, 3, 5), 'net', '2')
  assert cells.sampling == {'uniform': 2}
  assert (boxes.kind, boxes.most_regions, boxes.optional) == ('regions', 5, True)
  v3, v1, _ = open_split(source / 'out', 'train')
  np.testing.assert_array_equal(v1.features['boxes'], values('v1', (2, 1, 6)), strict=True)
  np.testing.assert_array_equal(v1.features['clip'], values('v1', (1, 3)), strict=True)
  np.testing.assert_array_equal(v3.features['cells'], values('v3', (2, 3, 3, 5)), strict=True)
  assert v3.features['boxes'].shape == (0, 0, 6)
  assert read_manifest(source / 'out').hash == manifest.hash


def test_same_inputs_give_the_same_bytes(source):
  first, _ = build(options(source))
  command = [
    *(sys.executable, '-m', 'data_prep.build', '--format=csv', '--min_count=1', '--name=out'),
    *(f'--annotations={source}/clips.csv', f'--features=image={source}/image'),
    f'--out={source}/again',
  ]
  done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
  second = read_manifest(source / 'again')
  assert second.hash == first.hash
  one, two = contents(source / 'out'), contents(source / 'again')
  assert one.keys() == two.keys()
  assert all(one[n] == two[n] for n in one if n != 'manifest.json')
  for expected in ('train            3 videos, 4 captions', '1 captions: empty', first.hash):
    assert expected in done.stdout


def test_built_again_nothing_is_done(source):
  manifest, _ = build(options(source))
  before = {p.name: p.stat().st_mtime_ns for p in (source / 'out').iterdir()}
  again, report = build(options(source))
  assert report.unchanged
  assert again == manifest
  assert before == {p.name: p.stat().st_mtime_ns for p in (source / 'out').iterdir()}


@pytest.mark.parametrize(
  'change',
  [{'min_count': 2}, {'dtype': 'float32'}, {'missing': 'skip'}, {'optional': ('image',)}],
)
def test_other_options_need_overwrite(source, change):
  manifest, _ = build(options(source, shard_mb=1e-5))
  with pytest.raises(DataError, match='other inputs or options.*--overwrite'):
    build(options(source, **change))
  assert read_manifest(source / 'out') == manifest
  _, report = build(options(source, overwrite=True, **change))
  assert not report.unchanged
  # Nothing of the earlier one's shards is left.
  shards = [n for n in contents(source / 'out') if 'array_record' in n]
  assert len(shards) == 3
  assert len(open_split(source / 'out', 'train')) == 3


def test_a_foreign_folder_is_left_alone(source):
  (source / 'out').mkdir()
  (source / 'out' / 'thesis.tex').write_text('x')
  with pytest.raises(DataError, match='not empty and no data set'):
    build(options(source, overwrite=True))
  assert contents(source / 'out') == {'thesis.tex': b'x'}
  with pytest.raises(DataError, match='is a file'):
    build(options(source, out=str(source / 'clips.csv')))


def test_interrupted_build_goes_on(source, monkeypatch):
  # About one video a shard.
  made = options(source, shard_mb=4 * 4 * 2 / 2**20)
  whole, _ = build(options(source, shard_mb=made.shard_mb, out=str(source / 'whole'), name='out'))
  assert len(whole.splits['train'].shards) > 1
  real = writer.load_video

  def stop_at_v5(video, sources):
    if video.video_id == 'v5':
      raise KeyboardInterrupt
    return real(video, sources)

  monkeypatch.setattr(builder, '_check_all', lambda videos, sources: None)
  with monkeypatch.context() as patch:
    patch.setattr(writer, 'load_video', stop_at_v5)
    with pytest.raises(KeyboardInterrupt):
      build(made)
  out = source / 'out'
  finished = {p.name: p.stat().st_mtime_ns for p in out.glob('*array_record-*[0-9]')}
  assert finished
  assert not (out / 'manifest.json').exists()
  with pytest.raises(DataError, match='not a data set'):
    open_split(out, 'train')

  manifest, report = build(made)
  assert report.reused == len(finished)
  assert all((out / n).stat().st_mtime_ns == t for n, t in finished.items())
  assert manifest.hash == whole.hash
  shards = {n: d for n, d in contents(out).items() if n != 'manifest.json'}
  assert shards == {n: d for n, d in contents(source / 'whole').items() if n != 'manifest.json'}


@pytest.mark.parametrize('change', ['features', 'captions', 'shard', 'options'])
def test_shards_of_changed_inputs_are_written_again(source, monkeypatch, change):
  made = options(source, missing='skip')

  def stop(*args):
    raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr(writer, 'write_tfds_metadata', stop)
    with pytest.raises(KeyboardInterrupt):
      build(made)
  if change == 'features':
    np.save(source / 'image' / 'v3.npy', np.zeros((7, 4)))
  elif change == 'captions':
    (source / 'clips.csv').write_text(
      (source / 'clips.csv').read_text().replace('a dog runs', 'a cow')
    )
  elif change == 'shard':
    path = source / 'out' / 'out-train.array_record-00000-of-00001'
    path.write_bytes(path.read_bytes()[:-1])
  else:
    made = options(source, missing='skip', dtype='float32')
  _, report = build(made)
  assert report.reused == (0 if change == 'options' else 2)
  fresh, _ = build(
    options(source, missing='skip', dtype=made.dtype, out=str(source / 'fresh'), name='out')
  )
  assert read_manifest(source / 'out').hash == fresh.hash


def test_videos_without_features(source):
  (source / 'image' / 'v3.npy').unlink()
  (source / 'image' / 'v2.npy').rename(source / 'image' / 'v9.npy')
  (source / 'clips.csv').open('a').write('\nv7,one more,val\nv9,x,val')
  with pytest.raises(DataError, match=r'3 of 7 .*v3 \(train: no features in image\); v2.*v7.*skip'):
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
    '--missing=skip',
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
  with pytest.raises(DataError, match=r'30 of 35 .*w19.*and 10 more') as caught:
    build(options(source))
  assert 'w20' not in str(caught.value)


def test_a_split_that_loses_all_its_videos(source):
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


def test_without_a_training_split(source, capsys):
  manifest, report = build(options(source, split='test'))
  assert list(manifest.splits) == ['test']
  assert manifest.vocabulary is None
  assert manifest.stream('image').mean == manifest.stream('image').std == ()
  assert report.coverage == {}
  assert main([*arguments(source), '--split=test']) == 0
  assert 'vocabulary    none' in capsys.readouterr().out


def test_with_a_vocabulary_from_elsewhere(source):
  words = build_vocabulary(['a man walks'], 1, 9)
  file = source / 'words.json'
  file.write_text(json.dumps(words.to_dict()))
  manifest, _ = build(options(source, vocabulary=str(file)))
  assert Vocabulary.from_dict(manifest.vocabulary) == words
  # Or from another data set.
  other, _ = build(
    options(source, split='test', vocabulary=str(source / 'out'), out=str(source / 'other'))
  )
  assert Vocabulary.from_dict(other.vocabulary) == words


def test_categories(source):
  rows = [{'id': 'v1', 'caption': 'a', 'category': 3}, {'id': 'v2', 'caption': 'b'}]
  (source / 'a.jsonl').write_text('\n'.join(map(json.dumps, rows)))
  manifest, _ = build(
    options(source, form='jsonl', annotations=(str(source / 'a.jsonl'),), split='train')
  )
  assert manifest.categories == 4
  assert [v.category for v in open_split(source / 'out', 'train')] == [3, -1]


def test_msvd_by_youtube_id(source):
  (source / 'msvd').mkdir()
  (source / 'msvd' / 'sents_train_lc_nopunc.txt').write_text('vid1\ta dog\nvid2\ta cat\n')
  (source / 'msvd' / 'sents_test_lc_nopunc.txt').write_text('vid3\ta man\n')
  (source / 'map.txt').write_text('v1 vid1\nv2 vid2\nv3 vid3\n')
  manifest, _ = build(
    options(
      source, form='msvd', annotations=(str(source / 'msvd'),), id_map=str(source / 'map.txt')
    )
  )
  assert {n: s.videos for n, s in manifest.splits.items()} == {'train': 2, 'test': 1}
  assert open_split(source / 'out', 'test')[0].video_id == 'vid3'


@pytest.mark.parametrize(
  ('changes', 'match'),
  [
    ({'missing': 'ignore'}, '--missing=ignore'),
    ({'dtype': 'int8'}, '--dtype=int8'),
    ({'min_count': 0}, 'at least 1'),
    ({'shard_mb': float('nan')}, '--shard_mb'),
    ({'splits': 'x', 'split': 'y'}, 'exclude each other'),
    ({'features': {}}, 'no feature stream'),
    ({'features': {'a-b': 'x'}}, "stream name 'a-b'"),
    ({'kinds': {'audio': 'vector'}}, "--kinds: no stream 'audio'; there are image"),
    ({'kinds': {'image': 'cube'}}, 'image=cube: unknown kind'),
    ({'optional': ('audio',)}, "--optional: no stream 'audio'"),
    ({'tokenizer': 'moses'}, 'unknown tokenizer'),
    ({'name': 'My Data'}, "data set name 'My Data'"),
    ({'vocabulary': '/none'}, 'no such file'),
  ],
)
def test_bad_options(source, changes, match):
  with pytest.raises(DataError, match=match):
    build(options(source, **changes))
  assert not (source / 'out').exists()


def test_the_name_comes_from_the_folder(source):
  manifest, _ = build(options(source, out=str(source / 'My-Clips (2)')))
  assert manifest.name == 'my_clips_2'
  assert count_records(source / 'My-Clips (2)' / 'my_clips_2-val.array_record-00000-of-00001') == 1


def arguments(source) -> list[str]:
  return [
    *('--format=csv', f'--annotations={source}/clips.csv', '--min_count=1'),
    *(f'--features=image={source}/image', f'--out={source}/out'),
  ]


def test_command_says_what_is_wrong_in_one_line(source, capsys):
  (source / 'image' / 'v3.npy').unlink()
  assert main(arguments(source)) == 1
  printed = capsys.readouterr()
  assert printed.out == ''
  assert printed.err.startswith('error: 1 of 5 videos have no features')
  assert printed.err.count('\n') == 1
  for option, text in (
    ('--features=image', "--features: 'image' is not of the form NAME=VALUE"),
    ('--kinds=image=grid,image=vector', "--kinds: 'image' is given twice"),
    ('--vocabulary=words.json', '--vocabulary brings its own min_count'),
  ):
    assert main([*arguments(source), option]) == 1
    assert text in capsys.readouterr().err
  (source / 'file').write_text('')
  assert main([*arguments(source), '--missing=skip', f'--out={source}/file/x']) == 1
  assert f'{source}/file' in capsys.readouterr().err
  with pytest.raises(SystemExit) as caught:
    main(['--format=coco'])
  assert caught.value.code == 2


def test_interrupt_is_not_a_crash(source, capsys, monkeypatch):
  def stop(*args):
    raise KeyboardInterrupt

  monkeypatch.setattr(writer, 'write_tfds_metadata', stop)
  assert main(arguments(source)) == 130
  assert 'the same command goes on' in capsys.readouterr().err


def test_files_with_commas(source):
  (source / 'clips.csv').rename(source / 'a,b.csv')
  (source / 'more.csv').write_text('id,caption,split\nv3,again,train\n')
  args = [a for a in arguments(source) if 'annotations' not in a]
  assert main([*args, f'--annotations={source}/a,b.csv']) == 0
  assert main([*args, f'--annotations={source}/more.csv,{source}/more.csv', '--overwrite']) == 0
  assert open_split(source / 'out', 'train')[0].captions == ('again', 'again')


def test_built_already_but_damaged_since(source):
  build(options(source))
  path = source / 'out' / 'out-val.array_record-00000-of-00001'
  path.write_bytes(path.read_bytes()[:-9])
  with pytest.raises(DataError, match='found no records, expected 1'):
    build(options(source))
  build(options(source, overwrite=True))
  assert len(open_split(source / 'out', 'val')) == 1
