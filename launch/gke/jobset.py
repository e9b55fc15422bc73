"""A run as a JobSet: rendered from data, never from text, and checked before it is submitted."""

import dataclasses
import json
import pathlib
from typing import Any

import yaml

from launch import command

SCHEMA = pathlib.Path(__file__).with_name('jobset.schema.json')
JOB = 'worker'
# Seconds for pods to wait for each other: slices and nodes may be made minutes apart.
START_TIMEOUT = 1800
# Exit codes of a pod that do not count as a failure, in the order that Kubernetes asks for.
GOES_ON = [command.LOST, command.PREEMPTED]


class Invalid(ValueError):
  """A JobSet that a cluster would refuse; the message says where and why."""


@dataclasses.dataclass(frozen=True)
class Pod:
  """What every pod is: one process, with all the accelerators of its node.

  Attributes:
    image: of the container.
    arguments: of vidcap_jax.main.
    claim: the PersistentVolumeClaim with data and workdir.
    chips: TPU chips or GPUs of a node.
    spot: whether on spot nodes.
    tpu, topology: of a TPU slice, or None.
    gpu: kind of GPU, or None.
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
  """The JobSet: a job of ``hosts`` pods for each slice; GPU nodes are one job."""
  job = {
    'parallelism': hosts,
    'completions': hosts,
    'completionMode': 'Indexed',
    'backoffLimit': 0,
    # A pod that saved and stopped, whose node was taken, or that lost another one without a word,
    # fails its job for a reason of its own. The other, if it failed or crashed, was first to end;
    # the first process excepted, with which the rest end at once by 134: so that is not listed.
    'podFailurePolicy': {
      'rules': [
        {
          'action': 'FailJob',
          'onExitCodes': {'containerName': JOB, 'operator': 'In', 'values': GOES_ON},
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
  if pod.tpu:  # a slice is a node pool: its pods go there together, and no others
    metadata['annotations'] = {
      'alpha.jobset.sigs.k8s.io/exclusive-topology': 'cloud.google.com/gke-nodepool'
    }
  again = {
    'name': 'preempted',
    'action': 'RestartJobSetAndIgnoreMaxRestarts',
    'onJobFailureReasons': ['PodFailurePolicy'],
  }
  return {
    'apiVersion': 'jobset.x-k8s.io/v1alpha2',
    'kind': 'JobSet',
    'metadata': metadata,
    'spec': {
      # The first pod is found by its name, before it is ready.
      'network': {'enableDNSHostnames': True, 'publishNotReadyAddresses': True},
      'failurePolicy': {
        'maxRestarts': restarts,
        'restartStrategy': 'BlockingRecreate',  # two attempts never write to one workdir
        'rules': [again],
      },
      'replicatedJobs': [{'name': JOB, 'replicas': slices, 'template': {'spec': job}}],
    },
  }


def _pod_spec(pod: Pod, name: str, hosts: int) -> dict[str, Any]:
  if pod.tpu:
    # GKE tells the processes of a slice, and the slices, apart.
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
  arguments = command.training([f'--start_timeout={START_TIMEOUT}', *pod.arguments])
  # Kubernetes reads $(NAME) in arguments as a variable, and $$ as a dollar.
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
    'terminationGracePeriodSeconds': 180,  # to save in; a spot node has about 25
    # The kernel keeps a SIGTERM from process 1 of a namespace unless it has a handler, as it has
    # while it trains only; and a runtime that aborts there ends with 139 for 134.
    'shareProcessNamespace': True,
    'nodeSelector': selector,
    'containers': [container],
    'volumes': [
      {'name': 'data', 'persistentVolumeClaim': {'claimName': pod.claim}},
      {'name': 'shm', 'emptyDir': {'medium': 'Memory'}},  # the usual 64 MiB are few
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


def check(whole: dict[str, Any]) -> None:
  """Holds a JobSet to ``jobset.schema.json``, and each of its jobs to Kubernetes' own schema.

  Raises:
    Invalid: it does not fit, or the packages that check it are not installed.
  """
  try:
    import jsonschema
    import kubernetes_validate
  except ModuleNotFoundError as error:
    raise Invalid(f"checking a JobSet needs {error.name}: pip install -e '.[launch]'") from None
  schema = json.loads(SCHEMA.read_text())
  for fault in jsonschema.Draft202012Validator(schema).iter_errors(whole):
    raise Invalid(f'JobSet, {fault.json_path}: {fault.message}')
  for job in whole['spec']['replicatedJobs']:
    name = f'{whole["metadata"]["name"]}-{job["name"]}'
    last = f'{name}-{job["replicas"] - 1}-{job["template"]["spec"]["parallelism"] - 1}-abcde'
    if len(last) > LONGEST:
      raise Invalid(
        f"JobSet, $.metadata.name: with it the pods' names, such as {last!r}, have {len(last)} "
        f'characters, more than {LONGEST}'
      )
    alone = {
      'apiVersion': 'batch/v1',
      'kind': 'Job',
      'metadata': {'name': f'{name}-0'},
      'spec': job['template']['spec'],
    }
    try:
      kubernetes_validate.validate(alone, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
      where = '.'.join(map(str, error.path))
      raise Invalid(f'job {job["name"]!r}, {where}: {error.message}') from None


# Whose schema of a Job is used.
KUBERNETES = '1.33'
# Characters of a pod's name, which JobSet holds to those of a host's.
LONGEST = 63


def to_yaml(whole: dict[str, Any]) -> str:
  """YAML of a JobSet, keys in order of writing."""
  return yaml.safe_dump(whole, sort_keys=False, width=1000)
