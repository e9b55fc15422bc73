"""The commands of docs/from-pytorch.md on small files in each project's exact schema."""

import collections
import csv
import io
import json
import pathlib
import pickle
import re
import shlex

import h5py
import numpy as np
import pytest

from data_prep.annotations import read_annotations
from data_prep.annotations.splits import read_splits
from data_prep.build import main
from tests.data_prep.feature_files import npz, torch_zip, write_h5, write_lmdb
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import DataError, read_manifest

PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'from-pytorch.md'
RNG = np.random.default_rng(0)
SPLITS = ('train', 'val', 'test')


def sections() -> dict[str, list[list[str]]]:
  """The page's build commands, as words, by section."""
  found: dict[str, list[list[str]]] = {}
  for section in PAGE.read_text().split('\n## ')[1:]:
    code = '\n'.join(re.findall(r'^    (.*)$', section, re.M)).replace('\\\n', ' ')
    commands = [shlex.split(line) for line in code.splitlines() if 'data_prep.build' in line]
    if commands:
      found[section.partition('\n')[0]] = commands
  return found


def put(path: str, content) -> pathlib.Path:
  """Writes text, bytes, or anything else as JSON, below the current folder."""
  file = pathlib.Path(path)
  file.parent.mkdir(parents=True, exist_ok=True)
  text = content if isinstance(content, str | bytes) else json.dumps(content)
  file.write_bytes(text.encode() if isinstance(text, str) else text)
  return file


def save(path: str, arrays) -> None:
  """A folder of .npy files."""
  for name, array in arrays.items():
    file = pathlib.Path(path, f'{name}.npy')
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, np.asarray(array, np.float32))


def h5(path: str, arrays) -> None:
  file = pathlib.Path(path)
  file.parent.mkdir(parents=True, exist_ok=True)
  write_h5(file.with_suffix(''), arrays).rename(file)


def frames(T: int, D: int) -> np.ndarray:
  return RNG.normal(size=(T, D)).astype(np.float32)


def sentence(text: str, image: int, number: int) -> dict:
  return {'tokens': text.split(), 'raw': text.title() + '.', 'imgid': image, 'sentid': number}


def karpathy(coco: bool) -> dict:
  """Four images: a train, a restval, a val and a test one."""
  images = []
  for i, split in enumerate(('train', 'restval', 'val', 'test')):
    image = {
      'sentids': [2 * i, 2 * i + 1],
      'imgid': i,
      'sentences': [sentence('a man rides', i, 2 * i), sentence('the man', i, 2 * i + 1)],
      'split': split,
      'filename': f'COCO_val2014_{i:012d}.jpg',
    }
    images.append(image | ({'filepath': 'val2014', 'cocoid': 391895 + i} if coco else {}))
  return {'images': images, 'dataset': 'coco' if coco else 'flickr30k'}


def image_captioning():
  put('data/dataset_coco.json', karpathy(coco=True))
  put('data/dataset_flickr30k.json', karpathy(coco=False))
  ids = [str(391895 + i) for i in range(4)]
  save('data/cocotalk_fc', {i: RNG.normal(size=8) for i in ids})
  for i, name in enumerate(ids):
    put(f'data/cocotalk_att/{name}.npz', npz({'feat': RNG.normal(size=(3, 3, 8))}))
    put(f'data/cocobu_att/{name}.npz', npz({'feat': frames(5 + i, 8)}))
  stored = {i: npz({'feat': frames(5, 8)}) for i in ids}
  write_lmdb(pathlib.Path('data/cocobu_att.lmdb'), {**stored, '__keys__': pickle.dumps(set(ids))})
  put('data/f30kbu_att.pth', torch_zip({str(i): frames(36, 8) for i in range(4)}))
  words = {'1': 'a', '2': 'man', '3': 'UNK', '4': 'the'}
  images = [
    {'split': image['split'], 'file_path': image['filename'], 'id': image['cocoid']}
    for image in karpathy(coco=True)['images']
  ]
  put('data/cocotalk.json', {'ix_to_word': words, 'images': images})
  rows = np.array([[1, 2, 3, 0], [4, 2, 0, 0]] * 4, np.uint32)
  starts = np.arange(1, 9, 2, dtype=np.uint32)
  arrays = {'label_start_ix': starts, 'label_end_ix': starts + 1, 'label_length': (rows > 0).sum(1)}
  h5('data/cocotalk_label.h5', {'labels': rows, **arrays})


