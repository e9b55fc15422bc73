"""A process that measures programs on the first device: python -m benchmarks.device_worker JSON.

``benchmarks.device`` starts it. JSON holds ``targets`` and ``small``; each line that is printed is
a JSON object: first the device, then one for each target, in their order.
"""

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from benchmarks import programs
from benchmarks.programs import Sizes
from vidcap_jax.compilation.abstract_stage import AbstractStage
from vidcap_jax.compilation.chips import chip_of
from vidcap_jax.data.vocabulary import UNK
from vidcap_jax.distributed import runtime
from vidcap_jax.distributed.compilation_cache import AUTO
from vidcap_jax.errors import UserError
from vidcap_jax.rewards import REWARDS, score
from vidcap_jax.studies import cost_row
from vidcap_jax.studies.cost_row import Program, Settings
from vidcap_jax.training.cost import cost_of_traced
from vidcap_jax.training.memory import memory_of, size

ROUNDS = 5
_SECONDS, _MOST_CALLS = 0.2, 20  # of a round: short calls are repeated, at most so often
SMALL_SIZES = Sizes(
  batch=2, frames=4, channels=16, hidden=16, words=60, length=6, references=2, videos=8, beam=2
)


@dataclasses.dataclass(frozen=True)
class Target:
  """A program to measure.

  Attributes:
    name: of the row.
    program: 'step', 'reward' (of a self-critical step), 'greedy' or 'beam'; of the PyTorch
      program's model: 'xe', 'self_critical', 'greedy' or 'beam'.
    config: FILE or FILE:VARIANT; '' for the model of the PyTorch program.
    stage: of the config; '': the last that trains a captioner.
    dtype: of the model's computations; '': the config's.
  """

  name: str
  program: str
  config: str = ''
  stage: str = ''
  dtype: str = ''


def measure(target: Target, small: bool) -> dict[str, Any]:
  """Times and memory of a program; what ends it is a ``problem`` in place of them."""
  measured = _of_config if target.config else _of_peer_model
  try:
    return measured(target, small)
  except Exception as error:  # such as a compiler's, or out of memory: the other rows still count
    lines = str(error).strip().splitlines()
    return {'problem': f'{type(error).__name__}: {lines[0] if lines else ""}'}


def _of_peer_model(target: Target, small: bool) -> dict[str, Any]:
  """A program of the PyTorch program's model, with its sizes and its precision."""
  # PyTorch multiplies float32 in full precision by default.
  runtime.apply({'matmul_precision': 'highest', 'compilation_cache': AUTO})
  sizes = SMALL_SIZES if small else Sizes()
  start = time.perf_counter()
  if target.program in ('greedy', 'beam'):
    run = programs.decoding(sizes, target.program).run
  else:
    settings = dict(programs.SELF_CRITICAL) if target.program == 'self_critical' else {}
    run = programs.training_step(sizes, **settings).run
  run()  # compiles a decoder
  compiled = time.perf_counter() - start
  result = {'batch': sizes.batch, 'captions': sizes.batch, 'length': sizes.length}
  return {**result, 'compile_seconds': compiled, **_times(run, sizes.batch)}


