"""Double precision in a test."""

import contextlib

import jax


def enable_x64(enabled: bool = True) -> contextlib.AbstractContextManager:
  """``jax.enable_x64``, which before jax 0.8 was in ``jax.experimental``, deprecated since."""
  if hasattr(jax, 'enable_x64'):
    return jax.enable_x64(enabled)
  from jax import experimental

  return experimental.enable_x64(enabled)
