"""How many processes a job has and which of them this one is, as flags or the environment say.

Nothing here touches a device or the network but ``tpu_metadata``; ``find`` is a function of a
mapping. What it finds goes to ``processes.join``.
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

# Of the coordination service where nothing else names one.
PORT = 8476


@dataclasses.dataclass(frozen=True)
class Place:
  """A process's place among all of a job.

  Attributes:
    coordinator: host:port that process 0 listens on and the others connect to.
    count: processes of the job.
    index: of this one.
    local_devices: which of the machine's GPUs are this process's, None for all of them.
    kind: what said so, for people to read.
  """

  coordinator: str
  count: int
  index: int
  local_devices: tuple[int, ...] | None = None
  kind: str = 'flags'


def find(
  environment: Mapping[str, str],
  coordinator: str | None = None,
  count: int | None = None,
  index: int | None = None,
) -> Place | None:
  """This process's place, or None where it is the only one.

  Args:
    environment: variables, and for a TPU VM what ``tpu_metadata`` returns.
    coordinator, count, index: flags; each goes before what the environment says of it.

  Raises:
    UserError: something that is needed is missing, or not what it should be.
  """
  found = _found(environment)
  if found is None and (coordinator, count, index) == (None, None, None):
    return None
  coordinator = coordinator or environment.get('JAX_COORDINATOR_ADDRESS')
  count = found.count if count is None and found else count
  index = found.index if index is None and found else index
  address = coordinator or (found.coordinator if found else '')
  if count == 1 and not index:
    return None
  given = {'--coordinator': address, '--num_processes': count, '--process_id': index}
  if missing := [name for name, value in given.items() if value in (None, '')]:
    raise UserError(
      f'several processes need {", ".join(missing)} too: '
      + (f'{found.kind} does not say' if found else 'the environment names no launcher')
    )
  assert count is not None
  assert index is not None
  if not 0 <= index < count:
    raise UserError(
      f'--process_id={index} of --num_processes={count}: processes are counted from 0'
    )
  host, _, port = address.rpartition(':')
  if not host:
    address = f'{address}:{PORT}'
  elif not port.isdigit():
    raise UserError(f'--coordinator={address}: not of the form HOST:PORT')
  if found is None:
    return Place(address, count, index)
  return Place(address, count, index, found.local_devices, found.kind)


def _found(environment: Mapping[str, str]) -> Place | None:
  """What the first launcher that left its variables says; Open MPI may run inside of Slurm."""
  for look in (_tpu_pod, _tpu_vm, _job_set, _open_mpi, _slurm):
    try:
      if (place := look(environment)) is not None:
        return place
    except (KeyError, ValueError, IndexError) as error:
      kind = look.__name__.strip('_').replace('_', ' ')
      raise UserError(
        f'the variables of {kind} cannot be read ({type(error).__name__}: {error}); '
        'give --coordinator, --num_processes and --process_id'
      ) from None
  return None


# ---------------------------------------------------------------- TPUs


def _tpu_pod(environment: Mapping[str, str]) -> Place | None:
  """GKE, and what a TPU runtime sets: the workers of a slice in variables."""
  if 'TPU_WORKER_ID' not in environment:
    return None
  workers = environment.get('TPU_PROCESS_ADDRESSES') or environment['TPU_WORKER_HOSTNAMES']
  hosts = [_host(worker) for worker in workers.split(',')]
  return _in_slices(hosts, int(environment['TPU_WORKER_ID']), environment, 'TPU variables')


def _tpu_vm(environment: Mapping[str, str]) -> Place | None:
  """Compute Engine: the workers of a slice in the machine's metadata."""
  if 'agent-worker-number' not in environment:
    return None
  hosts = []
  for worker in environment['worker-network-endpoints'].split(','):
    parts = worker.split(':')  # a host's name, or name:id:address
    hosts.append(parts[2] if len(parts) == 3 else parts[0])
  lines = (line.partition(':') for line in environment.get('tpu-env', '').splitlines())
  described = {key.strip(): value.strip().strip("'") for key, _, value in lines}
  index = int(environment['agent-worker-number'])
  return _in_slices(hosts, index, {**described, **environment}, 'TPU metadata')


def _in_slices(hosts, worker: int, environment: Mapping[str, str], kind: str) -> Place:
  """A worker's place among those of all slices, slice after slice."""
  slices = int(environment.get('MEGASCALE_NUM_SLICES') or 1)
  number = int(environment.get('MEGASCALE_SLICE_ID') or 0)
  # Of several slices the first one's first worker is named; its own port is another service's.
  first = _host(environment.get('MEGASCALE_COORDINATOR_ADDRESS') or hosts[0])
  count, index = len(hosts) * slices, worker + len(hosts) * number
  return Place(f'{first}:{PORT}', count, index, kind=kind)


def _host(address: str) -> str:
  return address.strip().partition(':')[0]


def tpu_metadata(environment: Mapping[str, str]) -> dict[str, str]:
  """What a TPU VM's metadata server says of its slice; {} on any other machine.

  Args:
    environment: variables; ``TPU_SKIP_MDS_QUERY`` keeps it from being asked.

  Raises:
    UserError: it says neither what it is asked for nor that there is no such thing.
  """
  if {'TPU_SKIP_MDS_QUERY', 'TPU_WORKER_ID'} & environment.keys() or not _has_tpu():
    return {}
  server = environment.get('GCE_METADATA_IP', 'metadata.google.internal')
  keys = ('agent-worker-number', 'worker-network-endpoints', 'tpu-env')
  said = {key: _attribute(server, key) for key in keys}
  return {key: text for key, text in said.items() if text is not None}


