"""Settings of JAX: precision of matrix products, NaN checks, the compilation cache."""

from collections.abc import Mapping

import jax

from vidcap_jax.distributed import compilation_cache
from vidcap_jax.errors import ConfigError

PRECISIONS = ('default', 'high', 'highest')


def apply(settings: Mapping) -> None:
  """Applies ``config.runtime`` to this process; {} stands for the defaults of early configs.

  Raises:
    ConfigError: an unknown precision, or a folder for compiled programs that can't be made.
  """
  precision = settings.get('matmul_precision', PRECISIONS[1])
  check_precision(precision)
  jax.config.update('jax_default_matmul_precision', precision)
  # Settings that are off here keep the values of JAX's environment variables.
  if settings.get('check_nans', False):
    jax.config.update('jax_debug_nans', True)
  compilation_cache.use(settings.get('compilation_cache', ''))


def check_precision(precision: str) -> None:
  """ConfigError for an unknown ``runtime.matmul_precision``."""
  if precision not in PRECISIONS:
    raise ConfigError(
      f'config.runtime.matmul_precision={precision!r} is not known; known: {", ".join(PRECISIONS)}'
    )