def msrvtt(numbers, splits=True) -> dict:
  """The official annotation of these videos; with 2016's split names unless all is train."""
  videos, sentences = [], []
  for n, split in zip(numbers, ('train', 'validate', 'test'), strict=True):
    videos.append(
      {
        'category': 9,
        'url': 'https://www.youtube.com/watch?v=9lZi22qLlEo',
        'video_id': f'video{n}',
        'start time': 137.72,
        'end time': 149.44,
        'split': split if splits else 'train',
        'id': n,
      }
    )
    for _ in range(2):
      sentences.append({'caption': 'a car, is', 'video_id': f'video{n}', 'sen_id': len(sentences)})
  return {'info': {'year': '2016'}, 'videos': videos, 'sentences': sentences}


def train_val_and_test(folder: str, numbers) -> None:
  """The official annotation as its two files."""
  data = msrvtt(numbers)
  parts = {'train_val': data['videos'][:2], 'test': data['videos'][2:]}
  for name, videos in parts.items():
    ids = {video['video_id'] for video in videos}
    sentences = [s for s in data['sentences'] if s['video_id'] in ids]
    put(f'{folder}/{name}_videodatainfo.json', {'videos': videos, 'sentences': sentences})


CORPUS = ('VideoID', 'Start', 'End', 'WorkerID', 'Source', 'AnnotationTime', 'Language')
CLIPS = ('-wa0umYJVGg_271_276', 'cWOPC2kt_IA_8_16', 't4vP-cXXWkY_14_20')


def corpus(clips, index=False) -> str:
  """MSVD as it was collected; with pandas' column of numbers if asked for."""
  rows = []
  for clip in clips:
    video, start, end = clip.rsplit('_', 2)
    for language, text in (('English', 'A man\nis "here".'), ('English', ''), ('German', 'Ja')):
      rows.append([video, start, end, '22', 'clean', '55', language, text])
  text = io.StringIO()
  head = [*CORPUS, 'Description']
  table = csv.writer(text)
  table.writerow(['', *head] if index else head)
  table.writerows([[i, *row] if index else row for i, row in enumerate(rows)])
  return text.getvalue()


def lists(folder: str, ids, names=('train.list', 'valid.list', 'test.list')) -> None:
  for name, one in zip(names, ids, strict=True):
    put(f'{folder}/{name}', json.dumps([one], indent=2))


def video_caption():
  data = msrvtt((0, 1, 2))
  put('data/videodatainfo_2017.json', data)
  words = {'0': '<eos>', '1': '<sos>', '2': 'a', '3': 'car', '4': 'is'}
  final = ['<sos>', 'a', 'car', 'is', '<eos>']
  videos = {'train': [0], 'val': [1], 'test': [2]}
  put(
    'data/info.json',
    {'ix_to_word': words, 'word_to_ix': {w: int(i) for i, w in words.items()}, 'videos': videos},
  )
  captions = {'captions': ['a car, is'] * 2, 'final_captions': [final] * 2}
  put('data/caption.json', {f'video{n}': captions for n in range(3)})
  save('data/feats/resnet152', {f'video{n}': frames(40, 8) for n in range(3)})
  save('data/c3d_feats', {f'video{n}': frames(3 + n, 4) for n in range(3)})


def sa_lstm():
  folder = 'data/MSVD/metadata'
  put(f'{folder}/MSR Video Description Corpus.csv', corpus(CLIPS))
  lists(folder, CLIPS)
  h5('data/MSVD/features/MSVD_ResNet152.hdf5', {clip: frames(9, 8) for clip in CLIPS})
  for split, clip in zip(SPLITS, CLIPS, strict=True):
    put(f'{folder}/{split}.csv', corpus([clip], index=True))
  folder, numbers = 'data/MSR-VTT/metadata', (0, 6513, 7010)
  train_val_and_test(folder, numbers)
  lists(folder, [f'video{n}' for n in numbers])
  h5(
    'data/MSR-VTT/features/MSR-VTT-v2016_ResNet152.hdf5',
    {f'video{n}': frames(9, 8) for n in numbers},
  )
  for split, n in zip(SPLITS, numbers, strict=True):
    put(f'{folder}/{split}.json', {f'video{n}': {'0': 'a car, is', '1': 'a car, is'}})


MAPPING = ''.join(f'{clip} vid{n}\n' for clip, n in zip(CLIPS, (1, 1201, 1301), strict=True))


