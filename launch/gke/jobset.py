"""The JobSet of a run: built as a tree of dictionaries, and checked before it is submitted."""

import dataclasses
import json
import pathlib
from typing import Any

import yaml

from launch import command

SCHEMA = pathlib.Path(__file__).with_name('jobset.schema.json')
JOB = 'worker'
# Seconds that pods wait for each other, since slices and nodes may be created minutes apart.
START_TIMEOUT = 1800
# Exit codes of a pod that do not count as a failure; Kubernetes requires ascending order.
RESUMED = [command.LOST, command.PREEMPTED]


class InvalidJobSet(ValueError):
  """A JobSet that a cluster would reject, with the place and the reason."""


@dataclasses.dataclass(frozen=True)
class Pod:
  """The settings of each pod, which runs one process with all accelerators of its node.

  Attributes:
    image: container image.
    arguments: for vidcap_jax.main.
    claim: the PersistentVolumeClaim that holds data and workdir.
    chips: TPU chips or GPUs of a node.
    spot: whether to use spot nodes.
    tpu: type of TPU, or None.
    topology: of a TPU slice, or None.
    gpu: type of GPU, or None.
  """

  image: str
  arguments: tuple[str, ...]
  claim: str
  chips: int
  spot: bool = False
  tpu: str | None = None
  topology: str | None = None
  gpu: str | None = None


def render(
  pod: Pod, *, name: str, namespace: str, hosts: int, slices: int, restarts: int
) -> dict[str, Any]:
  """The JobSet, with one job of ``hosts`` pods for each slice; GPU nodes are one job."""
  job = {
    'parallelism': hosts,
    'completions': hosts,
    'completionMode': 'Indexed',
    'backoffLimit': 0,
    # A pod that saved and stopped, lost its node, or lost another process that hangs, fails its job
    # as PodFailurePolicy, which restarts without limit. If the other process failed or crashed, its
    # own pod ends first with another code. 134 is not listed: it follows a crash of process 0.
    'podFailurePolicy': {
      'rules': [
        {
          'action': 'FailJob',
          'onExitCodes': {'containerName': JOB, 'operator': 'In', 'values': RESUMED},
        },
        {
          'action': 'FailJob',
          'onPodConditions': [{'type': 'DisruptionTarget', 'status': 'True'}],
        },
      ]
    },
    'template': {'spec': _pod_spec(pod, name, hosts)},
  }
  metadata: dict[str, Any] = {'name': name, 'namespace': namespace}
  if pod.tpu:  # a slice is a node pool, which its pods must have for themselves
    metadata['annotations'] = {
      'alpha.jobset.sigs.k8s.io/exclusive-topology': 'cloud.google.com/gke-nodepool'
    }
  restart_rule = {
    'name': 'preempted',
    'action': 'RestartJobSetAndIgnoreMaxRestarts',
    'onJobFailureReasons': ['PodFailurePolicy'],
  }
  return {
    'apiVersion': 'jobset.x-k8s.io/v1alpha2',
    'kind': 'JobSet',
    'metadata': metadata,
    'spec': {
      # The other pods find the first one by its host name, before it is ready.
      'network': {'enableDNSHostnames': True, 'publishNotReadyAddresses': True},
      'failurePolicy': {
        'maxRestarts': restarts,
        'restartStrategy': 'BlockingRecreate',  # two attempts never write to one workdir
        'rules': [restart_rule],
      },
      'replicatedJobs': [{'name': JOB, 'replicas': slices, 'template': {'spec': job}}],
    },
  }


