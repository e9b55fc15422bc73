"""Detecting the process of a job from the environment variables of each launcher."""

import io
import re
import socket
from urllib.error import HTTPError, URLError

import pytest

from vidcap_jax.distributed import cluster
from vidcap_jax.distributed.cluster import JobProcess, find_process
from vidcap_jax.errors import UserError

SLURM = {
  'SLURM_JOB_ID': '1234567',
  'SLURM_STEP_NODELIST': 'gpu[007-009,12],login',
  'SLURM_STEP_NUM_TASKS': '4',
  'SLURM_STEP_TASKS_PER_NODE': '1(x4)',
  'SLURM_NTASKS': '4',
  'SLURM_PROCID': '2',
  'SLURM_NODEID': '2',
  'SLURM_LOCALID': '0',
}
OPEN_MPI = {
  'OMPI_COMM_WORLD_SIZE': '4',
  'OMPI_COMM_WORLD_RANK': '3',
  'OMPI_COMM_WORLD_LOCAL_RANK': '1',
  'OMPI_COMM_WORLD_LOCAL_SIZE': '2',
  'OMPI_MCA_orte_hnp_uri': '1531576320.0;tcp://10.96.0.1,10.148.0.1:34911',
}
TPU_POD = {'TPU_WORKER_ID': '1', 'TPU_WORKER_HOSTNAMES': 'w-0.svc,w-1.svc'}
TPU_VM = {'agent-worker-number': '1', 'worker-network-endpoints': 'a:1:10.0.0.2,b:2:10.0.0.3'}
SLICES = {
  'MEGASCALE_NUM_SLICES': '2',
  'MEGASCALE_SLICE_ID': '1',
  'MEGASCALE_COORDINATOR_ADDRESS': 'job-0-0.job:8080',
}
JOB_SET = {
  'JOBSET_NAME': 'run',
  'REPLICATED_JOB_NAME': 'worker',
  'PODS_PER_JOB': '4',
  'JOB_COMPLETION_INDEX': '3',
}


@pytest.mark.parametrize(
  ('environment', 'process'),
  [
    (SLURM, JobProcess('gpu007:63111', 4, 2, None, 'Slurm')),
    ({**SLURM, 'SLURM_STEP_NODELIST': 'n1,n2'}, JobProcess('n1:63111', 4, 2, None, 'Slurm')),
    (
      {**SLURM, 'SLURM_STEP_NODELIST': 'r[2-3]n[01-9]'},
      JobProcess('r2n01:63111', 4, 2, None, 'Slurm'),
    ),
    (OPEN_MPI, JobProcess('10.96.0.1:62624', 4, 3, (1,), 'Open MPI')),
    (
      {**OPEN_MPI, 'OMPI_MCA_orte_hnp_uri': '4096.0;tcp6://[fe80::1,2620::2]:43370'},
      JobProcess('[fe80::1]:61441', 4, 3, (1,), 'Open MPI'),
    ),
    (
      {k: v for k, v in OPEN_MPI.items() if 'uri' not in k} | {'OMPI_COMM_WORLD_LOCAL_SIZE': '4'},
      JobProcess('localhost:61440', 4, 3, (1,), 'Open MPI'),
    ),
    (TPU_POD, JobProcess('w-0.svc:8476', 2, 1, None, 'TPU variables')),
    (
      {**TPU_POD, 'TPU_PROCESS_ADDRESSES': 'x:8471,y:8471,z:8471'},
      JobProcess('x:8476', 3, 1, None, 'TPU variables'),
    ),
    ({**TPU_POD, **SLICES}, JobProcess('job-0-0.job:8476', 4, 3, None, 'TPU variables')),
    (TPU_VM, JobProcess('10.0.0.2:8476', 2, 1, None, 'TPU metadata')),
    (
      {**TPU_VM, 'worker-network-endpoints': 'h0,h1,h2'},
      JobProcess('h0:8476', 3, 1, None, 'TPU metadata'),
    ),
    (
      {
        **TPU_VM,
        'tpu-env': "TYPE: 'V4'\nMEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '1'\n"
        "MEGASCALE_COORDINATOR_ADDRESS: '10.9.9.9:8080'",
      },
      JobProcess('10.9.9.9:8476', 4, 3, None, 'TPU metadata'),
    ),
    (JOB_SET, JobProcess('run-worker-0-0.run:8476', 4, 3, None, 'JobSet')),
    (
      {**JOB_SET, 'JOB_REPLICAS': '2', 'JOB_INDEX': '1'},
      JobProcess('run-worker-0-0.run:8476', 8, 7, None, 'JobSet'),
    ),
    # mpirun inside a Slurm job: Slurm's variables describe mpirun's daemons.
    ({**SLURM, **OPEN_MPI}, JobProcess('10.96.0.1:62624', 4, 3, (1,), 'Open MPI')),
    # GKE's webhook adds the slice's variables to a JobSet's pods.
    ({**JOB_SET, **TPU_POD}, JobProcess('w-0.svc:8476', 2, 1, None, 'TPU variables')),
  ],
)
def test_each_launcher(environment, process):
  assert find_process(environment) == process


