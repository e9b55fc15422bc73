"""Which process of a job this is, from the flags and from the launcher's environment variables.

Why ``jax.distributed.initialize()`` does not detect this for us (read in jax 0.7.1 and 0.10.2): it
names the process only after waiting for all others, takes a busy TPU metadata server for none, lets
the only Slurm task of a node use one GPU, and does not support Open MPI 5, node lists such as
n[1-2]m[1-4], or pods that may not use the Kubernetes API.

Nothing here touches a device, and only ``tpu_metadata`` the network. ``jobs.joined`` hands the
result to ``jax.distributed.initialize``.
"""

import dataclasses
import http.client
import importlib.util
import pathlib
import re
import socket
import time
import urllib.request
from collections.abc import Mapping

from vidcap_jax.errors import UserError

# Of the coordination service, where nothing else names one.
DEFAULT_PORT = 8476


@dataclasses.dataclass(frozen=True)
class JobProcess:
  """One process of a job, as ``jax.distributed.initialize`` takes it.

  Attributes:
    coordinator_address: HOST:PORT on which process 0 listens and to which the others connect.
    num_processes: of the job.
    process_id: of this process, from 0.
    local_device_ids: the GPUs of the machine that this process uses; None for all.
    launcher: what the values were read from, for messages.
  """

  coordinator_address: str
  num_processes: int
  process_id: int
  local_device_ids: tuple[int, ...] | None = None
  launcher: str = 'flags'


def find_process(
  environment: Mapping[str, str],
  coordinator_address: str | None = None,
  num_processes: int | None = None,
  process_id: int | None = None,
) -> JobProcess | None:
  """Which process of a job this is, or None if there is only this one.

  Args:
    environment: environment variables, and for a TPU VM the result of ``tpu_metadata``.
    coordinator_address, num_processes, process_id: flags; each overrides the environment.

  Raises:
    UserError: a value is missing, malformed or out of range.
  """
  detected = _detect(environment)
  if detected is None and (coordinator_address, num_processes, process_id) == (None, None, None):
    return None
  address = coordinator_address or environment.get('JAX_COORDINATOR_ADDRESS')
  if detected:
    address = address or detected.coordinator_address
    num_processes = detected.num_processes if num_processes is None else num_processes
    process_id = detected.process_id if process_id is None else process_id
  if num_processes == 1 and not process_id:
    return None
  values = {
    '--coordinator': address, '--num_processes': num_processes, '--process_id': process_id
  }  # fmt: skip
  if missing := [name for name, value in values.items() if value in (None, '')]:
    raise UserError(
      f'several processes also need {", ".join(missing)}: '
      + (f'not set by {detected.launcher}' if detected else 'no launcher was detected')
    )
  assert address is not None
  assert num_processes is not None
  assert process_id is not None
  if not 0 <= process_id < num_processes:
    raise UserError(
      f'--process_id={process_id} of --num_processes={num_processes}: ids run from 0 to '
      f'{num_processes - 1}'
    )
  host, _, port = address.rpartition(':')
  if not host:
    address = f'{address}:{DEFAULT_PORT}'
  elif not port.isdigit():
    raise UserError(f'--coordinator={address}: not of the form HOST:PORT')
  if detected is None:
    return JobProcess(address, num_processes, process_id)
  return JobProcess(
    address, num_processes, process_id, detected.local_device_ids, detected.launcher
  )


def _detect(environment: Mapping[str, str]) -> JobProcess | None:
  """The process according to the first launcher found; Open MPI may run inside Slurm."""
  detectors = {
    'TPU': _from_tpu_variables,
    'TPU metadata': _from_tpu_metadata,
    'JobSet': _from_job_set,
    'Open MPI': _from_open_mpi,
    'Slurm': _from_slurm,
  }
  for launcher, detect in detectors.items():
    try:
      if (process := detect(environment)) is not None:
        return process
    except (KeyError, ValueError, IndexError) as error:
      raise UserError(
        f'the environment variables of {launcher} cannot be read ({type(error).__name__}: '
        f'{error}); give --coordinator, --num_processes and --process_id'
      ) from None
  return None


# ---------------------------------------------------------------- TPUs


def _from_tpu_variables(environment: Mapping[str, str]) -> JobProcess | None:
  """On GKE, and wherever a TPU runtime sets them, variables list the workers of a slice."""
  if 'TPU_WORKER_ID' not in environment:
    return None
  workers = environment.get('TPU_PROCESS_ADDRESSES') or environment['TPU_WORKER_HOSTNAMES']
  hosts = [_host(worker) for worker in workers.split(',')]
  return _in_slices(hosts, int(environment['TPU_WORKER_ID']), environment, 'TPU variables')


