"""Compiling a step for each shape of batch, and telling what the program takes before it runs."""

from collections.abc import Callable
from typing import Any

import jax

from vidcap_jax.training.cost import cost_of_lowered


def by_shape(step: jax.stages.Wrapped, say: Callable[[str], None]) -> Callable:
  """A jitted function that is compiled once for each set of shapes, and tells of it.

  With ``jax_debug_nans`` the function itself is called, without a word: only there does JAX look
  for the operation that makes the first NaN, and it compiles another program for that.

  Args:
    step: jitted; its first argument is used up (donated).
    say: gets a line before each compilation, and one with operations and memory after it.
  """
  programs: dict[tuple, Any] = {}

  def run(*arguments):
    if jax.debug_nans.value:
      return step(*arguments)
    leaves = jax.tree.leaves(arguments)
    key = tuple((leaf.shape, leaf.dtype, leaf.sharding) for leaf in leaves)
    if key not in programs:
      say('compiling a step: this takes a while' if not programs else 'compiling another length')
      traced = step.trace(*arguments)
      lowered = traced.lower()
      programs[key] = lowered.compile()
      say(_takes(cost_of_lowered(traced, lowered).flops, programs[key], arguments[0]))
    return programs[key](*arguments)

  return run


def _takes(flops: float, program: jax.stages.Compiled, state: Any) -> str:
  """Operations, memory, and what of the state given to the program is not used again."""
  line = f'a step takes {flops / 1e9:.3g} GFLOP'
  memory = program.memory_analysis()
  if memory is None:  # not every back end tells
    return line
  given, kept = memory.argument_size_in_bytes, memory.alias_size_in_bytes
  most = given + memory.temp_size_in_bytes + memory.output_size_in_bytes - kept
  line += f' and {_size(most)} of each device: {_size(given)} given to it, '
  line += f'{_size(memory.temp_size_in_bytes)} in between'
  own = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(state))
  if kept < own:
    line += f'; {_size(own - kept)} of the training state is held twice, since it is not donated'
  return line


def _size(number: float) -> str:
  """1.2 GiB, 34 MiB."""
  return f'{number / 2**30:.1f} GiB' if number >= 2**30 else f'{number / 2**20:.0f} MiB'
