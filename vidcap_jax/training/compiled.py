"""Compiles a step for each shape of batch, and logs the operations and memory that it takes."""

from collections.abc import Callable
from typing import Any

import jax

from vidcap_jax.training.cost import cost_of_lowered


def compile_by_shape(step: jax.stages.Wrapped, log: Callable[[str], None]) -> Callable:
  """A jitted function, compiled ahead of its first call with each set of shapes.

  With ``jax_debug_nans`` the function itself is called and nothing is logged: only then does JAX
  search for the operation that makes the first NaN, for which it compiles another program.

  Args:
    step: jitted; its first argument is donated.
    log: gets a line before each compilation, and one with operations and memory after it.
  """
  programs: dict[tuple, Any] = {}

  def run(*arguments):
    if jax.debug_nans.value:
      return step(*arguments)
    leaves = jax.tree.leaves(arguments)
    key = tuple((leaf.shape, leaf.dtype, leaf.sharding) for leaf in leaves)
    if key not in programs:
      log('compiling a step: this takes a while' if not programs else 'compiling another length')
      traced = step.trace(*arguments)
      lowered = traced.lower()
      programs[key] = lowered.compile()
      log(_cost_line(cost_of_lowered(traced, lowered).flops, programs[key], arguments[0]))
    return programs[key](*arguments)

  return run


def _cost_line(flops: float, program: jax.stages.Compiled, state: Any) -> str:
  """A line with the operations and memory of a program, and the state that is not donated to it."""
  line = f'a step takes {flops / 1e9:.3g} GFLOP'
  memory = program.memory_analysis()
  if memory is None:  # some back ends do not report it
    return line
  given, donated = memory.argument_size_in_bytes, memory.alias_size_in_bytes
  most = given + memory.temp_size_in_bytes + memory.output_size_in_bytes - donated
  line += f' and {_size(most)} of each device: {_size(given)} of arguments, '
  line += f'{_size(memory.temp_size_in_bytes)} of temporary arrays'
  state_size = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(state))
  if donated < state_size:
    copied = _size(state_size - donated)
    line += f'; {copied} of the training state is held twice, since it is not donated'
  return line


def _size(number: float) -> str:
  """1.2 GiB, 34 MiB."""
  return f'{number / 2**30:.1f} GiB' if number >= 2**30 else f'{number / 2**20:.0f} MiB'
