"""Compiles and times a training step and the decoding of a batch, for one config.

``vidcap_jax.studies.cost`` runs it in a process of its own for each row of a table; the process
prints the result as JSON.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from vidcap_jax import config_files
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.abstract_stage import AbstractStage, make_stage
from vidcap_jax.compilation.data_sizes import DataSizes
from vidcap_jax.data.vocabulary import EOS, UNK
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation.results import scored_stages
from vidcap_jax.inference import captioning
from vidcap_jax.training.experiment import stage_config
from vidcap_jax.training.memory import memory_of, size
from vidcap_jax.training.programs import SplitSizes

_SMALLEST = 16  # model settings from here on are sizes, which --shrink divides
_STEPS = 1000  # of the whole training; the cost of a step does not depend on it
_REFERENCES = 20  # of each video, in the tables of rewards


@dataclasses.dataclass(frozen=True)
class Settings:
  """What is compiled.

  Attributes:
    config: FILE or FILE:VARIANT.
    batch: videos of a batch; 0: those of the config.
    repeats: how often each program is timed, after one call that is not.
    shrink: divides the widths of model, features and vocabulary; 1: full size.
    max_frames: most frames of a video; 0: the config's own.
    run: whether the programs are run, or only compiled.
    stage: of the config; '': the last that trains a captioner.
    dtype: of the model's computations; '': the config's.
  """

  config: str
  batch: int = 0
  repeats: int = 5
  shrink: int = 1
  max_frames: int = 0
  run: bool = True
  stage: str = ''
  dtype: str = ''


def measure(settings: Settings) -> dict[str, Any]:
  """The cost of a config's captioner.

  Returns:
    ``stage``, ``device``, and for ``train`` and ``inference``: ``batch``, ``memory`` (bytes by the
    compiler's analysis, see ``training.memory``), ``seconds`` of each repeat and their ``median``,
    or ``problem`` in place of times.

  Raises:
    UserError: the config has no stage that trains a captioner, or rewards from the host.
  """
  stage_name, stage = captioner_stage(settings)
  if stage.programs.sample_steps:
    raise UserError(
      f'{settings.config}: stage {stage_name!r} has rewards that are computed outside the compiled '
      'step; leave them out'
    )
  device = jax.devices()[0].device_kind
  result: dict[str, Any] = {'stage': stage_name, 'device': device, 'settings': vars(settings)}
  result['train'] = _train(stage, settings)
  result['inference'] = _infer(stage, settings)
  return result


def check_config(settings: Settings) -> None:
  """Reads a config and its data sizes without compiling.

  Raises:
    UserError: it can't be read, has no stage that trains a captioner, or no sizes of its data.
  """
  _, config = _captioner_config(settings)
  data_sizes.from_config_file(settings.config, config)


def captioner_stage(settings: Settings) -> tuple[str, AbstractStage]:
  """The name of a stage, and its programs for one device with tables of a batch's videos.

  Raises:
    UserError: the stage is not in the config, or trains no captioner.
  """
  name, config = _captioner_config(settings)
  return name, make_stage(config, _sizes(settings, config), make_mesh(devices=jax.devices()[:1]))


def _captioner_config(settings: Settings) -> tuple[str, ConfigDict]:
  """The name and config of a stage that trains a captioner, with sizes reduced."""
  path, _, variant = config_files.current_source(settings.config).partition(':')
  config = config_files.load(path).get_config(variant)
  name = settings.stage or scored_stages(config)[-1]
  if name not in config.order:
    raise UserError(
      f'{settings.config}: no stage {name!r}; config.order: {", ".join(config.order)}'
    )
  chosen = stage_config(config, name)
  if chosen.task != 'train' or chosen.objective.name == 'embedding':
    raise UserError(f'{settings.config}: its stage {name!r} trains no captioner; measure another')
  with chosen.unlocked():
    for key, value in chosen.model.items():
      if isinstance(value, int) and not isinstance(value, bool) and value >= _SMALLEST:
        chosen.model[key] = max(1, value // settings.shrink)
    chosen.data.max_frames = settings.max_frames or chosen.data.max_frames
    chosen.train.dtype = settings.dtype or chosen.train.dtype
    chosen.train.batch_size = settings.batch or chosen.train.batch_size
  return name, chosen


def _sizes(settings: Settings, config: ConfigDict) -> DataSizes:
  """The sizes of the data, with real tables of made-up captions for a batch's videos."""
  data = data_sizes.from_config_file(settings.config, config)
  words = max(UNK + 2, len(data.vocabulary) // settings.shrink)
  vocabulary = data_sizes.made_up_vocabulary(words, config.decode.force)
  streams = [
    dataclasses.replace(s, shape=(*s.shape[:-1], max(1, s.channels // settings.shrink)))
    for s in data.streams
  ]
  rows = config.train.batch_size
  most = max(_REFERENCES, config.data.captions_per_video)
  split = SplitSizes(rows, most, _STEPS, _STEPS, data.split.tokens_per_step)
  names = vocabulary.words[UNK + 1 :]
  length = config.data.max_words or vocabulary.max_words
  rng = np.random.default_rng(0)
  captions = [
    [' '.join(rng.choice(names, length)) for _ in range(_REFERENCES)] for _ in range(rows)
  ]
  tables = data_sizes.objective_of(config, vocabulary).tables(captions, vocabulary)
  return dataclasses.replace(
    data, streams=streams, vocabulary=vocabulary, split=split, tables=tables
  )


def fill(abstract: Mapping[str, Any], data: DataSizes, stage: AbstractStage) -> dict[str, Any]:
  """A batch of random features, all frames valid, and random captions of the full length.

  Args:
    abstract: of ``AbstractStage.batch``, without tables.
    data, stage: whose words and devices it has.
  """
  rng = np.random.default_rng(0)
  shapes = jax.tree.map(lambda x: (x.shape, x.dtype), dict(abstract), is_leaf=_is_array)
  captions = rng.integers(UNK + 1, len(data.vocabulary), shapes['captions'][0], np.int32)
  captions[..., -1] = EOS
  B = len(captions)
  batch = {
    'features': {
      name: np.abs(rng.standard_normal(shape, np.float32)).astype(dtype)
      for name, (shape, dtype) in shapes['features'].items()
    },
    'masks': {name: np.ones(shape, bool) for name, (shape, _) in shapes['masks'].items()},
    'captions': captions,
    'caption_index': np.zeros(shapes['caption_index'][0], np.int32),
    'video_index': np.arange(B, dtype=np.int32),
    'category': np.zeros(B, np.int32),
    'key_frame': np.zeros(B, np.int32),
  }
  return jax.device_put(batch, jax.tree.map(lambda x: x.sharding, dict(abstract)))


def _is_array(leaf: Any) -> bool:
  return isinstance(leaf, jax.ShapeDtypeStruct)


@dataclasses.dataclass(frozen=True)
class Program:
  """A program that is timed.

  Attributes:
    traced: to be compiled.
    prepare: makes its arguments on the device; takes what was compiled, returns a call of it.
  """

  traced: jax.stages.Traced
  prepare: Callable[[jax.stages.Compiled], Callable[[], Any]]


def step_program(stage: AbstractStage) -> Program:
  """A training step of the longest captions."""
  L = stage.shape.length
  rows, captions = stage.config.train.batch_size, stage.config.data.captions_per_video

  def prepare(program: jax.stages.Compiled) -> Callable[[], Any]:
    state = jax.jit(stage.programs.initialise, out_shardings=stage.programs.state_shardings)(
      jax.random.key(0)
    )
    batch = fill(stage.batch(rows, captions, L), stage.data, stage)
    batch['tables'] = stage.data.tables

    def step():
      nonlocal state
      state, report = program(state, batch)
      return state, report

    return step

  return Program(stage.programs.train_step.trace(*stage.step_arguments(L)), prepare)


def decode_program(stage: AbstractStage, method: str, rows: int) -> Program:
  """The captioning of ``rows`` videos by a method of decoding."""
  config, data, L = stage.config.copy_and_resolve_references(), stage.data, stage.shape.length
  with config.unlocked():
    config.decode.method = method
  batch = stage.batch(rows, 1, L)
  decode = captioning.make_decoder(
    stage.module, stage.shape.streams, data.vocabulary, config, L, stage.mesh
  )

  def prepare(program: jax.stages.Compiled) -> Callable[[], Any]:
    params = jax.jit(lambda key: stage.programs.initialise(key).params)(jax.random.key(0))
    filled = fill(batch, data, stage)
    return lambda: program(params, filled)

  return Program(decode.trace(stage.state.params, batch), prepare)


def _train(stage: AbstractStage, settings: Settings) -> dict[str, Any]:
  """The cost of a training step of the longest captions."""
  rows = stage.config.train.batch_size
  captions = rows * stage.config.data.captions_per_video
  return {'batch': rows, 'captions': captions, **_timed(step_program(stage), settings)}


def _infer(stage: AbstractStage, settings: Settings) -> dict[str, Any]:
  """The cost of captioning a batch."""
  rows = settings.batch or stage.config.eval.batch_size
  program = decode_program(stage, stage.config.decode.method, rows)
  return {'batch': rows, **_timed(program, settings)}


def _timed(program: Program, settings: Settings) -> dict[str, Any]:
  """Compiles a program and runs it some times; see ``measure`` for what is returned."""
  compiled = program.traced.lower().compile()
  memory = memory_of(compiled)
  result: dict[str, Any] = {'memory': None}
  if memory:
    result['memory'] = {**dataclasses.asdict(memory), 'total': memory.total}
  if not settings.run:
    return {**result, 'problem': 'not run'}
  free = free_memory()
  if memory and free is not None and memory.total > free:
    return {**result, 'problem': f'needs {size(memory.total)}, {size(free)} are free'}
  call = program.prepare(compiled)
  seconds = []
  for _ in range(settings.repeats + 1):
    start = time.perf_counter()
    jax.block_until_ready(call())
    seconds.append(time.perf_counter() - start)
  return {**result, 'seconds': seconds[1:], 'median': statistics.median(seconds[1:])}


def free_memory() -> int | None:
  """Bytes that are free on the device; of a CPU, those of the machine. None: not known."""
  stats = jax.local_devices()[0].memory_stats()
  if stats and 'bytes_limit' in stats:
    return stats['bytes_limit'] - stats.get('bytes_in_use', 0)
  meminfo = pathlib.Path('/proc/meminfo')
  if jax.default_backend() != 'cpu' or not meminfo.is_file():
    return None
  lines = (line.partition(':') for line in meminfo.read_text().splitlines())
  kilobytes = {name: int(value.split()[0]) for name, _, value in lines}
  return kilobytes['MemAvailable'] * 1024


def main(arguments: Sequence[str] | None = None) -> None:
  """Measures the settings, a JSON object, that are the only argument; prints the result."""
  parser = argparse.ArgumentParser(
    prog='python -m vidcap_jax.studies.cost_row', description=__doc__
  )
  parser.add_argument('settings', help='JSON object of Settings')
  options = parser.parse_args(arguments)
  try:
    print(json.dumps(measure(Settings(**json.loads(options.settings)))))
  except UserError as error:
    sys.exit(f'error: {error}')


if __name__ == '__main__':
  main()
