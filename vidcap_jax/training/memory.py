"""The memory that a compiled program takes of each device, and whether the device has it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax

from vidcap_jax.errors import ConfigError

REMEDIES = (
  'a smaller batch (--config.train.batch_size, --config.eval.batch_size for decoding), more '
  'devices, --config.train.dtype=bfloat16 or --config.mesh.params=full'
)


@dataclasses.dataclass(frozen=True)
class Memory:
  """Bytes of each device.

  Attributes:
    arguments: of the program.
    temporary: arrays that it makes and drops.
    output: its results.
    aliased: results that are written over arguments.
  """

  arguments: int
  temporary: int
  output: int
  aliased: int

  @property
  def total(self) -> int:
    """What a device holds while the program runs."""
    return self.arguments + self.temporary + self.output - self.aliased


def memory_of(program: jax.stages.Compiled) -> Memory | None:
  """The memory of a compiled program; None where the backend does not report it."""
  found = program.memory_analysis()
  if found is None:
    return None
  return Memory(
    found.argument_size_in_bytes,
    found.temp_size_in_bytes,
    found.output_size_in_bytes,
    found.alias_size_in_bytes,
  )


def bytes_per_device(tree: Any) -> int:
  """Bytes of a tree's arrays on each device; they may be abstract, with shardings."""
  return sum(
    math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(tree)
  )


def fits_line(memory: Memory, stats: Mapping[str, int] | None, batch_size: int | None) -> str:
  """'fits: 740 of 16,384 MiB', or '' where the device does not report its memory.

  Args:
    memory: of the program that is to run now, with its arguments on the device.
    stats: ``memory_stats()`` of a device.
    batch_size: of the program, for the message; None: unknown.

  Raises:
    ConfigError: the device has less than the program needs.
  """
  limit = (stats or {}).get('bytes_limit', 0)
  if not stats or not limit:
    return ''
  # Besides the arguments, other arrays may be on the device, such as cached features.
  held = max(memory.arguments, stats.get('bytes_in_use', 0))
  needed = held + memory.total - memory.arguments
  sizes = f'{needed / 2**20:,.0f} of {limit / 2**20:,.0f} MiB'
  if needed <= limit:
    return f'fits: {sizes}'
  rows = f' at a batch size of {batch_size}' if batch_size else ''
  raise ConfigError(
    f'the program does not fit{rows}: it needs {sizes} of each device, {size(held)} of arguments '
    f'and other arrays and {size(memory.temporary)} of temporary arrays; use {REMEDIES}'
  )


def size(number: float) -> str:
  """1.2 GiB, 34 MiB."""
  return f'{number / 2**30:.1f} GiB' if number >= 2**30 else f'{number / 2**20:.0f} MiB'
