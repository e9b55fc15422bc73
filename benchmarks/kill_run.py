"""The run that ``benchmarks.kill`` kills: small, with two stages, printing its phases.

  python -m benchmarks.kill_run DATA WORKDIR

It prints a line ``phase: NAME`` when a phase begins: step, save, evaluation, between.
"""

import pathlib
import sys

import numpy as np
from ml_collections import ConfigDict

from benchmarks import datasets
from configs import common

CHANNELS = 16
WORDS = ('red', 'green', 'blue', 'rises', 'falls', 'spins', 'slowly', 'fast')


def write_data(folder: pathlib.Path) -> str:
  """Builds a data set of 40 training and 40 validation videos; returns its folder."""
  rng = np.random.default_rng(0)

  def videos():
    for i in range(80):
      words = rng.integers(len(WORDS), size=3)
      array = rng.normal(size=(4 + i % 5, CHANNELS)).astype(np.float32)
      array[:, words] += 2
      captions = [' '.join(WORDS[w] for w in words), f'it {WORDS[words[0]]}']
      yield 'train' if i < 40 else 'val', captions, array

  return datasets.build_dataset(folder, videos())


def get_config(data: str) -> ConfigDict:
  """Two stages of 40 steps, a checkpoint every 5, a validation every 10."""
  c = common.temporal_spatial(common.base(), 'temporal')
  c.data.dir = data
  c.data.captions_per_video = 2
  c.data.length_buckets = ()
  c.model.global_streams = c.model.temporal_streams = ('image',)
  for size in ('hidden', 'embed', 'project', 'attention'):
    c.model[size] = 16
  c.train.batch_size = 8
  c.train.epochs = 8.0
  c.eval.every_epochs = 2.0
  c.eval.metrics = ('BLEU', 'CIDEr')
  c.eval.splits = ('val',)
  c.decode.beam = 3
  c.checkpoint.every_steps = 5
  c.log.every_steps = 1
  c.order = ('first', 'second')
  c.stages = ConfigDict({'first': {}, 'second': {'train': {'init_from': 'stage:first'}}})
  return c.lock()


def print_phases() -> None:
  """Patches the project so that it prints the phases of a run as they begin."""
  from vidcap_jax.checkpoints import checkpoint
  from vidcap_jax.evaluation import evaluate
  from vidcap_jax.training import compiled, experiment, train

  def before(phase, function, after=None):
    def printing(*args, **kwargs):
      print(f'phase: {phase}', flush=True)
      result = function(*args, **kwargs)
      if after:
        print(f'phase: {after}', flush=True)
      return result

    return printing

  by_shape, make_validator, write = (
    compiled.compile_by_shape,
    train.make_validator,
    experiment.write_json,
  )

  def write_json(path, data):
    if path.name == 'stages.json':
      print('phase: between', flush=True)
    write(path, data)

  compiled.compile_by_shape = lambda *args: before('step', by_shape(*args))
  train.make_validator = lambda *args: before('evaluation', make_validator(*args))
  checkpoint.save = before('save', checkpoint.save)
  evaluate.evaluate = before('evaluation', evaluate.evaluate)
  experiment.write_json = write_json


def main() -> int:
  """Entry point."""
  from vidcap_jax.distributed import mesh
  from vidcap_jax.training import experiment
  from vidcap_jax.training.ledger import process_began

  data, workdir = sys.argv[1:]
  print_phases()
  config = get_config(data)
  experiment.run(config, pathlib.Path(workdir), mesh.make_mesh(), began=process_began())
  return 0


if __name__ == '__main__':
  sys.exit(main())
