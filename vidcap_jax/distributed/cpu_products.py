"""Which library takes the matrix products of programs on a CPU.

XLA has two: YNNPACK, its default since jaxlib 0.10, and Eigen. Eigen is faster at plain products,
by a third for the 64 rows of a word, and slower where a matrix is transposed, such as the keys of a
Transformer's attention. So recurrent captioners are decoded with Eigen, and some are trained with
it.
"""

import functools

import jax
from flax import linen as nn
from jax.sharding import Mesh

_EIGEN = {'xla_cpu_experimental_ynn_fusion_type': ''}
# Models whose training steps Eigen makes faster (docs/speed.md); it slows down those of the others.
_TRAINED_WITH_EIGEN = ('global2local', 'refocus', 'temporal_spatial')


def decoder_options(mesh: Mesh | None, *modules: nn.Module) -> dict[str, str] | None:
  """The ``compiler_options`` of ``jax.jit`` for a program that decodes with these models.

  Args:
    mesh: of the program; None: JAX's default device.
    modules: models; a Transformer is one that has ``teacher_force``.
  """
  has_transformer = any(hasattr(module, 'teacher_force') for module in modules)
  return None if has_transformer else _eigen(mesh)


def step_options(mesh: Mesh | None, model: str) -> dict[str, str] | None:
  """The ``compiler_options`` of ``jax.jit`` for training steps of a model.

  Args:
    mesh: of the program; None: JAX's default device.
    model: its name in the config.
  """
  return _eigen(mesh) if model in _TRAINED_WITH_EIGEN else None


def _eigen(mesh: Mesh | None) -> dict[str, str] | None:
  """The options that choose Eigen; None on other devices than CPUs, or if there is no choice."""
  platform = mesh.devices.flat[0].platform if mesh else jax.default_backend()
  return _EIGEN if platform == 'cpu' and _can_choose() else None


@functools.cache
def _can_choose() -> bool:
  """Whether this jaxlib has the option."""
  try:
    jax.jit(lambda: 0, compiler_options=_EIGEN).lower().compile()
  except jax.errors.JaxRuntimeError:
    return False
  return True
