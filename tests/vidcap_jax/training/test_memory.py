"""What a program takes of a device, and the verdict."""

import jax
import jax.numpy as jnp
import pytest

from vidcap_jax.distributed.mesh import by_row, make_mesh, replicated
from vidcap_jax.errors import ConfigError
from vidcap_jax.training.memory import Memory, bytes_per_device, fits_line, memory_of

MIB = 2**20
MEMORY = Memory(arguments=100 * MIB, temporary=50 * MIB, output=90 * MIB, aliased=80 * MIB)


def test_memory_of_a_program():
  x = jax.ShapeDtypeStruct((256, 256), jnp.float32)
  program = jax.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
  memory = memory_of(program)
  assert memory.arguments == memory.output == memory.aliased == 256 * 256 * 4
  assert memory.total == memory.arguments + memory.temporary


def test_a_sharded_array_counts_by_its_shard():
  mesh = make_mesh()
  arrays = [
    jax.ShapeDtypeStruct((16, 4), jnp.float32, sharding=s(mesh)) for s in (by_row, replicated)
  ]
  assert bytes_per_device(arrays) == 16 * 4 * 4 // 8 + 16 * 4 * 4


@pytest.mark.parametrize(
  ('in_use', 'needed'),
  [
    (0, 160),
    (100, 160),
    (300, 360),  # other arrays stay while the program runs
  ],
)
def test_what_is_needed(in_use, needed):
  stats = {'bytes_limit': 1000 * MIB, 'bytes_in_use': in_use * MIB}
  assert fits_line(MEMORY, stats, 64) == f'fits: {needed} of 1,000 MiB'


@pytest.mark.parametrize('stats', [None, {}, {'bytes_in_use': 7}])
def test_a_device_that_reports_no_limit(stats):
  assert fits_line(MEMORY, stats, 64) == ''


def test_too_little_memory():
  with pytest.raises(ConfigError, match='batch size of 64.*160 of 150 MiB.*batch_size'):
    fits_line(MEMORY, {'bytes_limit': 150 * MIB}, 64)
