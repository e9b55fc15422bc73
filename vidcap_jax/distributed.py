"""Mesh, shardings, and moving batches and results between hosts and devices."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vidcap_jax.data.batch import check_batch_size
from vidcap_jax.data.schema import DataError


def make_mesh(data: int = -1, model: int = 1) -> Mesh:
  """A ('data', 'model') mesh over all devices; -1 takes as many as are left.

  Raises:
    DataError: the sizes do not use every device.
  """
  devices = jax.device_count()
  if data == -1:
    data = devices // model
  if data * model != devices:
    raise DataError(
      f'mesh.data={data} x mesh.model={model} is {data * model} devices, there are {devices}; '
      'set mesh.data=-1 to use what is left'
    )
  # Explicit axes, the default of newer releases, would ask every gather for its out_sharding.
  return jax.make_mesh((data, model), ('data', 'model'), axis_types=(AxisType.Auto,) * 2)


def replicated(mesh: Mesh) -> NamedSharding:
  """Every device holds all of it: parameters, optimiser state, scalars."""
  return NamedSharding(mesh, PartitionSpec())


def by_row(mesh: Mesh) -> NamedSharding:
  """The leading axis is spread over the data axis of the mesh: batches."""
  return NamedSharding(mesh, PartitionSpec('data'))


def check_batch(batch_size: int, mesh: Mesh) -> None:
  """DataError, naming the nearest sizes that do, unless a batch divides over the devices."""
  check_batch_size(batch_size, mesh.shape['data'], 'devices')


def to_devices(batch: Mapping[str, Any], mesh: Mesh) -> Mapping[str, Any]:
  """A host's block of a global batch (numpy, leading B / hosts) to a sharded global batch."""
  sharding = by_row(mesh)
  return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), dict(batch))


def own_rows(array: jax.Array, mesh: Mesh) -> np.ndarray:
  """The inverse of ``to_devices``: this host's block of a global batch."""
  if jax.process_count() == 1:
    return jax.device_get(array)
  return multihost_utils.global_array_to_host_local_array(array, mesh, PartitionSpec('data'))


def to_host(tree: Any) -> Any:
  """A tree of global arrays as numpy, whole on every host."""
  if jax.process_count() == 1:
    return jax.device_get(tree)
  return multihost_utils.process_allgather(tree, tiled=True)


def from_main(value: float) -> float:
  """The main process's number, on every process: decisions must agree."""
  if jax.process_count() == 1:
    return value
  return float(multihost_utils.broadcast_one_to_all(np.float64(value)))


def any_process(flag: bool) -> bool:
  """Whether the flag is set on any process."""
  if jax.process_count() == 1:
    return flag
  return bool(multihost_utils.process_allgather(np.asarray(flag)).any())


def is_main() -> bool:
  """Whether this process writes logs, metrics and captions."""
  return jax.process_index() == 0


def wait_for_all(name: str) -> None:
  """Returns when every process has come here."""
  if jax.process_count() > 1:
    multihost_utils.sync_global_devices(name)
