"""A short run of a model that picks frames and attends to their regions, with boxes and clips."""

import json
import pathlib

import numpy as np
from ml_collections import ConfigDict

from configs import global2local
from data_prep.dataset.builder import Options, build
from tests import tiny, video_files
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed import mesh
from vidcap_jax.evaluation import evaluate

T, EVERY, N = 6, 3, 4  # frames of a video; one of so many has regions; regions of these
ABSENT = 1  # a region that no frame has
SIZES = ('hidden', 'embed', 'project', 'project_regions', 'aligned', 'attention')


def make(folder: pathlib.Path) -> pathlib.Path:
  """Writes FOLDER/clips and FOLDER/data, trains and evaluates; returns FOLDER/run."""
  data = _build(folder)
  workdir = tiny.run(_config(data), folder / 'run')
  restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())
  with tiny.unscored_by_java():
    evaluate.evaluate_command(restored, None, 'val', None)
  return workdir


def boxes_of(number: int) -> np.ndarray:
  """(T / EVERY, N, 6) of a video."""
  rng = np.random.default_rng(number)
  corners = rng.uniform(0, 0.4, (T // EVERY, N, 2))
  boxes = np.concatenate([corners, corners + 0.5, np.ones((T // EVERY, N, 2))], axis=-1)
  boxes[:, ABSENT] = 0
  return boxes.astype(np.float16)


def _build(folder: pathlib.Path) -> str:
  (folder / 'clips').mkdir(parents=True)
  rows = []
  for i, split in enumerate((*('train',) * 8, 'val', 'val')):
    rng = np.random.default_rng(i)
    regions = rng.normal(size=(T // EVERY, N, 8))
    regions[:, ABSENT] = 0
    streams = {'image': rng.normal(size=(T, 8)), 'motion': rng.normal(size=(T, 8))}
    streams |= {'objects': regions, 'where': boxes_of(i)}
    for name, array in streams.items():
      (folder / name).mkdir(exist_ok=True)
      np.save(folder / name / f'v{i}.npy', array.astype(np.float16))
    rows.append({'video_id': f'v{i}', 'split': split, 'caption': 'a red ball rises'})
    video_files.write_video(folder / 'clips' / f'v{i}.mp4', video_files.ramp(20))
  (folder / 'captions.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
  features = {name: str(folder / name) for name in streams}
  annotations = (str(folder / 'captions.jsonl'),)
  out = str(folder / 'data')
  build(Options('jsonl', annotations, features, out, min_count=1))
  return out


def _config(data: str) -> ConfigDict:
  config = tiny.small_config(data, epochs=4.0)
  with config.unlocked():
    config.model = global2local.global2local(config.copy_and_resolve_references()).model
    for size in SIZES:
      config.model[size] = 8
    config.eval.splits = ()
    config.decode.min_length = 2
  return config