def _of_config(target: Target, small: bool) -> dict[str, Any]:
  """A program of a config, at the sizes of its STREAMS and VOCABULARY."""
  sizes = {'batch': 2, 'shrink': 16, 'max_frames': 4} if small else {}
  settings = Settings(target.config, stage=target.stage, dtype=target.dtype, **sizes)
  name, stage = cost_row.captioner_stage(settings)
  config = stage.config
  runtime.apply(config.runtime)
  program = _program(stage, target.program, settings)
  flops = cost_of_traced(program.traced, while_rounds=stage.shape.length).flops
  start = time.perf_counter()
  compiled = program.traced.lower().compile()
  seconds = time.perf_counter() - start
  memory, free = memory_of(compiled), cost_row.free_memory()
  rows, each = config.train.batch_size, config.data.captions_per_video
  if target.program == 'reward':
    each = _scored(config)
  elif target.program != 'step':
    rows, each = _decoded_rows(stage, settings), 1
  captions = rows * each
  result = {
    'stage': name,
    'batch': rows,
    'captions': captions,
    'length': stage.shape.length,
    'compile_seconds': seconds,
    'memory': {**dataclasses.asdict(memory), 'total': memory.total} if memory else None,
    'flops': flops,
  }
  if memory and free is not None and memory.total > free:
    return {**result, 'problem': f'needs {size(memory.total)}, {size(free)} are free'}
  result |= _times(program.prepare(compiled), captions)
  chip = chip_of(jax.devices()[0].device_kind)
  if chip:
    peak = chip.peak(config.train.dtype, config.runtime.matmul_precision)
    result['share_of_peak'] = flops / result['median'] / peak
  return result


def _program(stage: AbstractStage, program: str, settings: Settings) -> Program:
  if program == 'step':
    return cost_row.step_program(stage)
  if program == 'reward':
    return _reward_program(stage)
  return cost_row.decode_program(stage, program, _decoded_rows(stage, settings))


def _decoded_rows(stage: AbstractStage, settings: Settings) -> int:
  return settings.batch or stage.config.eval.batch_size


def _scored(config: ConfigDict) -> int:
  """Captions of a video that a self-critical step scores."""
  return config.objective.samples + (config.objective.baseline == 'greedy')


def _reward_program(stage: AbstractStage) -> Program:
  """The rewards of all captions of a self-critical step, on the device.

  Raises:
    UserError: the stage has no such rewards.
  """
  objective, tables = stage.config.objective, stage.data.tables
  names = tuple(n for n, w in objective.get('rewards', {}).items() if w and n in REWARDS)
  if not names:
    raise UserError(f'objective.name={objective.name!r} has no rewards on the device')
  shape = stage.config.train.batch_size, _scored(stage.config), stage.shape.length
  words = np.random.default_rng(0).integers(UNK + 1, len(stage.data.vocabulary), shape, np.int32)
  arguments = jnp.asarray(words), tables, jnp.arange(shape[0])
  count_eos = objective.count_eos
  run = jax.jit(
    lambda tokens, tables, rows: score(names, tokens, tables, rows, count_eos=count_eos)
  )
  return Program(run.trace(*arguments), lambda compiled: lambda: compiled(*arguments))


def _times(run: Callable[[], Any], captions: int) -> dict[str, Any]:
  """Seconds of a call in each round: calls follow each other as steps of training do."""
  jax.block_until_ready(run())
  start = time.perf_counter()
  jax.block_until_ready(run())
  first = time.perf_counter() - start
  calls = min(_MOST_CALLS, max(1, round(_SECONDS / first)))
  seconds = []
  for _ in range(ROUNDS):
    start = time.perf_counter()
    for _ in range(calls):
      last = run()
    jax.block_until_ready(last)
    seconds.append((time.perf_counter() - start) / calls)
  median = statistics.median(seconds)
  return {'seconds': seconds, 'median': median, 'captions_per_s': captions / median}


def describe_device() -> dict[str, Any]:
  """What is measured on."""
  device = jax.devices()[0]
  chip, stats = chip_of(device.device_kind), device.memory_stats() or {}
  return {
    'device': device.device_kind,
    'platform': device.platform,
    'chip': chip.name if chip else None,
    'memory': stats.get('bytes_limit'),
    'jax': jax.__version__,
  }


def main(arguments: Sequence[str]) -> None:
  """Measures the targets; see the module's docstring."""
  request = json.loads(arguments[0])
  print(json.dumps(describe_device()), flush=True)
  for fields in request['targets']:
    print(json.dumps(measure(Target(**fields), request['small'])), flush=True)


if __name__ == '__main__':
  main(sys.argv[1:])
