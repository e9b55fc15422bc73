"""JobSets: what they hold, and that they are checked."""

import copy

import pytest

from launch.gke import jobset
from tests.launch.gke.conftest import GPU, TPU, container_of, job_of


def test_tpu_slices(submitted):
  whole = submitted(*TPU, '--slices=2', '--spot')
  job = job_of(whole)
  assert job['replicas'] == 2
  spec = job['template']['spec']
  assert (spec['parallelism'], spec['completions'], spec['completionMode']) == (4, 4, 'Indexed')
  assert container_of(whole)['resources'] == {'limits': {'google.com/tpu': 4}}
  assert spec['template']['spec']['nodeSelector'] == {
    'cloud.google.com/gke-tpu-accelerator': 'tpu-v5-lite-podslice',
    'cloud.google.com/gke-tpu-topology': '4x4',
    'cloud.google.com/gke-spot': 'true',
  }
  assert spec['template']['spec']['tolerations'][0]['key'] == 'cloud.google.com/gke-spot'
  (topology,) = whole['metadata']['annotations'].values()
  assert topology == 'cloud.google.com/gke-nodepool'


def test_gpu_nodes(submitted):
  whole = submitted(*GPU)
  container = container_of(whole)
  assert container['resources'] == {'limits': {'nvidia.com/gpu': 8}}
  assert {entry['name']: entry['value'] for entry in container['env']} == {
    'JOBSET_NAME': 'cap',
    'REPLICATED_JOB_NAME': 'worker',
    'PODS_PER_JOB': '2',
  }
  assert whole['spec']['network']['enableDNSHostnames'] is True
  assert 'annotations' not in whole['metadata']


def test_preemptions_are_no_failures(submitted):
  """A job that was stopped or lost a node has a reason of its own, which restarts freely."""
  whole = submitted(*GPU, '--restarts=1')
  policy = whole['spec']['failurePolicy']
  assert policy['maxRestarts'] == 1
  (rule,) = policy['rules']
  assert rule['action'] == 'RestartJobSetAndIgnoreMaxRestarts'
  assert rule['onJobFailureReasons'] == ['PodFailurePolicy']
  spec = job_of(whole)['template']['spec']
  exits, disruption = spec['podFailurePolicy']['rules']
  assert exits['onExitCodes']['values'] == [75, 143]
  assert exits['onExitCodes']['containerName'] == container_of(whole)['name']
  assert disruption['onPodConditions'] == [{'type': 'DisruptionTarget', 'status': 'True'}]
  assert spec['backoffLimit'] == 0
  assert spec['template']['spec']['shareProcessNamespace'] is True  # SIGTERM is heard at any time


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (lambda w: w['spec'].update(suspnd=True), "'suspnd' was unexpected"),
    (lambda w: w['spec']['failurePolicy']['rules'][0].update(action='Restart'), 'is not one of'),
    (lambda w: job_of(w)['template']['spec'].update(paralelism=2), 'paralelism'),
    (lambda w: container_of(w).update(image=3), "3 is not of type 'string'"),
    (lambda w: container_of(w).pop('name'), "'name' is a required property"),
    (lambda w: container_of(w)['volumeMounts'][0].pop('mountPath'), "'mountPath' is a required"),
  ],
)
def test_the_check(change, message, submitted):
  whole = submitted(*GPU)
  jobset.check(whole)
  broken = copy.deepcopy(whole)
  change(broken)
  with pytest.raises(jobset.Invalid, match=message):
    jobset.check(broken)
