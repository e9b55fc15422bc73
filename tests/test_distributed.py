"""The same run in one process and in two that share the devices."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from tests import tiny
from vidcap_jax import checkpoint, distributed
from vidcap_jax.data.schema import DataError
from vidcap_jax.journal import read_journal

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECONDS = 240


def free_port() -> int:
  with socket.socket() as probe:
    probe.bind(('localhost', 0))
    return probe.getsockname()[1]


def run_together(config, data, workdir, processes: int, devices: int) -> list[str]:
  """Runs ``two_processes.py`` in so many processes; their outputs."""
  flags = f'--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0'
  environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'XLA_FLAGS': flags}
  script, port = str(ROOT / 'tests' / 'two_processes.py'), str(free_port())
  running = []
  outputs = [workdir.parent / f'output_{index}' for index in range(processes)]
  deadline = time.monotonic() + SECONDS
  try:
    for index, output in enumerate(outputs):
      argv = [sys.executable, script, port, str(processes), str(index), config, data, str(workdir)]
      with output.open('w') as file:
        running.append(subprocess.Popen(argv, env=environment, stdout=file, stderr=file))
    codes = [p.wait(max(1, deadline - time.monotonic())) for p in running]
  finally:
    for process in running:
      process.kill()
  texts = [output.read_text() for output in outputs]
  assert codes == [0] * processes, '\n'.join(texts)
  return texts


def arrays(workdir):
  (step,) = checkpoint.steps(workdir / 'checkpoints' / 'xe')[-1:]
  path = workdir / 'checkpoints' / 'xe' / str(step)
  return step, jax.tree.leaves_with_path(checkpoint.read_params_as_saved(path))


@pytest.mark.timeout(SECONDS + 60)
def test_two_processes_train_as_one(tiny_data, tmp_path):
  with tiny.without_java():
    alone = tiny.run(tiny.short_config(tiny_data), tmp_path / 'alone')
  together = tmp_path / 'together'
  main, other = run_together('short_config', tiny_data, together, processes=2, devices=4)
  assert 'step 3/3' in main
  assert '[xe]' not in other  # one of them speaks, writes the records, captions and scores
  (step, expected), (found_step, found) = arrays(alone), arrays(together)
  assert step == found_step == 3
  for (name, a), (other_name, b) in zip(expected, found, strict=True):
    assert name == other_name
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=jax.tree_util.keystr(name))

  left, right = tiny.left_by(alone), tiny.left_by(together)
  assert [(r['kind'], r['step']) for r in left['records']] == [
    (r['kind'], r['step']) for r in right['records']
  ]
  losses = [[r['loss'] for r in run['records'] if 'loss' in r] for run in (left, right)]
  np.testing.assert_allclose(*losses, rtol=1e-6)
  said = [
    {file: [(c['video_id'], c['caption']) for c in json.loads(text)] for file, text in run.items()}
    for run in (left['captions'], right['captions'])
  ]
  assert said[0] == said[1] != {}
  assert len(read_journal(together)) == 3 + 2

  # Started again, both see that it is finished; after a kill both go on from the same step.
  (together / 'stages.json').unlink()
  main, other = run_together('short_config', tiny_data, together, processes=2, devices=4)
  assert 'restored step 3 ' in main
  assert tiny.left_by(together) == right


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
def test_two_processes_fuse_as_one(tiny_data, tmp_path):
  with tiny.unscored_by_java():
    alone = tiny.run(tiny.fused_config(tiny_data), tmp_path / 'alone')
  run_together('fused_config', tiny_data, tmp_path / 'together', processes=2, devices=4)
  left, right = (
    json.loads((workdir / 'eval' / 'val' / 'captions.json').read_text())
    for workdir in (alone, tmp_path / 'together')
  )
  for a, b in zip(left, right, strict=True):
    assert (a['video_id'], a['caption'], a['chosen']) == (b['video_id'], b['caption'], b['chosen'])
  assert len(left) == 3


def test_mesh():
  assert dict(distributed.make_mesh().shape) == {'data': 8, 'model': 1}
  assert dict(distributed.make_mesh(model=2).shape) == {'data': 4, 'model': 2}
  with pytest.raises(DataError, match='mesh.data=3 x mesh.model=2 is 6 devices, there are 8'):
    distributed.make_mesh(3, 2)


def test_batches_go_to_devices_by_row():
  mesh = distributed.make_mesh()
  batch = {'features': {'image': np.arange(48.0, dtype=np.float32).reshape(16, 3)}}
  there = distributed.to_devices(batch, mesh)['features']['image']
  assert {shard.data.shape for shard in there.addressable_shards} == {(2, 3)}
  np.testing.assert_array_equal(distributed.to_host(there), batch['features']['image'])
  distributed.check_batch(16, mesh)
  with pytest.raises(DataError, match='17 does not divide over 8 devices; .*: 16 or 24'):
    distributed.check_batch(17, mesh)


def test_one_process_decides_for_itself():
  assert distributed.is_main()
  assert distributed.from_main(0.25) == 0.25
  assert [distributed.any_process(flag) for flag in (True, False)] == [True, False]
  distributed.wait_for_all('nobody else')