def _from_tpu_metadata(environment: Mapping[str, str]) -> JobProcess | None:
  """On Compute Engine the machine's metadata list the workers of a slice."""
  if 'agent-worker-number' not in environment:
    return None
  hosts = []
  for worker in environment['worker-network-endpoints'].split(','):
    parts = worker.split(':')  # either a host name, or name:id:address
    hosts.append(parts[2] if len(parts) == 3 else parts[0])
  lines = (line.partition(':') for line in environment.get('tpu-env', '').splitlines())
  tpu_env = {key.strip(): value.strip().strip("'") for key, _, value in lines}
  worker_id = int(environment['agent-worker-number'])
  return _in_slices(hosts, worker_id, {**tpu_env, **environment}, 'TPU metadata')


def _in_slices(
  hosts: list[str], worker_id: int, environment: Mapping[str, str], launcher: str
) -> JobProcess:
  """A slice's worker among the workers of all slices, which are numbered slice after slice."""
  num_slices = int(environment.get('MEGASCALE_NUM_SLICES') or 1)
  slice_id = int(environment.get('MEGASCALE_SLICE_ID') or 0)
  # This variable names the first worker of the first slice; its port belongs to another service.
  host = _host(environment.get('MEGASCALE_COORDINATOR_ADDRESS') or hosts[0])
  return JobProcess(
    coordinator_address=f'{host}:{DEFAULT_PORT}',
    num_processes=len(hosts) * num_slices,
    process_id=worker_id + len(hosts) * slice_id,
    launcher=launcher,
  )


def _host(address: str) -> str:
  return address.strip().partition(':')[0]


def tpu_metadata(environment: Mapping[str, str]) -> dict[str, str]:
  """The attributes of a TPU VM that describe its slice; {} on any other machine.

  Args:
    environment: environment variables; ``TPU_SKIP_MDS_QUERY`` turns the request off.

  Raises:
    UserError: the metadata server neither answers nor reports that there is no such attribute.
  """
  if {'TPU_SKIP_MDS_QUERY', 'TPU_WORKER_ID'} & environment.keys() or not _has_tpu():
    return {}
  server = environment.get('GCE_METADATA_IP', 'metadata.google.internal')
  keys = ('agent-worker-number', 'worker-network-endpoints', 'tpu-env')
  values = {key: _attribute(server, key) for key in keys}
  return {key: value for key, value in values.items() if value is not None}


def _attribute(server: str, key: str, attempts: int = 5) -> str | None:
  """An attribute of this machine; None if the attribute or the server does not exist."""
  url = f'http://{server}/computeMetadata/v1/instance/attributes/{key}'
  request = urllib.request.Request(url, headers={'Metadata-Flavor': 'Google'})
  for attempts_left in reversed(range(attempts)):
    try:
      with urllib.request.urlopen(request, timeout=2.0) as response:
        return response.read().decode()
    except (OSError, http.client.HTTPException) as error:
      if getattr(error, 'code', None) in (403, 404) or _is_unknown_host(error):
        return None
      reason = error
    if attempts_left:
      time.sleep(1.0)
  # A worker that ran as the only process would overwrite the files of the others.
  raise UserError(
    f'no answer from {url}, which names this worker of the TPU slice: {reason}; try '
    'again, or set TPU_SKIP_MDS_QUERY=1 and, if there are several workers, give --coordinator, '
    '--num_processes and --process_id'
  )


def _is_unknown_host(error: Exception) -> bool:
  """Whether the name of the server does not exist, rather than not being resolved for now."""
  reason = getattr(error, 'reason', None)
  return isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME


def _has_tpu() -> bool:
  chips = any(pathlib.Path('/dev').glob('accel[0-9]*')) or pathlib.Path('/dev/vfio/0').exists()
  return chips and importlib.util.find_spec('libtpu') is not None


# ---------------------------------------------------------------- Kubernetes