def _attribute(server: str, key: str, tries: int = 5) -> str | None:
  """An attribute of this machine; None where it, or the whole server, is clearly not there."""
  url = f'http://{server}/computeMetadata/v1/instance/attributes/{key}'
  request = urllib.request.Request(url, headers={'Metadata-Flavor': 'Google'})
  for left in reversed(range(tries)):
    try:
      with urllib.request.urlopen(request, timeout=2.0) as answer:
        return answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
      if getattr(error, 'code', None) in (403, 404) or _is_unknown(error):
        return None
      reason = error
    if left:
      time.sleep(1.0)
  # One worker that took itself for the only process would write over what the others do.
  raise UserError(
    f'{url}, which says which worker of the TPU slice this is, does not answer: {reason}; try '
    'again, or set TPU_SKIP_MDS_QUERY=1 and give --coordinator, --num_processes and --process_id '
    'where there are several'
  )


def _is_unknown(error: Exception) -> bool:
  """Whether no machine has the server's name."""
  reason = getattr(error, 'reason', None)
  return isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME


def _has_tpu() -> bool:
  chips = any(pathlib.Path('/dev').glob('accel[0-9]*')) or pathlib.Path('/dev/vfio/0').exists()
  return chips and importlib.util.find_spec('libtpu') is not None


# ---------------------------------------------------------------- Kubernetes


def _job_set(environment: Mapping[str, str]) -> Place | None:
  """A JobSet of indexed jobs, as its pods' variables describe it.

  Kubernetes itself sets JOB_COMPLETION_INDEX alone; the others are the template's to set
  (docs/distributed.md).
  """
  if 'JOBSET_NAME' not in environment:
    return None
  name, job = environment['JOBSET_NAME'], environment['REPLICATED_JOB_NAME']
  pods, jobs = int(environment['PODS_PER_JOB']), int(environment.get('JOB_REPLICAS') or 1)
  number = int(environment.get('JOB_INDEX') or 0)
  index = number * pods + int(environment['JOB_COMPLETION_INDEX'])
  return Place(f'{name}-{job}-0-0.{name}:{PORT}', pods * jobs, index, kind='JobSet')


# ---------------------------------------------------------------- Open MPI


def _open_mpi(environment: Mapping[str, str]) -> Place | None:
  if 'OMPI_COMM_WORLD_SIZE' not in environment:
    return None
  count, index = (int(environment[f'OMPI_COMM_WORLD_{what}']) for what in ('SIZE', 'RANK'))
  here = int(environment.get('OMPI_COMM_WORLD_LOCAL_SIZE') or count)
  # JOB.0;tcp://ADDRESS,ADDRESS:PORT or tcp6://[ADDRESS,…]:PORT, of where mpirun was started.
  launcher = environment.get('OMPI_MCA_orte_hnp_uri', '')
  address = re.search(r'tcp://([^,:]+)|tcp6://\[([^,\]]+)', launcher)
  host = ''
  if here == count:
    host = 'localhost'
  elif address:
    host = address[1] or f'[{address[2]}]'
  # Jobs are numbered in steps of 4096.
  job = int(launcher.partition('.')[0]) >> 12 if address else 0
  mine = _share(environment, int(environment['OMPI_COMM_WORLD_LOCAL_RANK']), here)
  return Place(f'{host}:{_port(job)}' if host else '', count, index, mine, 'Open MPI')


# ---------------------------------------------------------------- Slurm


def _slurm(environment: Mapping[str, str]) -> Place | None:
  """A step that srun started; a batch script itself has no list of the step's nodes."""
  if 'SLURM_STEP_NODELIST' not in environment:
    return None
  count = int(environment.get('SLURM_STEP_NUM_TASKS') or environment['SLURM_NTASKS'])
  tasks = _repeated(environment.get('SLURM_STEP_TASKS_PER_NODE', '1'))
  here = tasks[min(int(environment.get('SLURM_NODEID') or 0), len(tasks) - 1)]
  mine = _share(environment, int(environment['SLURM_LOCALID']), here)
  host = _first_node(environment['SLURM_STEP_NODELIST'])
  port = _port(int(environment['SLURM_JOB_ID']))
  return Place(f'{host}:{port}', count, int(environment['SLURM_PROCID']), mine, 'Slurm')


def _first_node(nodes: str) -> str:
  """'n01' of 'n[01-03,7],other'."""
  match = re.match(r'(?:[^,\[]|\[[^\]]*\])+', nodes)
  if match is None:
    raise ValueError(f'no node in {nodes!r}')
  return re.sub(r'\[([^\],-]+)[^\]]*\]', r'\1', match[0])


def _repeated(text: str) -> list[int]:
  """[4, 4, 2] of '4(x2),2'."""
  numbers = []
  for part in text.split(','):
    number, _, times = part.partition('(x')
    numbers += [int(number)] * int(times.rstrip(')') or 1)
  return numbers


def _port(job: int) -> int:
  """A port that jobs on one machine are unlikely to share, of the upper ephemeral ones."""
  return 61440 + job % 4096


def _share(environment: Mapping[str, str], rank: int, here: int) -> tuple[int, ...] | None:
  """The GPUs of one of several processes on a machine; None where it has all it can see.

  Numbers count the devices that are visible; a launcher that shows each process its own has
  nothing left to share out. Where nothing says which are visible, each process takes one.
  """
  visible = [d for d in environment.get('CUDA_VISIBLE_DEVICES', '').split(',') if d]
  if here <= 1 or (visible and len(visible) < here):
    return None
  each = max(1, len(visible) // here)
  return tuple(range(rank * each, (rank + 1) * each))
