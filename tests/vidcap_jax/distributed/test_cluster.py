"""Which process this one is, by what each kind of launcher leaves in the environment."""

import io
import re
import socket
from urllib.error import HTTPError, URLError

import pytest

from vidcap_jax.distributed import cluster
from vidcap_jax.distributed.cluster import Place, find
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
  ('environment', 'place'),
  [
    (SLURM, Place('gpu007:63111', 4, 2, None, 'Slurm')),
    ({**SLURM, 'SLURM_STEP_NODELIST': 'n1,n2'}, Place('n1:63111', 4, 2, None, 'Slurm')),
    ({**SLURM, 'SLURM_STEP_NODELIST': 'r[2-3]n[01-9]'}, Place('r2n01:63111', 4, 2, None, 'Slurm')),
    (OPEN_MPI, Place('10.96.0.1:62624', 4, 3, (1,), 'Open MPI')),
    (
      {**OPEN_MPI, 'OMPI_MCA_orte_hnp_uri': '4096.0;tcp6://[fe80::1,2620::2]:43370'},
      Place('[fe80::1]:61441', 4, 3, (1,), 'Open MPI'),
    ),
    (
      {k: v for k, v in OPEN_MPI.items() if 'uri' not in k} | {'OMPI_COMM_WORLD_LOCAL_SIZE': '4'},
      Place('localhost:61440', 4, 3, (1,), 'Open MPI'),
    ),
    (TPU_POD, Place('w-0.svc:8476', 2, 1, None, 'TPU variables')),
    (
      {**TPU_POD, 'TPU_PROCESS_ADDRESSES': 'x:8471,y:8471,z:8471'},
      Place('x:8476', 3, 1, None, 'TPU variables'),
    ),
    ({**TPU_POD, **SLICES}, Place('job-0-0.job:8476', 4, 3, None, 'TPU variables')),
    (TPU_VM, Place('10.0.0.2:8476', 2, 1, None, 'TPU metadata')),
    (
      {**TPU_VM, 'worker-network-endpoints': 'h0,h1,h2'},
      Place('h0:8476', 3, 1, None, 'TPU metadata'),
    ),
    (
      {
        **TPU_VM,
        'tpu-env': "TYPE: 'V4'\nMEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '1'\n"
        "MEGASCALE_COORDINATOR_ADDRESS: '10.9.9.9:8080'",
      },
      Place('10.9.9.9:8476', 4, 3, None, 'TPU metadata'),
    ),
    (JOB_SET, Place('run-worker-0-0.run:8476', 4, 3, None, 'JobSet')),
    (
      {**JOB_SET, 'JOB_REPLICAS': '2', 'JOB_INDEX': '1'},
      Place('run-worker-0-0.run:8476', 8, 7, None, 'JobSet'),
    ),
    # mpirun inside of a Slurm job: Slurm's numbers are those of mpirun's own daemons.
    ({**SLURM, **OPEN_MPI}, Place('10.96.0.1:62624', 4, 3, (1,), 'Open MPI')),
    # GKE's webhook adds the slice's variables to a JobSet's pods.
    ({**JOB_SET, **TPU_POD}, Place('w-0.svc:8476', 2, 1, None, 'TPU variables')),
  ],
)
def test_each_launcher(environment, place):
  assert find(environment) == place


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
def test_a_lone_process(environment):
  assert find(environment) is None


def test_flags_go_first():
  assert find({}, 'h:1', 2, 1) == Place('h:1', 2, 1)
  assert find({}, 'h', 2, 0) == Place('h:8476', 2, 0)
  assert find(SLURM, 'h:1') == Place('h:1', 4, 2, None, 'Slurm')
  assert find({**SLURM, 'JAX_COORDINATOR_ADDRESS': 'j:2'}).coordinator == 'j:2'
  assert find({**SLURM, 'JAX_COORDINATOR_ADDRESS': 'j:2'}, 'h:1').coordinator == 'h:1'
  assert find(SLURM, count=1, index=0) is None
  assert find({}, None, 1, None) is None


