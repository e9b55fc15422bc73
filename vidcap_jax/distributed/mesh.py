"""The device mesh, and moving batches and results between hosts and devices."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vidcap_jax.counts import counted
from vidcap_jax.errors import ConfigError, DataError


def make_mesh(data: int = -1, model: int = 1, devices: Sequence[Any] = ()) -> Mesh:
  """A ('data', 'model') mesh over all devices; data=-1 takes those that ``model`` leaves.

  Devices are ordered by slice, so that only ``data`` spans the slower network between slices, and
  in a slice by process, so that the rows of a batch that a process holds are contiguous.

  Args:
    data, model: the sizes of the axes.
    devices: other devices than JAX's, such as those of a topology.

  Raises:
    ConfigError: the sizes do not use every device, or split the devices of a process or of a slice
      unevenly; the message names sizes that fit.
  """
  # mesh_utils.create_hybrid_device_mesh has the same order of slices, but orders a slice's devices
  # along its links, where the rows of a process are not contiguous.
  ordered = sorted(devices or jax.devices(), key=lambda d: (slice_index(d), d.process_index, d.id))
  slices = _count(ordered, slice_index)
  total, each = len(ordered), len(ordered) // _count(ordered, lambda d: d.process_index)
  units = {each, total // slices}
  sizes = [n for n in range(1, total + 1) if not total % n and all(_divides(n, u) for u in units)]
  if model not in sizes:
    of_slices = f', {total // slices} a slice' if slices > 1 else ''
    raise ConfigError(
      f'mesh.model={model} does not fit {total} devices, {each} a process{of_slices}; it is a part '
      f'or a multiple of the devices of a process{" and of a slice" if slices > 1 else ""}: '
      f'{", ".join(map(str, sizes))}'
    )
  if data not in (-1, total // model):
    raise ConfigError(
      f'mesh.data={data} x mesh.model={model} does not make {total} devices; with this mesh.model, '
      f'mesh.data is {total // model}, or -1 for what is left'
    )
  data = total // model
  # Mesh makes all axes Auto; with Explicit ones, as jax.make_mesh has them, every gather would need
  # an out_sharding.
  return Mesh(np.array(ordered).reshape(data, model), ('data', 'model'))


def slice_index(device: Any) -> int:
  """The slice of a device: 0 on CPUs and in a job of one TPU slice, where JAX numbers none."""
  return getattr(device, 'slice_index', None) or 0


def _count(devices: Sequence[Any], group: Callable[[Any], int]) -> int:
  return len({group(device) for device in devices})


def _divides(size: int, unit: int) -> bool:
  """Whether one of two numbers is a multiple of the other."""
  return not (unit % size and size % unit)


def layout(mesh: Mesh) -> str:
  """One line: processes, slices, devices, mesh, and the shards of a batch of each process."""
  count, slices = jax.process_count(), _count(list(mesh.devices.flat), slice_index)
  kind = mesh.devices.flat[0].device_kind
  line = f'{counted(count, "process", plural="processes")}, '
  line += f'{slices} slices, ' if slices > 1 else ''
  line += f'{counted(mesh.size, "device")} ({kind}), mesh '
  line += f'data={mesh.shape["data"]} x model={mesh.shape["model"]}'
  if count == 1:
    return line
  shown = [f'{process}: {_span(_rows(mesh, process))}' for process in range(count)]
  if count > 16:
    shown = [*shown[:3], '…', shown[-1]]
  return f'{line}; shards of a batch by process: {", ".join(shown)}'


def _span(rows: list[int]) -> str:
  return f'{rows[0]}-{rows[-1]}' if len(rows) > 1 else f'{rows[0]}'


def _rows(mesh: Mesh, process: int) -> list[int]:
  """The indices on the data axis at which a process has a device."""
  return [i for i, row in enumerate(mesh.devices) if any(d.process_index == process for d in row)]


def block(mesh: Mesh) -> tuple[int, int]:
  """The index of the block of a batch's rows that this process reads, and the number of blocks.

  Processes that share one copy of the model read the same block.
  """
  mine = _rows(mesh, jax.process_index())
  return mine[0] // len(mine), mesh.shape['data'] // len(mine)


def replicated(mesh: Mesh) -> NamedSharding:
  """The sharding that puts the whole array on every device, for scalars and tables."""
  return NamedSharding(mesh, PartitionSpec())


def by_row(mesh: Mesh) -> NamedSharding:
  """The sharding of batches: the leading axis is split over the data axis of the mesh."""
  return NamedSharding(mesh, PartitionSpec('data'))


def check_batch_size(batch_size: int, parts: int, what: str = 'hosts') -> None:
  """Raises DataError, with the nearest sizes that fit, unless ``parts`` divides a batch."""
  if parts < 1:
    raise DataError(f'{parts} {what}: at least 1 is needed')
  if batch_size % parts:
    below = batch_size // parts * parts
    nearest = f'{below} or {below + parts}' if below else f'{parts}'
    raise DataError(
      f'a batch size of {batch_size} does not divide over {parts} {what}; '
      f'the nearest that does: {nearest}'
    )


_batch_mesh: contextvars.ContextVar[Mesh | None] = contextvars.ContextVar('mesh', default=None)


@contextlib.contextmanager
def batch_sharded_over(mesh: Mesh | None) -> Iterator[None]:
  """While a program is traced: its batches are sharded as ``by_row`` says; None if not known."""
  token = _batch_mesh.set(mesh)
  try:
    yield
  finally:
    _batch_mesh.reset(token)


def batch_shards() -> int:
  """The shards of a batch in the program that is traced; 1 if that is not known.

  For layers that sum over a batch what is cheaper to send after another operation.
  """
  mesh = _batch_mesh.get()
  return mesh.shape['data'] if mesh else 1


def batch_platform() -> str:
  """The platform that is traced for ('cpu', 'gpu', 'tpu'); JAX's default if that is not known."""
  mesh = _batch_mesh.get()
  return mesh.devices.flat[0].platform if mesh else jax.default_backend()


