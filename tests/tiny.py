"""A data set of twelve videos, a config to train on it in seconds, and what such a run leaves.

The file is a config too: ``--config=tests/tiny.py --config.data.dir=DIR`` with DIR from ``build``.
"""

import contextlib
import json
import pathlib
import shutil

import numpy as np
import pytest
from etils import epath
from ml_collections import ConfigDict

from configs import common, vatex_fusion
from data_prep.dataset.builder import Options
from data_prep.dataset.builder import build as build_data_set
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.evaluation import metrics, ptb_tokenizer
from vidcap_jax.training import experiment
from vidcap_jax.training.metric_log import MetricLog

COLOURS = ('red', 'green', 'blue')
ACTIONS = ('rises', 'falls', 'spins fast')
SPLITS = ('train',) * 7 + ('val',) * 3 + ('test',) * 2
CHANNELS = 8


def build(
  folder, splits=SPLITS, *, refer=('train', 'val'), channels=CHANNELS, max_frames=None, **sidecar
) -> str:
  """Writes features and annotations to FOLDER and builds FOLDER/data; returns its path.

  Args:
    folder: a new one.
    splits: of the videos v0, v1, …
    refer: the splits whose videos have captions: v0 has one, v1 two and so on up to four.
    channels: of the only stream, 'image'.
    max_frames: most frames kept of a video.
    sidecar: what is known of the stream: extractor, version, sampling.
  """
  folder = pathlib.Path(folder)
  (folder / 'image').mkdir(parents=True)
  rows = []
  rng = np.random.default_rng(0)
  for i, split in enumerate(splits):
    colour, action = COLOURS[i % 3], ACTIONS[i // 3 % 3]
    features = rng.normal(size=(2 + i % 3, channels)).astype(np.float32) / 4
    features[:, i % 3] += 2
    features[:, 3 + i // 3 % 3] += 2
    np.save(folder / 'image' / f'v{i}.npy', features)
    captions = [f'a {colour} ball {action}', f'the {colour} one {action}', f'{colour} ball']
    captions = [*captions, f'a ball that is {colour} {action}'][: 1 + i % 4]
    for caption in captions if split in refer else ['']:
      rows.append({'video_id': f'v{i}', 'split': split, 'caption': caption})
  (folder / 'image' / 'stream.json').write_text(json.dumps({'extractor': 'tiny', **sidecar}))
  annotations = folder / 'captions.jsonl'
  annotations.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  build_data_set(
    Options(
      form='jsonl',
      annotations=(str(annotations),),
      features={'image': str(folder / 'image')},
      out=str(folder / 'data'),
      min_count=1,
      max_frames={'image': max_frames} if max_frames else {},
    )
  )
  return str(folder / 'data')


def get_config(data: str = '') -> ConfigDict:
  """A config of 16 steps, 2 an epoch, with a checkpoint every 6 and a validation every 8."""
  c = common.temporal_spatial(common.base(), 'temporal')
  c.data.dir = data
  c.data.captions_per_video = 2
  c.data.length_buckets = (6,)  # every second step
  c.model.global_streams = c.model.temporal_streams = ('image',)
  for size in ('hidden', 'embed', 'project', 'attention'):
    c.model[size] = 8
  c.train.batch_size = 8
  c.train.epochs = 8.0
  c.optimizer.learning_rate = 0.02
  c.decode.method = 'greedy'
  c.decode.beam = 2
  c.eval.batch_size = 8
  c.eval.every_epochs = 4.0
  c.eval.metrics = ('CIDEr',)
  c.eval.splits = ('test',)
  c.checkpoint.every_steps = 6
  c.log.every_steps = 1
  c.log.tensorboard = False
  c.log.pictures = False
  return c.lock()


def small_config(data: str, **train_settings) -> ConfigDict:
  """As ``get_config`` with a program that compiles in half the time, and 8 steps."""
  c = get_config(data)
  c.data.length_buckets = ()
  c.model.variant = 'vanilla'
  c.model.dropout = 0.0
  c.optimizer.name = 'sgd'
  c.train.epochs = 4.0
  c.eval.every_epochs = 1.0
  c.checkpoint.every_steps = 0
  c.train.update(train_settings)
  return c


def short_config(data: str) -> ConfigDict:
  """As ``small_config`` with 3 steps."""
  return small_config(data, epochs=1.5)


def staged_config(data: str, order=('first', 'second'), **stages) -> ConfigDict:
  """As ``small_config`` with 4 steps in each of several stages, given as their changes."""
  config = small_config(data, epochs=2.0)
  with config.unlocked():
    config.order = order
    config.stages = ConfigDict(stages)
  config.checkpoint.keep = 9
  return config


def fused_config(data) -> ConfigDict:
  """Two captioners and an embedding, a few steps each; the result is their fusion."""
  config = small_config(data, epochs=2.0)
  with config.unlocked():
    embedding = vatex_fusion.embedding(small=True)
    embedding.model.streams = ('image',)
    embedding.train.batch_size = 8
    fuse = {'embedding': 'stage:embedding', 'runs': ('stage:one', 'stage:two'), 'candidates': 2}
    config.order = ('one', 'two', 'embedding', 'fusion')
    config.stages = ConfigDict(
      {
        'one': {},
        'two': {'optimizer': {'learning_rate': 0.5}},
        'embedding': embedding,
        'fusion': {'task': 'fuse', 'fuse': fuse},
      }
    )
  config.decode.method = 'beam'
  config.eval.splits = ('val',)
  return config


def run(config: ConfigDict, workdir, recipe=None) -> pathlib.Path:
  """``experiment.run`` on all devices; returns the workdir."""
  mesh = make_mesh(config.mesh.data, config.mesh.model)
  experiment.run(config, epath.Path(workdir), mesh, recipe)
  return pathlib.Path(workdir)


def read_params(workdir: pathlib.Path):
  """The parameters of the last checkpoint of the stage xe, as saved."""
  folder = workdir / 'checkpoints' / 'xe'
  return checkpoint.read_params_as_saved(folder / str(checkpoint.steps(folder)[-1]))


@contextlib.contextmanager
def without_java():
  """Splits captions at spaces: for the words of this data set that is what the tokeniser does."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(
      ptb_tokenizer,
      'tokenize',
      lambda captions, **_: [' '.join(c.lower().split()) for c in captions],
    )
    yield


@contextlib.contextmanager
def unscored_by_java():
  """As ``without_java``, with a METEOR of 1/4 for everything."""

  class Meteor:
    def __init__(self, time_limit=0.0):
      pass

    def __enter__(self):
      return self

    def __exit__(self, *_):
      pass

    def score_with_statistics(self, hypotheses, references, label=''):
      videos = np.zeros((len(hypotheses), 23))
      videos[:, [0, 1, 21, 22]] = 1.0  # words, and matched ones
      videos[:, 4:6] = 0.25  # content words that match, without chunks
      return 0.25, [0.25] * len(hypotheses), videos

  with without_java(), pytest.MonkeyPatch.context() as patch:
    patch.setattr(metrics.meteor, 'Meteor', Meteor)
    yield


@contextlib.contextmanager
def copied_at(workdir: pathlib.Path, folder: pathlib.Path, moments):
  """Copies WORKDIR to FOLDER/WHAT-STEP at moments (what, step) of a run inside.

  A process that is killed leaves its folder as it was: a copy made at that moment, while
  checkpoints are being written in the background, stands for it. WHAT is 'train' or 'val', before
  that record is written; 'saving', as soon as a checkpoint has begun to be saved; 'trained'.
  """

  def copy_folder(what, step):
    if (what, step) in moments:
      with contextlib.suppress(shutil.Error):  # files that are renamed meanwhile
        shutil.copytree(workdir, folder / f'{what}-{step}')

  write, save, write_json = MetricLog.write, checkpoint.save, experiment.write_json

  def writing(self, step, kind, values):
    copy_folder(kind, step)
    write(self, step, kind, values)

  def saving(manager, step, *rest):
    save(manager, step, *rest)
    copy_folder('saving', step)

  def writing_json(path, data):
    if path.name == 'stages.json':
      copy_folder('trained', 0)
    write_json(path, data)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(MetricLog, 'write', writing)
    patch.setattr(checkpoint, 'save', saving)
    patch.setattr(experiment, 'write_json', writing_json)
    yield
