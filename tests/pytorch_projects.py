"""Files of PyTorch projects in their exact schemas, a few videos each, in the current folder."""

import collections
import csv
import io
import json
import pathlib
import pickle

import numpy as np

from tests.feature_files import npz, torch_zip, write_h5, write_lmdb

RNG = np.random.default_rng(0)
SPLITS = ('train', 'val', 'test')


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
  put('MSRVTT_train.9k.csv', 'video_id\nvideo0\nvideo6513\n')
  put('MSRVTT_JSFUSION_test.csv', 'key,vid_key,video_id,sentence\nret0,msr7010,video7010,a car\n')
  # As the page's lines of shell make them.
  put('train.csv', 'video_id\nvideo0\n')
  put('val.csv', 'video_id\nvideo6513\n')
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
