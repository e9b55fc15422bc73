"""What a build writes, by form, split and stream."""

import dataclasses
import json

import h5py
import numpy as np
import pytest
import tensorflow_datasets as tfds

from data_prep.dataset.builder import build
from tests.building import ROWS, options, values
from vidcap_jax.data.records import count_records, open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.data.vocabulary import Vocabulary, build_vocabulary
from vidcap_jax.errors import DataError


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
  assert (report.left_out, report.without_captions['test']) == ({'empty': ['v4']}, 1)
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


def test_captions_may_stay_uncut(source):
  manifest, report = build(options(source, max_words=0))
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  assert 'song' in vocabulary.words
  assert vocabulary.max_words == 5  # of 'a man sings a song', the longest of train
  assert report.coverage['train'] == (12, 12)
  assert manifest.source['max_words'] == 0
  assert build(options(source, max_words=0))[1].unchanged
  with pytest.raises(DataError, match='max_words 0 there, 5 now'):
    build(options(source, max_words=5))


def test_words_of_other_splits_leak_only_if_the_options_say_so(source):
  manifest, report = build(options(source, leak_words_of=('val', 'test')))
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  assert 'cat' in vocabulary.words
  assert vocabulary.leaked_from == ('val', 'test')
  assert manifest.source['leak_words_of'] == ['val', 'test']
  assert read_manifest(source / 'out') == manifest
  assert report.coverage['val'] == (2, 2)
  with pytest.raises(DataError, match='leak_words_of'):
    build(options(source))
  by_default, _ = build(options(source, overwrite=True))
  assert 'leaked_from' not in by_default.vocabulary


def test_no_word_is_frequent_enough(source):
  with pytest.raises(DataError, match='9 times.*--min_count'):
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


def test_given_vocabulary_is_used(source):
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
  given = options(
    source, form='msvd', annotations=(str(source / 'msvd'),), id_map=str(source / 'map.txt')
  )
  with pytest.raises(DataError, match='train .*2 .*1,200; test .*1'):
    build(given)
  manifest, report = build(dataclasses.replace(given, counts='warn'))
  assert report.notes[0] == 'train has 2 videos, published are 1,200'
  assert {n: s.videos for n, s in manifest.splits.items()} == {'train': 2, 'test': 1}
  assert open_split(source / 'out', 'test')[0].video_id == 'vid3'


@pytest.mark.parametrize(
  ('changes', 'match'),
  [
    ({'missing': 'ignore'}, '--missing=ignore'),
    ({'dtype': 'int8'}, '--dtype=int8'),
    ({'counts': 'ignore'}, '--counts=ignore'),
    ({'language': 'zh'}, "--language=zh: the format 'csv'"),
    ({'min_count': 0}, '--min_count=0'),
    ({'max_words': -1}, '--max_words=-1'),
    ({'leak_words_of': ('dev',)}, "leak_words_of=dev: 'dev'.*val, test"),
    ({'leak_words_of': ('train',)}, "leak_words_of=train: 'train'"),
    ({'leak_words_of': ('val', 'val')}, "leak_words_of=val,val: 'val'"),
    ({'leak_words_of': ('test',), 'split': 'test'}, 'leak_words_of.*without a split train'),
    ({'shard_mb': float('nan')}, '--shard_mb'),
    ({'splits': 'x', 'split': 'y'}, 'exclude each other'),
    ({'features': {}}, 'no feature stream'),
    ({'features': {'a-b': 'x'}}, "stream name 'a-b'"),
    ({'kinds': {'audio': 'vector'}}, "--kinds: no stream 'audio'; there are image"),
    ({'kinds': {'image': 'cube'}}, 'image=cube: unknown kind'),
    ({'optional': ('audio',)}, "--optional: no stream 'audio'"),
    ({'tokenizer': 'moses'}, 'unknown tokenizer'),
    ({'name': 'My Data'}, '--name=My Data'),
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


@pytest.mark.parametrize(('folder', 'name'), [('1k-A', 'data_1k_a'), ('数据', 'data')])
def test_a_folder_may_have_any_name(source, folder, name):
  manifest, _ = build(options(source, out=str(source / folder)))
  assert manifest.name == name
  opened = tfds.builder_from_directory(str(source / folder))
  assert opened.name == name
  assert len(opened.as_data_source('val')) == 1


def test_chinese_vatex(source):
  clips = [{'videoID': f'v{n}', 'chCap': ['他在跑步。'], 'enCap': ['He runs.']} for n in (1, 2)]
  (source / 'vatex_training_v1.0.json').write_text(json.dumps(clips))
  files = (str(source / 'vatex_training_v1.0.json'),)
  given = options(source, form='vatex', annotations=files, language='zh', counts='warn')
  manifest, report = build(given)
  assert report.notes == ['train has 2 videos, published are 25,991']
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  assert vocabulary.by_character
  assert sorted(vocabulary.words[4:]) == sorted('他在跑步')
  assert open_split(source / 'out', 'train')[0].captions == ('他在跑步。',)
