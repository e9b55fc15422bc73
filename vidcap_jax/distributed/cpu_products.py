"""Which library takes the matrix products of programs on a CPU.

XLA has two: YNNPACK, its default since jaxlib 0.10, and Eigen. Eigen is faster at plain products,
by a third for the 64 rows of a word, and slower where a matrix is transposed, such as the keys of a
Transformer's attention. So recurrent captioners are decoded with Eigen.
"""

import functools

import jax
from flax import linen as nn
from jax.sharding import Mesh

_EIGEN = {'xla_cpu_experimental_ynn_fusion_type': ''}


def decoder_options(mesh: Mesh | None, *modules: nn.Module) -> dict[str, str] | None:
  """The ``compiler_options`` of ``jax.jit`` for a program that decodes with these models.

  Args:
    mesh: of the program; None: JAX's default device.
    modules: models; a Transformer is one that has ``teacher_force``.
  """
  platform = mesh.devices.flat[0].platform if mesh else jax.default_backend()
  has_transformer = any(hasattr(module, 'teacher_force') for module in modules)
  return _EIGEN if platform == 'cpu' and not has_transformer and _can_choose() else None


@functools.cache
def _can_choose() -> bool:
  """Whether this jaxlib has the option."""
  try:
    jax.jit(lambda: 0, compiler_options=_EIGEN).lower().compile()
  except jax.errors.JaxRuntimeError:
    return False
  return True