def _pod_spec(pod: Pod, name: str, hosts: int) -> dict[str, Any]:
  if pod.tpu:
    # GKE sets the variables that number the processes and the slices.
    selector = {
      'cloud.google.com/gke-tpu-accelerator': pod.tpu,
      'cloud.google.com/gke-tpu-topology': pod.topology,
    }
    resource, environment = 'google.com/tpu', dict[str, str]()
  else:
    # Kubernetes adds JOB_COMPLETION_INDEX.
    selector = {'cloud.google.com/gke-accelerator': pod.gpu}
    resource = 'nvidia.com/gpu'
    environment = {'JOBSET_NAME': name, 'REPLICATED_JOB_NAME': JOB, 'PODS_PER_JOB': str(hosts)}
  if pod.spot:
    selector['cloud.google.com/gke-spot'] = 'true'
  arguments = command.main_command([f'--start_timeout={START_TIMEOUT}', *pod.arguments])
  # Kubernetes expands $(NAME) in arguments, and turns $$ into a dollar sign.
  words = [word.replace('$', '$$') for word in arguments]
  container: dict[str, Any] = {
    'name': JOB,
    'image': pod.image,
    'command': words,
    'resources': {'limits': {resource: pod.chips}},
    'volumeMounts': [
      {'name': 'data', 'mountPath': '/data'},
      {'name': 'shm', 'mountPath': '/dev/shm'},
    ],
  }
  if environment:
    container['env'] = [{'name': key, 'value': value} for key, value in environment.items()]
  spec: dict[str, Any] = {
    'restartPolicy': 'Never',
    'terminationGracePeriodSeconds': 180,  # time to save; a spot node gives about 25
    # As process 1 of its own namespace, a process would ignore SIGTERM except while it trains (the
    # kernel delivers it only to a handler), and a runtime that aborts would end with 139, not 134.
    'shareProcessNamespace': True,
    'nodeSelector': selector,
    'containers': [container],
    'volumes': [
      {'name': 'data', 'persistentVolumeClaim': {'claimName': pod.claim}},
      {'name': 'shm', 'emptyDir': {'medium': 'Memory'}},  # the default of 64 MiB is too small
    ],
  }
  if pod.spot:
    spec['tolerations'] = [
      {
        'key': 'cloud.google.com/gke-spot',
        'operator': 'Equal',
        'value': 'true',
        'effect': 'NoSchedule',
      }
    ]
  return spec


def check(manifest: dict[str, Any]) -> None:
  """Checks a JobSet against ``jobset.schema.json``, and its jobs against the Kubernetes schema.

  Raises:
    InvalidJobSet: it does not match, or the packages for checking are not installed.
  """
  try:
    import jsonschema
    import kubernetes_validate
  except ModuleNotFoundError as error:
    raise InvalidJobSet(
      f"checking a JobSet needs {error.name}: pip install -e '.[launch]'"
    ) from None
  schema = json.loads(SCHEMA.read_text())
  for fault in jsonschema.Draft202012Validator(schema).iter_errors(manifest):
    raise InvalidJobSet(f'JobSet, {fault.json_path}: {fault.message}')
  for job in manifest['spec']['replicatedJobs']:
    name = f'{manifest["metadata"]["name"]}-{job["name"]}'
    longest = f'{name}-{job["replicas"] - 1}-{job["template"]["spec"]["parallelism"] - 1}-abcde'
    if len(longest) > MAX_NAME:
      raise InvalidJobSet(
        f'JobSet, $.metadata.name: choose a shorter --name; the pod name {longest!r} would have '
        f'{len(longest)} characters, more than {MAX_NAME}'
      )
    single_job = {
      'apiVersion': 'batch/v1',
      'kind': 'Job',
      'metadata': {'name': f'{name}-0'},
      'spec': job['template']['spec'],
    }
    try:
      kubernetes_validate.validate(single_job, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
      where = '.'.join(map(str, error.path))
      raise InvalidJobSet(f'job {job["name"]!r}, {where}: {error.message}') from None


# The version whose schema of a Job is used.
KUBERNETES = '1.33'
# Characters of a pod's name, which is also its host name.
MAX_NAME = 63


def to_yaml(manifest: dict[str, Any]) -> str:
  """The JobSet as YAML, with keys in the order in which they were set."""
  return yaml.safe_dump(manifest, sort_keys=False, width=1000)