def rmn():
  train_val_and_test('data/MSR-VTT', (0, 6513, 7010))
  rows = 7011
  h5(
    'data/MSR-VTT/msr-vtt_features.h5',
    {'feats': np.ones((rows, 2, 4), np.float32), 'lens': np.full(rows, 2)},
  )
  h5(
    'data/MSR-VTT/msrvtt_region_feature.h5',
    {'vfeats': np.ones((rows, 2, 3, 4), np.float32), 'sfeats': np.ones((rows, 2, 3, 5))},
  )
  put('data/MSVD/video_corpus.csv', corpus(CLIPS))
  put('data/MSVD/youtube_mapping.txt', MAPPING)
  feats = np.arange(1970, dtype=np.float32)[:, None, None] * np.ones((1, 2, 4), np.float32)
  h5('data/MSVD/msvd_features.h5', {'feats': feats, 'lens': np.full(1970, 2)})


def references(ids) -> bytes:
  """refs.pkl, a defaultdict."""
  found = collections.defaultdict(list)
  for name in ids:
    for n in range(2):
      found[name].append({'image_id': name, 'cap_id': n, 'caption': 'a car is'})
  return pickle.dumps(found)


def nacf():
  numbers = (0, 6513, 7010)
  put('MSRVTT/refs.pkl', references(f'video{n}' for n in numbers))
  for name in (
    'image_resnet101_imagenet_fps_max60',
    'motion_resnext101_kinetics_duration16_overlap8',
  ):
    h5(f'MSRVTT/feats/{name}.hdf5', {f'video{n}': frames(6, 8) for n in numbers})
  numbers = (0, 1200, 1300)
  put('Youtube2Text/refs.pkl', references(f'video{n}' for n in numbers))
  h5(
    'Youtube2Text/feats/image_resnet101_imagenet_fps_max60.hdf5',
    {f'video{n}': frames(6, 8) for n in numbers},
  )
  # As the page's line of shell makes it.
  put('numbers.txt', ''.join(f'video{n} vid{n + 1}\n' for n in range(1970)))


def clip():
  numbers = (0, 6513, 7010)
  put('dataset/MSRVTT/MSRVTT_data.json', msrvtt(numbers, splits=False))
  features = {f'video{n}': frames(4, 8) for n in numbers}
  put('extracted_feats/msrvtt/MSRVTT_CLIP4Clip_features.pickle', pickle.dumps(features))
  captions = {name: [['a', 'man'], ['the', 'man']] for name in CLIPS}
  put('dataset/MSVD/raw-captions.pkl', pickle.dumps(captions))
  for split, name in zip(SPLITS, CLIPS, strict=True):
    put(f'dataset/MSVD/{split}_list.txt', name + '\n')
  put('dataset/MSVD/youtube_mapping.txt', MAPPING)
  features = {f'vid{n}': frames(4, 8) for n in (1, 1201, 1301)}
  put('extracted_feats/msvd/MSVD_CLIP4Clip_features.pickle', pickle.dumps(features))


def s2vt():
  for split, n in zip(SPLITS, (1, 1201, 1301), strict=True):
    put(f'data/msvd/sents_{split}_lc_nopunc.txt', f'vid{n}\ta man\nvid{n}\tthe man\n')
  put('data/msvd/youtube_mapping.txt', MAPPING)
  save('data/feats', {name: frames(5, 8) for name in CLIPS})


PROJECTS = {
  'ImageCaptioning.pytorch': image_captioning,
  'video-caption.pytorch': video_caption,
  'SA-LSTM': sa_lstm,
  'RMN': rmn,
  'NACF, CARE, POS-CG': nacf,
  'CLIP4Caption, CLIP4Clip, UniVL': clip,
  'S2VT': s2vt,
}


def test_every_command_of_the_page_has_its_files():
  assert sections().keys() == PROJECTS.keys()


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
  """Lays out a project's files and runs the page's commands; captions by split for each."""
  monkeypatch.chdir(tmp_path)

  def commands(project):
    PROJECTS[project]()
    found = []
    for command in sections()[project]:
      out = next(word for word in command if word.startswith('--out=')).partition('=')[2]
      # The files here are a few videos of each data set, hence not of its published size.
      done = main([*command[3:], '--counts=warn', '--min_count=1'])
      assert done == 0, capsys.readouterr().err
      found.append(read_manifest(out))
      for split in SPLITS:
        videos = list(open_split(out, split))
        assert videos
        assert all(len(v.captions) in (1, 2) for v in videos)
        assert all(np.isfinite(a).all() and len(a) for v in videos for a in v.features.values())
    return found

  return commands


def shapes(manifest) -> dict[str, tuple[str, tuple]]:
  return {s.name: (s.kind, s.shape) for s in manifest.streams}