@pytest.mark.parametrize(
  'environment',
  [
    {},
    {'PATH': '/bin', 'SLURM_JOB_ID': '1', 'SLURM_NTASKS': '8', 'SLURM_PROCID': '0'},  # no srun
    {**SLURM, 'SLURM_STEP_NUM_TASKS': '1', 'SLURM_PROCID': '0'},
    {**TPU_POD, 'TPU_WORKER_ID': '0', 'TPU_WORKER_HOSTNAMES': 'localhost'},
    {**TPU_VM, 'agent-worker-number': '0', 'worker-network-endpoints': 'h0'},
    {**JOB_SET, 'PODS_PER_JOB': '1', 'JOB_COMPLETION_INDEX': '0'},
    {'KUBERNETES_SERVICE_HOST': '10.0.0.1', 'JOB_COMPLETION_INDEX': '0'},
    {'JAX_COORDINATOR_ADDRESS': 'somewhere:1234'},
  ],
)
def test_a_single_process(environment):
  assert find_process(environment) is None


def test_flags_override_the_environment():
  assert find_process({}, 'h:1', 2, 1) == JobProcess('h:1', 2, 1)
  assert find_process({}, 'h', 2, 0) == JobProcess('h:8476', 2, 0)
  assert find_process(SLURM, 'h:1') == JobProcess('h:1', 4, 2, None, 'Slurm')
  assert find_process({**SLURM, 'JAX_COORDINATOR_ADDRESS': 'j:2'}).coordinator_address == 'j:2'
  assert (
    find_process({**SLURM, 'JAX_COORDINATOR_ADDRESS': 'j:2'}, 'h:1').coordinator_address == 'h:1'
  )
  assert find_process(SLURM, num_processes=1, process_id=0) is None
  assert find_process({}, None, 1, None) is None


@pytest.mark.parametrize(
  ('tasks', 'local', 'visible', 'gpus'),
  [
    ('1(x4)', '0', None, None),  # one task on each node: all GPUs
    ('8(x4)', '5', None, (5,)),
    ('8(x4)', '5', '0,1,2,3,4,5,6,7', (5,)),
    ('2(x4)', '1', '0,1,2,3,4,5,6,7', (4, 5, 6, 7)),
    ('8(x4)', '5', '5', None),  # Slurm already shows each task its own
    ('1(x2),4,1', '3', '0,1,2,3', (3,)),  # this is the third node
  ],
)
def test_gpus_of_a_machine_are_divided_among_its_processes(tasks, local, visible, gpus):
  environment = {**SLURM, 'SLURM_STEP_TASKS_PER_NODE': tasks, 'SLURM_LOCALID': local}
  if visible:
    environment['CUDA_VISIBLE_DEVICES'] = visible
  assert find_process(environment).local_device_ids == gpus


