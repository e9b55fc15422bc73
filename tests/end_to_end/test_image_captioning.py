"""Image captioning: every model trains on pictures with Flickr's captions."""

import json
import pathlib

import numpy as np
import pytest

from configs import common, dual_afr, global2local, refocus_rows, stats_rows, transformer_sizes
from data_prep import build, extract
from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import Stream
from vidcap_jax.distributed import mesh
from vidcap_jax.inference import predict

pytest.importorskip('av')
Image = pytest.importorskip('PIL.Image')

COLOURS = {'red': (220, 30, 30), 'green': (30, 200, 30), 'blue': (30, 30, 220)}
STREAMS = {
  'image': 'random_sequence',
  'cells': 'random_grid',
  'objects': 'random_regions',
}
SPLITS = {'train': range(8), 'dev': range(8, 10), 'test': range(10, 12)}


def name_of(i: int) -> str:
  return f'{1000268201 + 77 * i}_{i:x}93b08cb0e'


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> pathlib.Path:
  """Twelve pictures in three formats, captions and lists as Flickr8k has them, and the data set."""
  folder = tmp_path_factory.mktemp('flickr')
  (folder / 'Images').mkdir()
  captions = []
  for i in range(12):
    word, colour = list(COLOURS.items())[i % 3]
    picture = np.full((60, 80, 3), colour, np.uint8)
    picture[: 10 + 2 * i] //= 2
    suffix = ('jpg', 'png', 'webp')[i % 3]
    Image.fromarray(picture).save(folder / 'Images' / f'{name_of(i)}.{suffix}')
    captions += [f'{name_of(i)}.{suffix},A {word} picture , upright .'] * 2
  (folder / 'captions.txt').write_text('image,caption\n' + '\n'.join(captions))
  lists = []
  for split, places in SPLITS.items():
    lists.append(folder / f'Flickr_8k.{split}Images.txt')
    lists[-1].write_text(''.join(f'{name_of(i)}\n' for i in places))
  streams = ','.join(f'{name}:{extractor}@every=1' for name, extractor in STREAMS.items())
  flags = [f'--videos={folder / "Images"}', f'--output={folder / "features"}', '--pool=threads']
  assert extract.main([*flags, f'--streams={streams}']) == 0
  features = ','.join(f'{name}={folder / "features" / name}' for name in STREAMS)
  flags = [f'--annotations={folder / "captions.txt"}', f'--features={features}', '--min_count=1']
  flags.append(f'--splits={",".join(map(str, lists))}')
  assert build.main(['--format=flickr', f'--output={folder / "data"}', *flags]) == 0
  return folder


def test_pictures_are_videos_of_one_frame(folder):
  videos = list(open_split(folder / 'data', 'val'))
  assert [video.video_id.partition('.')[0] for video in videos] == [name_of(8), name_of(9)]
  assert {name: array.shape for name, array in videos[0].features.items()} == {
    'image': (1, 128),
    'cells': (1, 7, 7, 64),
    'objects': (1, 10, 64),
  }
  assert videos[0].captions == ('A blue picture , upright .',) * 2


def temporal_spatial(c):
  common.temporal_spatial(c, 'spatial')
  c.model.global_streams = c.model.temporal_streams = ('image',)


def stats(c):
  streams = (
    Stream('cells', 'grid', (None, 7, 7, 64), longest=1),
    Stream('objects', 'regions', (None, 10, 64), longest=1),
  )
  chosen = {'variant': 'stats', 'pooling': 'mean', 'features': 'cells+objects'}
  stats_rows.stats(c, chosen, streams)


def refocus(c):
  refocus_rows.refocus(c, next(iter(refocus_rows.ROWS)), grid=True, audio=False)
  c.model.stream = c.model.spatial_stream = 'cells'


def dual(c):
  dual_afr.dual_afr(c, 'fc7+pool5')
  c.model.layers, c.model.top_stream = ('cells',), 'image'


def global_to_local(c):
  global2local.global2local(c)
  c.model.clip_stream = 'image'
  c.model.stride = c.model.picks = 1
  c.model.project_regions = c.model.aligned = 8


def transformer(c):
  transformer_sizes.transformer(c, 'small', ('image', 'cells'))
  c.model.region_streams = ('objects',)
  c.model.update({'heads': 2, 'feed_forward': 8, 'encoder_layers': 1, 'decoder_layers': 1})


SLOW = (temporal_spatial, stats, refocus, global_to_local, transformer)  # to compile
MODELS = (dual, *(pytest.param(model, marks=pytest.mark.slow) for model in SLOW))


@pytest.mark.parametrize('add_model', MODELS)
def test_every_model_trains_on_pictures(folder, tmp_path, add_model, capsys):
  config = tiny.small_config(str(folder / 'data'), epochs=2.0).copy_and_resolve_references()
  training = {
    section: config[section].copy_and_resolve_references() for section in ('train', 'data')
  }
  with config.unlocked():
    add_model(config)
    for section, settings in training.items():
      config[section].update(settings)
    for size in ('hidden', 'embed', 'project', 'attention'):
      if size in config.model:
        config.model[size] = 8
    config.model.dropout = 0.0
    config.optimizer.name, config.optimizer.schedule.name = 'sgd', 'constant'
    config.optimizer.schedule.warmup_epochs = 0.0
    config.eval.every_epochs = 2.0
    config.eval.splits = ('test',)
  with tiny.without_java():
    workdir = tiny.run(config, tmp_path / 'work')
  captions = json.loads((workdir / 'eval' / 'test' / 'captions.json').read_text())
  assert [c['video_id'].partition('.')[0] for c in captions] == [name_of(10), name_of(11)]
  if add_model is dual:
    restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())
    capsys.readouterr()
    pictures = sorted((folder / 'Images').glob(f'{name_of(10)}*'))
    assert predict.predict(restored, str(pictures[0])) == 0
    assert json.loads(capsys.readouterr().out)['caption'] == captions[0]['caption']
