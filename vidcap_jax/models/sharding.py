"""Where parameters and optimiser state lie, as ``mesh.params`` says.

  replicated  every device holds all of them
  vocabulary  matrices and biases over the words are spread over the mesh's ``model`` axis
  full        every array is spread over ``data``, along the largest axis that divides

What does not divide stays on every device. An optimiser's moments lie as their parameters do.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vidcap_jax.distributed.mesh import replicated
from vidcap_jax.errors import ConfigError

CHOICES = ('replicated', 'vocabulary', 'full')


def check_choice(how: str) -> None:
  """Raises ConfigError if ``how`` is none of ``CHOICES``."""
  if how not in CHOICES:
    raise ConfigError(f'unknown mesh.params {how!r}; known: {", ".join(CHOICES)}')


def of_params(how: str, mesh: Mesh, size: int, init: Callable[[int], Any]) -> Any:
  """A sharding for each parameter.

  Args:
    how: one of ``CHOICES``.
    mesh: of all devices.
    size: V, of the vocabulary.
    init: vocabulary size -> abstract parameters.

  Raises:
    ConfigError: no such choice.
  """
  check_choice(how)
  params = init(size)
  if how == 'vocabulary':
    return jax.tree.map(
      lambda x, axis: _along(x, axis, 'model', mesh), params, vocabulary_axes(init)
    )
  if how == 'full':
    return jax.tree.map(lambda x: _along(x, _largest(x, mesh.shape['data']), 'data', mesh), params)
  return jax.tree.map(lambda _: replicated(mesh), params)


def vocabulary_axes(init: Callable[[int], Any]) -> Any:
  """For each parameter the axis that runs over the vocabulary, -1 for none.

  Args:
    init: vocabulary size -> abstract parameters. Axes that grow with the size are the vocabulary's,
      so no model has to say which of its parameters they are.
  """

  def axis(a, b):
    grown = [i for i, (m, n) in enumerate(zip(a.shape, b.shape)) if m != n]
    return grown[0] if grown else -1

  return jax.tree.map(axis, init(11), init(12))


def _largest(x: jax.ShapeDtypeStruct, parts: int) -> int:
  """The first of the largest axes that divide into parts, -1 for none."""
  dividing = [i for i, n in enumerate(x.shape) if n % parts == 0]
  return max(dividing, key=lambda i: (x.shape[i], -i), default=-1)


def _along(x: jax.ShapeDtypeStruct, axis: int, name: str, mesh: Mesh) -> NamedSharding:
  if axis < 0 or x.shape[axis] % mesh.shape[name]:
    return replicated(mesh)
  return NamedSharding(mesh, PartitionSpec(*[None] * axis, name))


def summary(params: Any, shardings: Any) -> str:
  """How much of the parameters is spread, for people to read.

  Args:
    params, shardings: trees of the same structure; of the first only the shapes matter.
  """
  whole = held = spread = 0
  for leaf, sharding in zip(jax.tree.leaves(params), jax.tree.leaves(shardings), strict=True):
    size, mine = math.prod(leaf.shape), math.prod(sharding.shard_shape(leaf.shape))
    whole, held, spread = whole + size, held + mine, spread + (size if mine < size else 0)
  if not spread:
    return f'{whole:,} parameters, all of them on every device'
  return (
    f'{whole:,} parameters, {100 * spread / whole:.0f} % of them spread over devices, which hold '
    f'{held:,} each'
  )