def test_image_captioning_pytorch(run):
  coco, bottom_up, store, flickr, numbers = run('ImageCaptioning.pytorch')
  assert shapes(coco) == {'fc': ('vector', (8,)), 'att': ('grid', (None, 3, 3, 8))}
  for manifest in (bottom_up, store, flickr):
    assert shapes(manifest) == {'att': ('regions', (None, None, 8))}
    assert manifest.stream('att').longest == 1
  assert bottom_up.stream('att').most_regions == 8
  for manifest in (coco, bottom_up, store, flickr, numbers):
    counts = {name: split.videos for name, split in manifest.splits.items()}
    assert counts == {'train': 2, 'val': 1, 'test': 1}  # restval is trained on
  video = next(iter(open_split('data/coco', 'val')))
  assert (video.video_id, video.captions) == ('391897', ('A Man Rides.', 'The Man.'))
  video = next(iter(open_split('data/coco_numbers', 'val')))
  assert (video.video_id, video.captions) == ('391897', ('a man UNK', 'the man'))
  assert next(iter(open_split('data/f30k', 'val'))).video_id == '2'


def test_video_caption_pytorch(run):
  made, annotated = run('video-caption.pytorch')
  assert shapes(made) == {'image': ('sequence', (None, 8)), 'c3d': ('sequence', (None, 4))}
  assert next(iter(open_split('data/msrvtt', 'val'))).video_id == 'video1'
  assert next(iter(open_split('data/msrvtt', 'val'))).captions == ('a car, is',) * 2
  assert annotated.categories == 10


def test_sa_lstm(run):
  for manifest in run('SA-LSTM'):
    assert shapes(manifest) == {'image': ('sequence', (None, 8))}
  for out in ('data/msvd', 'data/msvd_parts'):
    video = next(iter(open_split(out, 'train')))
    assert (video.video_id, video.captions) == (CLIPS[0], ('A man is "here".',))
  for out in ('data/msrvtt', 'data/msrvtt_parts'):
    assert next(iter(open_split(out, 'test'))).video_id == 'video7010'


def test_rmn(run):
  msrvtt_set, _ = run('RMN')
  assert shapes(msrvtt_set) == {
    'image': ('sequence', (None, 4)),
    'objects': ('regions', (None, None, 4)),
  }
  # vid1201 is row 1200.
  assert next(iter(open_split('data/msvd_rmn', 'val'))).features['image'][0, 0] == 1200


def test_nacf(run):
  run('NACF, CARE, POS-CG')
  assert next(iter(open_split('data/msrvtt_nacf', 'val'))).captions == ('a car is',) * 2
  assert next(iter(open_split('data/msvd_nacf', 'val'))).video_id == 'video1200'


def test_clip4caption(run):
  run('CLIP4Caption, CLIP4Clip, UniVL')
  assert next(iter(open_split('data/msrvtt_clip', 'test'))).video_id == 'video7010'
  video = next(iter(open_split('data/msvd_clip', 'val')))
  assert (video.video_id, video.captions) == (CLIPS[1], ('a man', 'the man'))


def test_s2vt(run):
  run('S2VT')
  assert next(iter(open_split('data/msvd_s2vt', 'test'))).video_id == 'vid1301'


def test_pickles_of_python_2(tmp_path):
  """CAP.pkl of POS-CG: texts are bytes there."""
  caption = {'image_id': 'vid1', 'cap_id': 0, 'caption': 'A man.', 'tokenized': 'a man'}
  code = pickle.dumps({'vid1': [caption]}, 2).replace(b'X\x04\0\0\0vid1', b'U\x04vid1')
  file = put(f'{tmp_path}/CAP.pkl', code.replace(b'X\x06\0\0\0A man.', b'U\x06A man.'))
  found = read_annotations('pickle', [str(file)])
  assert found.videos['vid1'].captions == ['A man.']


@pytest.mark.parametrize(
  ('contents', 'match'),
  [
    ({'a': 'x'}, None),
    ({'a': {'captions': 'x'}}, None),
    ({'a': [{'text': 'x'}]}, "captions of 'a' are neither"),
    ({'a': [['x', 1]]}, "captions of 'a' are neither"),
    ({'a': {'b': {'c': 'x'}}}, "captions of 'a' are neither"),
    ({'a': 1}, "captions of 'a' are neither"),
    (['a'], 'not captions by id'),
    ({('a', 1): ['x']}, 'video id'),
    ({'a': [[[[[[[[['x']]]]]]]]]}, 'nested too deep'),
    ({'a': np.zeros(2)}, "captions of 'a' are neither"),
    ({'a': np.float32}, 'refuses to load'),
  ],
)
def test_what_captions_by_id_may_be(tmp_path, contents, match):
  file = str(put(f'{tmp_path}/a.pkl', pickle.dumps(contents)))
  if match is None:
    assert read_annotations('pickle', [file]).videos['a'].captions == ['x']
    return
  with pytest.raises(DataError, match=match) as caught:
    read_annotations('pickle', [file])
  assert file in str(caught.value)


