"""The device mesh, and moving batches to devices and back."""

import dataclasses

import jax
import numpy as np
import pytest

from vidcap_jax.distributed import mesh as distributed
from vidcap_jax.errors import ConfigError, DataError


def test_mesh():
  assert dict(distributed.make_mesh().shape) == {'data': 8, 'model': 1}
  assert dict(distributed.make_mesh(model=2).shape) == {'data': 4, 'model': 2}


@pytest.mark.parametrize(
  ('data', 'model', 'message'),
  [
    (3, 2, 'mesh.data=3 x mesh.model=2 .* 8 devices.* mesh.data is 4'),
    (0, 1, 'mesh.data=0 x mesh.model=1 .* 8 devices.* mesh.data is 8'),
    (-8, 1, 'mesh.data=-8 x'),
    *((-1, model, f'mesh.model={model} .* 8 .*: 1, 2, 4, 8$') for model in (0, -1, 3, 16)),
  ],
)
def test_a_mesh_that_does_not_fit(data, model, message):
  with pytest.raises(ConfigError, match=message):
    distributed.make_mesh(data, model)


@dataclasses.dataclass(frozen=True)
class Device:
  """A device of any process, with the attributes that a mesh reads."""

  id: int
  process_index: int
  device_kind: str = 'pod'
  slice_index: int | None = None


@pytest.fixture
def pod(monkeypatch):
  """``pod(processes, devices, index, slice_of)``: JAX as process ``index`` of a pod sees it."""

  def patch(processes, devices, index=0, slice_of=lambda process: None):
    # As on a torus, successive ids belong to different hosts.
    known = [
      Device(p + processes * d, p, slice_index=slice_of(p))
      for d in range(devices)
      for p in range(processes)
    ]
    monkeypatch.setattr(jax, 'devices', lambda: known)
    monkeypatch.setattr(jax, 'process_count', lambda: processes)
    monkeypatch.setattr(jax, 'process_index', lambda: index)

  return patch


@pytest.mark.parametrize(
  ('processes', 'devices', 'model', 'blocks'),
  [
    (2, 4, 1, [(0, 2), (1, 2)]),
    (2, 4, 2, [(0, 2), (1, 2)]),
    (2, 4, 4, [(0, 2), (1, 2)]),
    (2, 4, 8, [(0, 1), (0, 1)]),  # one copy of the model over both: they read the same rows
    (4, 1, 2, [(0, 2), (0, 2), (1, 2), (1, 2)]),
    (4, 2, 1, [(0, 4), (1, 4), (2, 4), (3, 4)]),
  ],
)
def test_blocks_of_rows(processes, devices, model, blocks, pod):
  """A process reads the rows that its devices hold, and together the processes read all rows."""
  found = []
  for index in range(processes):
    pod(processes, devices, index)
    mesh = distributed.make_mesh(model=model)
    found.append(distributed.block(mesh))
    rows = [i for i, row in enumerate(mesh.devices) if {d.process_index for d in row} & {index}]
    block, count = found[-1]
    size = mesh.shape['data'] // count
    assert rows == list(range(block * size, (block + 1) * size))
  assert found == blocks


def test_a_mesh_that_splits_processes_unevenly(pod):
  pod(2, 3)
  with pytest.raises(ConfigError, match='mesh.model=2 .* 6 devices, 3 .*: 1, 3, 6$'):
    distributed.make_mesh(model=2)


@pytest.mark.parametrize('model', [1, 2, 4, 8])
def test_data_goes_over_slices_first(model, pod):
  """Two slices of four processes with two devices; the processes of a slice are not successive."""
  for index in range(8):
    pod(8, 2, index, slice_of=lambda process: process % 2)
    mesh = distributed.make_mesh(model=model)
    slices = np.vectorize(lambda device: device.slice_index)(mesh.devices)
    assert (slices == np.repeat([0, 1], 8).reshape(mesh.devices.shape)).all()
    rows = [i for i, row in enumerate(mesh.devices) if {d.process_index for d in row} & {index}]
    block, count = distributed.block(mesh)
    size = mesh.shape['data'] // count
    assert rows == list(range(block * size, (block + 1) * size))
  assert '8 processes, 2 slices, 16 devices' in distributed.layout(mesh)


def test_a_mesh_that_splits_slices_unevenly(pod):
  pod(6, 1, slice_of=lambda process: process // 3)
  assert dict(distributed.make_mesh(model=6).shape) == {'data': 1, 'model': 6}
  with pytest.raises(ConfigError, match='mesh.model=2 .* 6 devices, .* 3 a slice.*: 1, 3, 6$'):
    distributed.make_mesh(model=2)


@pytest.mark.parametrize('slice_of', [lambda process: 0, lambda process: process // 2])
def test_slices_of_successive_processes_keep_the_order_of_devices(slice_of, pod):
  pod(4, 2)
  expected = [device.id for device in distributed.make_mesh().devices.flat]
  pod(4, 2, slice_of=slice_of)
  assert [device.id for device in distributed.make_mesh().devices.flat] == expected


def test_layout(pod):
  assert distributed.layout(distributed.make_mesh(model=2)) == (
    '1 process, 8 devices (cpu), mesh data=4 x model=2'
  )
  pod(2, 4)
  assert distributed.layout(distributed.make_mesh(model=2)) == (
    '2 processes, 8 devices (pod), mesh data=4 x model=2; shards of a batch by process: 0: 0-1, '
    '1: 2-3'
  )
  pod(64, 1)
  assert distributed.layout(distributed.make_mesh()).endswith(
    'process: 0: 0, 1: 1, 2: 2, …, 63: 63'
  )


def test_batches_go_to_devices_by_row():
  mesh = distributed.make_mesh()
  batch = {'features': {'image': np.arange(48.0, dtype=np.float32).reshape(16, 3)}}
  sharded = distributed.to_devices(batch, mesh)['features']['image']
  assert {shard.data.shape for shard in sharded.addressable_shards} == {(2, 3)}
  np.testing.assert_array_equal(distributed.to_host(sharded), batch['features']['image'])
  distributed.check_batch(16, mesh)
  with pytest.raises(DataError, match='17 .* 8 devices .*: 16 or 24'):
    distributed.check_batch(17, mesh)
  with pytest.raises(DataError, match='4 devices .* data axis.*: 16 or 20'):
    distributed.check_batch(17, distributed.make_mesh(4, 2))


def test_a_single_process_needs_no_communication():
  assert distributed.is_main()
  assert distributed.from_main(0.25) == 0.25
  mesh = distributed.make_mesh()
  assert [bool(distributed.agree(flag, mesh)) for flag in (True, False)] == [True, False]
  distributed.wait_for_all('only one')