@pytest.mark.parametrize(
  ('environment', 'flags', 'message'),
  [
    ({}, ('h:1', None, None), 'need --num_processes, --process_id: .*no launcher'),
    ({}, ('h:1', 2, None), 'need --process_id: .*no launcher'),
    ({}, (None, 2, 1), 'need --coordinator:'),
    ({}, ('h:1', 2, 2), '--process_id=2 of --num_processes=2'),
    ({}, ('h:port', 2, 1), '--coordinator=h:port: .*HOST:PORT'),
    (
      {k: v for k, v in OPEN_MPI.items() if 'uri' not in k},
      (None, None, None),
      'need --coordinator: .*Open MPI',
    ),
    (
      {**SLURM, 'SLURM_PROCID': 'x'},
      (),
      "Slurm.*'x'",
    ),
    (
      {k: v for k, v in JOB_SET.items() if k != 'PODS_PER_JOB'},
      (),
      "JobSet.*'PODS_PER_JOB'.* --coordinator",
    ),
  ],
)
def test_incomplete_or_malformed_settings(environment, flags, message):
  with pytest.raises(UserError) as raised:
    find_process(environment, *flags)
  assert re.search(message, str(raised.value))
  assert '\n' not in str(raised.value)


def test_metadata_are_requested_on_tpu_machines_only(monkeypatch):
  def fail(*_, **__):
    raise AssertionError('requested')

  monkeypatch.setattr(cluster.urllib.request, 'urlopen', fail)
  assert cluster.tpu_metadata({}) == {}


@pytest.fixture
def server(monkeypatch):
  """Compute Engine's metadata server on a machine with TPUs.

  It raises its ``errors`` first, and 404 for an unknown key; ``requests`` are those received.
  """

  class Server:
    def __init__(self):
      self.errors, self.requests = [], []

    def __call__(self, request, timeout):
      self.requests.append(request)
      if self.errors:
        raise self.errors.pop(0)
      key = request.full_url.rpartition('/')[2]
      if key not in TPU_VM:
        raise HTTPError(request.full_url, 404, 'no such key', {}, None)
      return io.BytesIO(TPU_VM[key].encode())

  fake = Server()
  monkeypatch.setattr(cluster, '_has_tpu', lambda: True)
  monkeypatch.setattr(cluster.time, 'sleep', lambda _: None)
  monkeypatch.setattr(cluster.urllib.request, 'urlopen', fake)
  return fake


def test_metadata(server):
  assert cluster.tpu_metadata({}) == TPU_VM
  assert server.requests[0].get_header('Metadata-flavor') == 'Google'
  assert find_process(cluster.tpu_metadata({})).process_id == 1
  server.requests.clear()
  for skipped in ({'TPU_SKIP_MDS_QUERY': '1'}, TPU_POD):
    assert cluster.tpu_metadata(skipped) == {}
  assert not server.requests


# After these errors a worker must not conclude that it is the only process.
TEMPORARY_ERRORS = [
  TimeoutError('timed out'),
  HTTPError('http://metadata', 503, 'busy', {}, None),
  URLError(ConnectionRefusedError('refused')),
  URLError(socket.gaierror(socket.EAI_AGAIN, 'no name server')),
]


@pytest.mark.parametrize('error', TEMPORARY_ERRORS, ids=str)
def test_metadata_are_requested_again(error, server):
  server.errors = [error] * 4
  assert find_process(cluster.tpu_metadata({})).process_id == 1


@pytest.mark.parametrize('error', TEMPORARY_ERRORS, ids=str)
def test_metadata_that_never_arrive_are_an_error(error, server):
  server.errors = [error] * 5
  with pytest.raises(UserError, match='agent-worker-number.* TPU_SKIP_MDS_QUERY=1'):
    cluster.tpu_metadata({})


def test_no_metadata_server(server):
  server.errors = [URLError(socket.gaierror(socket.EAI_NONAME, 'not known')) for _ in range(3)]
  assert cluster.tpu_metadata({}) == {}