def labels(tmp_path, **changes):
  images = [{'id': 7, 'split': 'train'}, {'id': 8, 'split': 'val'}]
  words = put(f'{tmp_path}/a.json', {'ix_to_word': {'1': 'a', '2': 'UNK'}, 'images': images})
  arrays = {
    'labels': np.array([[1, 2], [1, 0], [1, 1]], np.uint32),
    'label_start_ix': np.array([1, 3], np.uint32),
    'label_end_ix': np.array([2, 3], np.uint32),
    **changes,
  }
  file = tmp_path / 'a.h5'
  with h5py.File(file, 'w') as out:
    for name, array in arrays.items():
      if array is not None:
        out[name] = array
  return [str(words), str(file)]


def test_captions_as_numbers(tmp_path):
  found = read_annotations('cocotalk', labels(tmp_path))
  assert {v.video_id: (v.split, v.captions) for v in found.videos.values()} == {
    '7': ('train', ['a UNK', 'a']),
    '8': ('val', ['a a']),
  }
  (note,) = found.notes
  assert note.startswith('1 of 3 captions have UNK in place of a rare word, and 2 fill all 2 words')


@pytest.mark.parametrize(
  ('changes', 'match'),
  [
    ({'labels': None}, 'a.h5: no data set labels'),
    ({'labels': np.ones(3, int)}, r'a.h5: "labels" must be a table .* found \(3,\)'),
    ({'labels': np.ones((3, 2))}, 'table of whole numbers'),
    ({'label_start_ix': np.array([1])}, 'equally long lists'),
    ({'labels': np.full((3, 2), 9)}, r'a.json: images\[0\]: no word has the number 9'),
    ({'label_end_ix': np.array([2, 4])}, r'images\[1\]: its captions are 3 to 4 of 3'),
    ({'label_start_ix': np.array([0, 3])}, r'images\[0\]: its captions are 0 to 2 of 3'),
    (
      {'label_start_ix': np.array([1]), 'label_end_ix': np.array([1])},
      'a.json has 2 images, .*a.h5 has the captions of 1',
    ),
  ],
)
def test_numbers_that_do_not_fit(tmp_path, changes, match):
  with pytest.raises(DataError, match=match):
    read_annotations('cocotalk', labels(tmp_path, **changes))


def test_the_form_of_two_files(tmp_path):
  files = labels(tmp_path)
  for given in (files[:1], files[1:], [*files, files[0]]):
    with pytest.raises(DataError, match='this form is two files'):
      read_annotations('cocotalk', given)
  (tmp_path / 'a.h5').write_bytes(b'\x89HDF')
  with pytest.raises(DataError, match='cannot be read as HDF5'):
    read_annotations('cocotalk', files)


@pytest.mark.parametrize(
  ('image', 'match'),
  [
    ({'cocoid': 1, 'sentences': [{'tokens': ['a', 1]}]}, r'images\[0\]: sentences\[0\]: no text'),
    ({'cocoid': 1, 'sentences': 'a'}, '"sentences" is not a list of objects'),
    ({'sentences': []}, 'no video id'),
    ('a', 'not an object'),
  ],
)
def test_what_is_not_karpathys(tmp_path, image, match):
  file = str(put(f'{tmp_path}/a.json', {'images': [image]}))
  with pytest.raises(DataError, match=match):
    read_annotations('karpathy', [file])


def test_tokens_where_there_is_no_text(tmp_path):
  image = {'imgid': 3, 'sentences': [{'tokens': ['a', 'man']}]}
  file = str(put(f'{tmp_path}/a.json', {'images': [image]}))
  assert read_annotations('karpathy', [file]).videos['3'].captions == ['a man']


def test_lists_of_ids_as_json(tmp_path):
  file = put(f'{tmp_path}/valid.list', '[\n  "video7", \n  "video8"\n]\n')
  assert read_splits([file]) == {'val': ['video7', 'video8']}
  file.write_text('["video7"')
  with pytest.raises(DataError, match='not a JSON list, though it begins like one'):
    read_splits([file])
