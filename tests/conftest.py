"""For every test: eight CPU devices, no silent rank promotion, strict dtypes on request."""

import os

# Both must be set before jax is first imported. A test run shares its machine: one thread per
# operation is enough for arrays this small, and eight devices would otherwise fight over cores.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ['XLA_FLAGS'] = ' '.join(
  [
    os.environ.get('XLA_FLAGS', ''),
    '--xla_force_host_platform_device_count=8',
    '--xla_cpu_multi_thread_eigen=false',
  ]
).strip()

import jax
import pytest
from absl import flags

# grain's worker processes read absl flags, which nothing parses under pytest.
flags.FLAGS.mark_as_parsed()

jax.config.update('jax_numpy_rank_promotion', 'raise')


@pytest.fixture
def strict_dtypes():
  """Runs the test under strict dtype promotion: a silent bfloat16 to float32 step is an error."""
  with jax.numpy_dtype_promotion('strict'):
    yield
