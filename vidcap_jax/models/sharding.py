"""How parameters and optimiser state are sharded.

``mesh.params`` is for the parameters:

  replicated  every device holds a copy of all of them
  vocabulary  arrays with a vocabulary axis are sharded along it over the mesh axis ``model``
  tensor      so are arrays over attention heads and channels inside of feed-forward networks, of
              models that declare them (``sharded_axes``, see ``captioner.py``)
  full        every array is sharded over ``data``, along its largest axis that divides evenly

``mesh.optimizer`` is for the optimiser's moments and for the computation of the update:

  auto        sharded on TPUs of one slice, as the parameters elsewhere
  as_params   as the parameters are
  sharded     over ``data`` too, along the largest axis that divides evenly and is not sharded yet

Arrays that don't divide evenly are replicated.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vidcap_jax.distributed.mesh import replicated, slice_index
from vidcap_jax.errors import ConfigError

CHOICES = ('replicated', 'vocabulary', 'tensor', 'full')
OPTIMIZER_CHOICES = ('auto', 'as_params', 'sharded')


def check_choice(how: str) -> None:
  """Raises ConfigError if ``how`` is none of ``CHOICES``."""
  if how not in CHOICES:
    raise ConfigError(f'unknown mesh.params {how!r}; known: {", ".join(CHOICES)}')


def check_optimizer_choice(how: str) -> None:
  """Raises ConfigError if ``how`` is none of ``OPTIMIZER_CHOICES``."""
  if how not in OPTIMIZER_CHOICES:
    raise ConfigError(f'unknown mesh.optimizer {how!r}; known: {", ".join(OPTIMIZER_CHOICES)}')


def param_shardings(
  how: str,
  mesh: Mesh,
  size: int,
  init: Callable[[int], Any],
  sharded_axes: Mapping[str, int] | None = None,
) -> Any:
  """The sharding of each parameter, a tree like the parameters.

  Args:
    how: one of ``CHOICES``.
    mesh: of all devices.
    size: V, of the vocabulary.
    init: vocabulary size -> abstract parameters.
    sharded_axes: of the model: the last two names of a parameter, 'query/kernel' -> its axis.

  Raises:
    ConfigError: an unknown choice.
  """
  check_choice(how)
  params = init(size)
  if how in ('vocabulary', 'tensor'):
    declared = sharded_axes if how == 'tensor' and sharded_axes else {}

    def by_axis(path, x, axis):
      last_names = '/'.join(key.key for key in path[-2:])
      return _along(x, declared.get(last_names, -1) if axis < 0 else axis, 'model', mesh)

    return jax.tree.map_with_path(by_axis, params, vocabulary_axes(init))
  if how == 'full':
    return jax.tree.map(lambda x: _along(x, _largest(x, mesh.shape['data']), 'data', mesh), params)
  return jax.tree.map(lambda _: replicated(mesh), params)


def moment_shardings(how: str, mesh: Mesh, shapes: Any, params: Any) -> Any:
  """The sharding of each moment of an optimiser, a tree like the parameters.

  None where they are sharded as the parameters are.

  Args:
    how: one of ``OPTIMIZER_CHOICES``.
    mesh: of all devices.
    shapes: abstract parameters.
    params: their shardings.

  Raises:
    ConfigError: an unknown choice.
  """
  check_optimizer_choice(how)
  if how == 'as_params' or mesh.shape['data'] == 1 or (how == 'auto' and not _on_one_slice(mesh)):
    return None
  return jax.tree.map(lambda x, sharding: _over_data(x, sharding, mesh), shapes, params)


def _on_one_slice(mesh: Mesh) -> bool:
  """Whether all devices are TPUs of one slice; over several, sharded moments save no time."""
  devices = mesh.devices.flat
  return devices[0].platform == 'tpu' and len({slice_index(device) for device in devices}) == 1


def _over_data(x: jax.ShapeDtypeStruct, sharding: NamedSharding, mesh: Mesh) -> NamedSharding:
  """The sharding with a further axis of x over ``data``, if there is one that divides evenly."""
  spec = [*sharding.spec, *[None] * (len(x.shape) - len(sharding.spec))]
  free = [1 if name else size for name, size in zip(spec, x.shape)]
  axis = _largest(jax.ShapeDtypeStruct(tuple(free), x.dtype), mesh.shape['data'])
  if axis < 0 or free[axis] == 1 or 'data' in spec:
    return sharding
  spec[axis] = 'data'
  return NamedSharding(mesh, PartitionSpec(*spec[: max(i for i, n in enumerate(spec) if n) + 1]))


def vocabulary_axes(init: Callable[[int], Any]) -> Any:
  """For each parameter the axis that runs over the vocabulary, -1 for none.

  The axis is the one that grows with the vocabulary, so models don't list these parameters.

  Args:
    init: vocabulary size -> abstract parameters.

  Raises:
    ValueError: a parameter has several such axes, or one that is not of the vocabulary's size.
  """
  sizes = (11, 12)

  def axis(path, *leaves):
    pairs = list(zip(*(leaf.shape for leaf in leaves)))
    grown = [i for i, (small, large) in enumerate(pairs) if small != large]
    if len(grown) > 1 or any(pairs[i] != sizes for i in grown):
      raise ValueError(
        f'parameter {jax.tree_util.keystr(path)} has shapes {[leaf.shape for leaf in leaves]} for '
        f'vocabularies of {sizes} words; only one axis may depend on the size, and must equal it'
      )
    return grown[0] if grown else -1

  return jax.tree.map_with_path(axis, *map(init, sizes))


def _largest(x: jax.ShapeDtypeStruct, parts: int) -> int:
  """The first of the largest axes that divide evenly into parts, -1 for none."""
  dividing = [i for i, n in enumerate(x.shape) if n % parts == 0]
  return max(dividing, key=lambda i: (x.shape[i], -i), default=-1)


def _along(x: jax.ShapeDtypeStruct, axis: int, name: str, mesh: Mesh) -> NamedSharding:
  if axis < 0 or x.shape[axis] % mesh.shape[name]:
    return replicated(mesh)
  return NamedSharding(mesh, PartitionSpec(*[None] * axis, name))


def summary(params: Any, shardings: Any) -> str:
  """A line for the log: how many parameters there are and how many of them are sharded.

  Args:
    params, shardings: trees of the same structure; only the shapes of ``params`` matter.
  """
  total = per_device = sharded = 0
  for leaf, sharding in zip(jax.tree.leaves(params), jax.tree.leaves(shardings), strict=True):
    size, shard = math.prod(leaf.shape), math.prod(sharding.shard_shape(leaf.shape))
    total, per_device = total + size, per_device + shard
    sharded += size if shard < size else 0
  if not sharded:
    return f'{total:,} parameters, all of them on every device'
  return (
    f'{total:,} parameters, {100 * sharded / total:.0f} % of them spread over devices, which hold '
    f'{per_device:,} each'
  )