@pytest.mark.parametrize(
  ('tasks', 'local', 'visible', 'mine'),
  [
    ('1(x4)', '0', None, None),  # a task for each node: all its GPUs
    ('8(x4)', '5', None, (5,)),
    ('8(x4)', '5', '0,1,2,3,4,5,6,7', (5,)),
    ('2(x4)', '1', '0,1,2,3,4,5,6,7', (4, 5, 6, 7)),
    ('8(x4)', '5', '5', None),  # Slurm has shown each task its own
    ('1(x2),4,1', '3', '0,1,2,3', (3,)),  # this is the third node
  ],
)
def test_gpus_of_a_machine_are_shared_out(tasks, local, visible, mine):
  environment = {**SLURM, 'SLURM_STEP_TASKS_PER_NODE': tasks, 'SLURM_LOCALID': local}
  if visible:
    environment['CUDA_VISIBLE_DEVICES'] = visible
  assert find(environment).local_devices == mine


@pytest.mark.parametrize(
  ('environment', 'flags', 'message'),
  [
    ({}, ('h:1', None, None), 'need --num_processes, --process_id too: the environment names no'),
    ({}, ('h:1', 2, None), 'need --process_id too: the environment names no launcher'),
    ({}, (None, 2, 1), 'need --coordinator too'),
    ({}, ('h:1', 2, 2), '--process_id=2 of --num_processes=2: processes are counted from 0'),
    ({}, ('h:port', 2, 1), '--coordinator=h:port: not of the form HOST:PORT'),
    (
      {k: v for k, v in OPEN_MPI.items() if 'uri' not in k},
      (None, None, None),
      'need --coordinator too: Open MPI does not say',
    ),
    (
      {**SLURM, 'SLURM_PROCID': 'x'},
      (),
      "variables of slurm cannot be read .*invalid literal.*'x'",
    ),
    (
      {k: v for k, v in JOB_SET.items() if k != 'PODS_PER_JOB'},
      (),
      r"variables of job set cannot be read \(KeyError: 'PODS_PER_JOB'\); give --coordinator",
    ),
  ],
)
def test_what_cannot_be_made_out(environment, flags, message):
  with pytest.raises(UserError) as raised:
    find(environment, *flags)
  assert re.search(message, str(raised.value))
  assert '\n' not in str(raised.value)


def test_only_tpu_machines_are_asked_for_metadata(monkeypatch):
  def asked(*_, **__):
    raise AssertionError('asked')

  monkeypatch.setattr(cluster.urllib.request, 'urlopen', asked)
  assert cluster.tpu_metadata({}) == {}


@pytest.fixture
def server(monkeypatch):
  """Compute Engine's server on a machine with TPUs; what it raises first, and what it was asked.

  A key that it lacks is an error 404.
  """

  class Server:
    def __init__(self):
      self.troubles, self.asked = [], []

    def __call__(self, request, timeout):
      self.asked.append(request)
      if self.troubles:
        raise self.troubles.pop(0)
      key = request.full_url.rpartition('/')[2]
      if key not in TPU_VM:
        raise HTTPError(request.full_url, 404, 'no such key', {}, None)
      return io.BytesIO(TPU_VM[key].encode())

  made = Server()
  monkeypatch.setattr(cluster, '_has_tpu', lambda: True)
  monkeypatch.setattr(cluster.time, 'sleep', lambda _: None)
  monkeypatch.setattr(cluster.urllib.request, 'urlopen', made)
  return made


def test_metadata(server):
  assert cluster.tpu_metadata({}) == TPU_VM
  assert server.asked[0].get_header('Metadata-flavor') == 'Google'
  assert find(cluster.tpu_metadata({})).index == 1
  server.asked.clear()
  for skipped in ({'TPU_SKIP_MDS_QUERY': '1'}, TPU_POD):
    assert cluster.tpu_metadata(skipped) == {}
  assert not server.asked


# Of these a worker must not conclude that it is the only process.
TROUBLES = [
  TimeoutError('timed out'),
  HTTPError('http://metadata', 503, 'busy', {}, None),
  URLError(ConnectionRefusedError('refused')),
  URLError(socket.gaierror(socket.EAI_AGAIN, 'no name server')),
]


@pytest.mark.parametrize('trouble', TROUBLES, ids=str)
def test_metadata_that_come_late(trouble, server):
  server.troubles = [trouble] * 4
  assert find(cluster.tpu_metadata({})).index == 1


@pytest.mark.parametrize('trouble', TROUBLES, ids=str)
def test_metadata_that_do_not_come(trouble, server):
  server.troubles = [trouble] * 5
  with pytest.raises(
    UserError, match='agent-worker-number, which says which worker .*: .*try again'
  ):
    cluster.tpu_metadata({})


def test_no_metadata_server(server):
  server.troubles = [URLError(socket.gaierror(socket.EAI_NONAME, 'not known')) for _ in range(3)]
  assert cluster.tpu_metadata({}) == {}