def check_batch(batch_size: int, mesh: Mesh) -> None:
  """Raises DataError, with the nearest sizes that fit, unless the data axis divides a batch."""
  check_batch_size(batch_size, mesh.shape['data'], "devices of the mesh's data axis")


def to_devices(batch: Mapping[str, Any], mesh: Mesh) -> Mapping[str, Any]:
  """Makes a sharded global batch from this process's block (numpy, leading axis B / blocks)."""
  sharding = by_row(mesh)
  return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), dict(batch))


def own_rows(array: jax.Array, mesh: Mesh) -> np.ndarray:
  """The inverse of ``to_devices``: this process's block of a global batch, as numpy."""
  if jax.process_count() == 1:
    return jax.device_get(array)
  return multihost_utils.global_array_to_host_local_array(array, mesh, PartitionSpec('data'))


def to_host(tree: Any) -> Any:
  """A tree of global arrays as numpy, the whole arrays on every process."""
  if jax.process_count() == 1:
    return jax.device_get(tree)
  return multihost_utils.process_allgather(tree, tiled=True)


def gather(data: bytes) -> list[bytes]:
  """All-gathers bytes: the data of every process, in the order of processes."""
  sizes = multihost_utils.process_allgather(np.int32(len(data)))
  padded = np.zeros(max(1, sizes.max()), np.uint8)
  padded[: len(data)] = np.frombuffer(data, np.uint8)
  rows = multihost_utils.process_allgather(padded)
  return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def from_main(value: float) -> float:
  """Broadcasts the main process's value, so that all processes decide alike."""
  if jax.process_count() == 1:
    return value
  halves = np.float64(value).reshape(1).view(np.uint32)  # devices may have no float64
  return float(np.asarray(multihost_utils.broadcast_one_to_all(halves)).view(np.float64)[0])


def agree(flag: bool, mesh: Mesh) -> Any:
  """Whether the flag is set on any process, as an array that is computed in the background.

  All processes have to call it at the same step.
  """
  if jax.process_count() == 1:
    return flag
  everywhere = NamedSharding(mesh, PartitionSpec(('data', 'model')))
  mine = np.full(len(mesh.local_devices), flag)
  return _any(jax.make_array_from_process_local_data(everywhere, mine))


_any = jax.jit(jnp.any)


def is_main() -> bool:
  """Whether this process writes logs, metrics and captions."""
  return jax.process_index() == 0


def wait_for_all(name: str) -> None:
  """Waits until every process has called this with the same name."""
  if jax.process_count() > 1:
    multihost_utils.sync_global_devices(name)