def _from_job_set(environment: Mapping[str, str]) -> JobProcess | None:
  """A JobSet of indexed jobs, from the environment variables of its pods.

  Kubernetes itself sets only JOB_COMPLETION_INDEX; the JobSet's template has to set the others
  (docs/distributed.md).
  """
  if 'JOBSET_NAME' not in environment:
    return None
  name, job = environment['JOBSET_NAME'], environment['REPLICATED_JOB_NAME']
  pods, jobs = int(environment['PODS_PER_JOB']), int(environment.get('JOB_REPLICAS') or 1)
  job_index = int(environment.get('JOB_INDEX') or 0)
  return JobProcess(
    coordinator_address=f'{name}-{job}-0-0.{name}:{DEFAULT_PORT}',
    num_processes=pods * jobs,
    process_id=job_index * pods + int(environment['JOB_COMPLETION_INDEX']),
    launcher='JobSet',
  )


# ---------------------------------------------------------------- Open MPI


def _from_open_mpi(environment: Mapping[str, str]) -> JobProcess | None:
  """A process that mpirun started; Open MPI 5 sets no address."""
  if 'OMPI_COMM_WORLD_SIZE' not in environment:
    return None
  num_processes = int(environment['OMPI_COMM_WORLD_SIZE'])
  on_machine = int(environment.get('OMPI_COMM_WORLD_LOCAL_SIZE') or num_processes)
  # The machine on which mpirun was started: JOB.0;tcp://ADDRESS,ADDRESS:PORT, or
  # JOB.0;tcp6://[ADDRESS,…]:PORT.
  uri = environment.get('OMPI_MCA_orte_hnp_uri', '')
  address = re.search(r'tcp://([^,:]+)|tcp6://\[([^,\]]+)', uri)
  host = ''
  if on_machine == num_processes:
    host = 'localhost'
  elif address:
    host = address[1] or f'[{address[2]}]'
  job_id = int(uri.partition('.')[0]) >> 12 if address else 0  # ids are multiples of 4096
  return JobProcess(
    coordinator_address=f'{host}:{_port(job_id)}' if host else '',
    num_processes=num_processes,
    process_id=int(environment['OMPI_COMM_WORLD_RANK']),
    local_device_ids=_local_gpus(
      environment, int(environment['OMPI_COMM_WORLD_LOCAL_RANK']), on_machine
    ),
    launcher='Open MPI',
  )


# ---------------------------------------------------------------- Slurm


def _from_slurm(environment: Mapping[str, str]) -> JobProcess | None:
  """A task of a step that srun started; the batch script itself has no list of nodes."""
  if 'SLURM_STEP_NODELIST' not in environment:
    return None
  tasks_per_node = _expand_counts(environment.get('SLURM_STEP_TASKS_PER_NODE', '1'))
  node = min(int(environment.get('SLURM_NODEID') or 0), len(tasks_per_node) - 1)
  host = _first_node(environment['SLURM_STEP_NODELIST'])
  return JobProcess(
    coordinator_address=f'{host}:{_port(int(environment["SLURM_JOB_ID"]))}',
    num_processes=int(environment.get('SLURM_STEP_NUM_TASKS') or environment['SLURM_NTASKS']),
    process_id=int(environment['SLURM_PROCID']),
    local_device_ids=_local_gpus(
      environment, int(environment['SLURM_LOCALID']), tasks_per_node[node]
    ),
    launcher='Slurm',
  )


def _first_node(nodes: str) -> str:
  """'n01' from 'n[01-03,7],other'."""
  match = re.match(r'(?:[^,\[]|\[[^\]]*\])+', nodes)
  if match is None:
    raise ValueError(f'no node in {nodes!r}')
  return re.sub(r'\[([^\],-]+)[^\]]*\]', r'\1', match[0])


def _expand_counts(text: str) -> list[int]:
  """[4, 4, 2] from '4(x2),2'."""
  counts = []
  for part in text.split(','):
    count, _, times = part.partition('(x')
    counts += [int(count)] * int(times.rstrip(')') or 1)
  return counts


def _port(job_id: int) -> int:
  """An ephemeral port that two jobs on one machine are unlikely to share."""
  return 61440 + job_id % 4096


def _local_gpus(
  environment: Mapping[str, str], local_rank: int, on_machine: int
) -> tuple[int, ...] | None:
  """The GPUs of one of ``on_machine`` processes on this machine; None for all that are visible.

  The numbers count visible GPUs. If fewer are visible than there are processes, the launcher has
  already shown each process its own. If no variable lists them, each process takes one.
  """
  visible = [d for d in environment.get('CUDA_VISIBLE_DEVICES', '').split(',') if d]
  if on_machine <= 1 or (visible and len(visible) < on_machine):
    return None
  share = max(1, len(visible) // on_machine)
  return tuple(range(local_rank * share, (local_rank + 1) * share))
