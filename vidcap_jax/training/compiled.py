"""Compiles a step for each shape of batch, and logs the operations and memory that it takes."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from vidcap_jax.errors import ConfigError
from vidcap_jax.training.cost import cost_of_traced
from vidcap_jax.training.memory import (
  REMEDIES,
  Memory,
  bytes_per_device,
  fits_line,
  memory_of,
  size,
)


def compile_by_shape(step: jax.stages.Wrapped, log: Callable[[str], None]) -> Callable:
  """A jitted function, compiled ahead of its first call with each set of shapes.

  With ``jax_debug_nans`` the function itself is called and nothing is logged: only then does JAX
  search for the operation that makes the first NaN, for which it compiles another program.

  Args:
    step: jitted; its first argument is donated.
    log: gets a line before each compilation, and after it one with operations and memory, and one
      that the program fits where devices report their memory.

  Raises:
    ConfigError: the devices have less memory than the program needs; before it runs.
  """
  programs: dict[tuple, Any] = {}

  def run(*arguments):
    if jax.debug_nans.value:
      return step(*arguments)
    leaves = jax.tree.leaves(arguments)
    key = tuple((leaf.shape, leaf.dtype, leaf.sharding) for leaf in leaves)
    if key not in programs:
      log('compiling a step: this takes a while' if not programs else 'compiling another length')
      programs[key] = _compile(step, arguments, log)
    return programs[key](*arguments)

  return run


def _compile(step: jax.stages.Wrapped, arguments: tuple, log: Callable[[str], None]) -> Any:
  """Compiles a step and logs what it takes."""
  traced = step.trace(*arguments)
  lowered = traced.lower()
  try:
    program = lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    if 'RESOURCE_EXHAUSTED' not in str(error):
      raise
    reason = str(error).splitlines()[0]
    raise ConfigError(f'the program does not fit: {reason}; use {REMEDIES}') from None
  try:
    flops = cost_of_traced(traced, lowered).flops
  except RuntimeError:  # JAX_PLATFORMS leaves out the CPU, which counts them
    flops = 0
  memory = memory_of(program)
  log(_cost_line(flops, memory, arguments[0]))
  if memory and (line := fits_line(memory, device_memory(), _rows(arguments))):
    log(line)
  return program


def device_memory() -> Mapping[str, int] | None:
  """``memory_stats`` of this process's first device; None where it reports none."""
  return jax.local_devices()[0].memory_stats()


def _rows(arguments: tuple) -> int | None:
  """B, the rows of the batch."""
  batch = arguments[1] if len(arguments) > 1 else {}
  return len(batch['video_index']) if 'video_index' in batch else None


def _cost_line(flops: float, memory: Memory | None, state: Any) -> str:
  """A line with the operations and memory of a program, and the state that is not donated to it."""
  line = f'a step takes {flops / 1e9:.3g} GFLOP' if flops else 'a step takes'
  if memory is None:  # some back ends do not report it
    return line if flops else 'compiled'
  line += (' and ' if flops else ' ') + f'{size(memory.total)} of each device: '
  line += f'{size(memory.arguments)} of arguments, {size(memory.temporary)} of temporary arrays'
  state_size = bytes_per_device(state)
  if memory.aliased < state_size:
    copied = size(state_size - memory.aliased)
    line += f'; {copied} of the training state is held twice, since it is not donated'
  return line
