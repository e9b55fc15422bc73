"""Shared by tests of exports: checkpoints of made-up models, videos for them, and the example."""

import importlib.util
import pathlib

import jax
import numpy as np
from ml_collections import ConfigDict

from configs import common
from tests.cases import VATEX, Case, V
from tests.made_up import Setup
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary
from vidcap_jax.distributed import mesh

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / 'examples' / 'serve_export.py'
ONE_STREAM = Case(
  'one stream',
  {**VATEX, 'variant': 'temporal', 'global_streams': ('image',), 'temporal_streams': ('image',)},
  {'image': (4, 8)},
)


def load_script():
  spec = importlib.util.spec_from_file_location('serve_export', SCRIPT)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


serve = load_script()


def restored_of(case) -> restore.Restored:
  """A model of ``tests/cases.py`` as if restored from a checkpoint."""
  setup = Setup(case)
  config = ConfigDict(common.base().to_dict())
  config.model = ConfigDict(case.settings)
  config.data.max_words = 5
  config.decode.beam = 3
  config.decode.n_best = 2
  needs = setup.module.config.needs.streams
  streams = tuple(stream_of(name, shape, needs[name]) for name, shape in case.streams.items())
  meta = {'key_frames': {'video1': 1}} if case.key_frames else {}
  words = Vocabulary((*SPECIAL, *'abcdefgh'[: V - len(SPECIAL)]))
  contents = (setup.module, jax.device_put(setup.params), mesh.make_mesh(), words, streams)
  return restore.Restored(pathlib.Path('made_up'), meta, config, *contents)


def stream_of(name, shape, kinds) -> Stream:
  """A stream with the axes of ``shape`` and one of the kinds that the model accepts."""
  mean = {'mean': tuple(np.linspace(-0.3, 0.3, shape[-1])), 'std': (1.5,) * shape[-1]}
  if len(shape) == 1:
    return Stream(name, 'vector', shape, 'float16', optional=True, **mean)
  if len(shape) == 2:
    return Stream(name, 'sequence', (None, shape[1]), 'float16', shape[0], **mean)
  T, N, D = shape
  if 'grid' in kinds:
    rows = next(rows for rows in (7, 3, 2, 1) if N % rows == 0)
    return Stream(name, 'grid', (None, rows, N // rows, D), 'float16', T, **mean)
  return Stream(name, 'regions', (None, None, D), 'float16', T, N, **mean)


def videos_of(restored, units) -> list[Video]:
  """Made-up videos of ``units`` blocks of frames; the last block may be incomplete."""
  rng = np.random.default_rng(1)
  blocks = restored.module.config.needs.blocks
  videos = []
  for number, length in enumerate(units):
    features = {}
    for s in restored.streams:
      if s.kind == 'vector':
        features[s.name] = rng.normal(size=(number % 2, s.channels))
        continue
      frames = length * blocks.get(s.name, 1) - (length > 1 and blocks.get(s.name, 1) > 1)
      inner = s.shape[1:-1] if s.kind != 'regions' else (s.most_regions + number - 2,)
      features[s.name] = rng.normal(size=(frames, *inner, s.channels))
      if s.kind == 'regions':
        features[s.name][:, 1] = 0  # an empty region
    features = {name: x.astype(np.float16) for name, x in features.items()}
    videos.append(Video(f'video{number}', (), features))
  return videos


def as_file(video, stream):
  """A video's features as in a feature file, or None if it has none."""
  array = video.features[stream['name']]
  if stream['kind'] == 'vector':
    return array[0] if len(array) else None
  return array
