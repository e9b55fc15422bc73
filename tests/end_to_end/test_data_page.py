"""The options that docs/data.md gives as examples, on small files of these names."""

import json
import pathlib
import pickle
import re
import shlex

import numpy as np
import pytest

from data_prep.build import main
from tests import feature_files
from tests.pytorch_projects import (
  CLIPS,
  MAPPING,
  corpus,
  frames,
  image_captioning,
  msrvtt,
  put,
  save,
)
from vidcap_jax.data.schema import read_manifest

PAGE = (pathlib.Path(__file__).parents[2] / 'docs' / 'data.md').read_text()
OPTIONS = re.findall(r'`(--(?:format|features)=[^`…]*)`', PAGE)
FORMATS = [o for o in OPTIONS if o.startswith('--format')]
FEATURES = [o for o in OPTIONS if o.startswith('--features') and 'NAME' not in o]


def segments(ids) -> dict:
  times = {'duration': 9.5, 'timestamps': [[0, 5.1], [3, 2]], 'sentences': ['A man.', ' He runs.']}
  return {f'v_{i}': times for i in ids}


def lsmdc(clip: str) -> str:
  return f'{clip}\t00:00:51,926\t00:00:54,129\t00:00:51,926\t00:00:54,129\tSOMEONE runs.\n'


def vatex(clip: str) -> list:
  return [{'videoID': clip, 'enCap': ['A man.'] * 2, 'chCap': ['一个人'] * 2}]


@pytest.fixture
def files(tmp_path, monkeypatch):
  """All annotation files that the page names, and features for all their videos."""
  monkeypatch.chdir(tmp_path)
  image_captioning()
  for file in pathlib.Path('data').glob('*.*'):
    file.rename(file.name)
  put('clips.csv', 'video_id,caption,split\nv1,a man,train\nv2,"a man, he runs",val\n')
  put('train.jsonl', '{"video_id": "v1", "captions": ["a man", "runs"], "category": 2}\n')
  put('test.jsonl', '{"video_id": "v2", "caption": "a man"}\n')
  put('captions.json', {f'vid{n}': ['a man'] for n in (1, 1201, 1301)})
  put('raw-captions.pkl', pickle.dumps({clip: [['a', 'man']] for clip in CLIPS}))
  for split, clip, n in zip(('train', 'val', 'test'), CLIPS, (1, 1201, 1301), strict=True):
    put(f'{split}_list.txt', clip + '\n')
    put(f'msvd/sents_{split}_lc_nopunc.txt', f'vid{n}\ta man\n')
  for split, n in (('train', 1), ('val', 2)):
    annotation = {'image_id': n, 'caption': 'a man', 'id': n}
    put(f'captions_{split}.json', {'images': [{'id': n}], 'annotations': [annotation]})
    put(f'results_2M_{split}.csv', f'videoid,name,contentUrl\n{n},"A man, he",https://a/b.mp4\n')
  data = msrvtt((0, 6513, 7010))
  put('train_val_videodatainfo.json', data)
  put('test_videodatainfo.json', {'videos': [{'video_id': 'video7011', 'split': 'test'}]})
  put('corpus.csv', corpus(CLIPS))
  put('youtube_mapping.txt', MAPPING)
  put('vatex_training_v1.0.json', vatex('-a_b_000001_000011'))
  put('vatex_validation_v1.0.json', vatex('c_000001_000011'))
  put('LSMDC16_annos_training.csv', lsmdc('M_00.00.51.926-00.00.54.129'))
  put('LSMDC16_annos_val.csv', lsmdc('N_00.00.51.926-00.00.54.129'))
  put('Flickr8k.token.txt', ''.join(f'{i}_f.jpg#0\tA man .\n' for i in range(3)))
  for i, split in enumerate(('train', 'dev', 'test')):
    put(f'Flickr_8k.{split}Images.txt', f'{i}_f.jpg\n')
  put('train.json', segments('ab'))
  put('val_1.json', segments('c'))
  ids = ['v1', 'v2', *CLIPS, *(f'vid{n}' for n in (1, 1201, 1301)), '1', '2', '-a_b_000001_000011']
  ids += [f'{i}_f.jpg' for i in range(3)]
  ids += ['c_000001_000011', *(str(391895 + i) for i in range(4))]
  ids += [f'video{n}' for n in (0, 6513, 7010, 7011)]
  ids += [f'{m}_00.00.51.926-00.00.54.129' for m in 'MN']
  ids += [f'v_{v}_segment_{n:02d}' for v in 'abc' for n in range(2)]
  save('features', {i: frames(3, 4) for i in ids})


def build(options: str, *more: str):
  # Few videos of each data set, hence not of its published size.
  done = main([*shlex.split(options), *more, '--output=out', '--counts=warn', '--min_count=1'])
  assert done == 0
  return read_manifest('out')


@pytest.mark.parametrize('options', FORMATS)
def test_annotations(files, options):
  manifest = build(options, '--features=image=features')
  assert sum(split.videos for split in manifest.splits.values()) >= 2
  assert not manifest.dropped
  assert 'train' in manifest.splits


def test_the_examples_are_those_of_the_page():
  assert len(FORMATS) == 15
  assert len(FEATURES) == 9


@pytest.mark.parametrize('options', FEATURES)
def test_features(tmp_path, monkeypatch, options):
  monkeypatch.chdir(tmp_path)
  ids = ['video0', 'video1', 'video2']
  put('captions.jsonl', ''.join(json.dumps({'id': i, 'caption': 'a man'}) + '\n' for i in ids))
  arrays = {i: frames(3, 4) for i in ids}
  path = pathlib.Path(options.split('=')[2].partition(' ')[0].partition(',')[0])
  whole = path.parent / path.stem
  if path.suffix == '.lmdb':
    feature_files.write_lmdb(path, arrays)
  elif path.suffix == '.pkl':
    feature_files.write_pickle(whole, {i: {'feat': frames(2, 4), 'box': frames(2, 5)} for i in ids})
  elif path.suffix == '.pth':
    feature_files.write_torch(whole, arrays)
  elif path.suffix == '.npz':
    feature_files.write_npz(whole, {i: frames(1, 4) for i in ids})
  elif 'rows' in options:
    table = np.stack([frames(3, 4) for _ in ids])
    feature_files.write_h5(whole, {'feats': table, 'lens': np.full(3, 3)})
  elif path.suffix == '.h5':
    feature_files.write_h5(whole, arrays)
  elif 'shards' in options:
    path.mkdir()
    names = [f'{i}.{n}.npy' for i in ids for n in ('image', 'boxes')]
    feature_files.write_tar(path / '0', {n: feature_files.npy(frames(2, 4)) for n in names})
  elif path.name == 'clips':
    feature_files.write_tfds(path, arrays)
  else:
    save(str(path), arrays)
  captions = '--format=jsonl --annotations=captions.jsonl --split=train'
  manifest = build(captions, *shlex.split(options))
  assert manifest.splits['train'].videos == 3
  kind = 'vector' if 'vector' in options else 'sequence'
  assert {stream.kind for stream in manifest.streams} == {kind}
