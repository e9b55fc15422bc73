"""What a JobSet contains, and what its check finds."""

import copy

import pytest

from launch.gke import jobset
from tests.launch.gke.conftest import GPU, TPU, container_of, job_of


def test_tpu_slices(submitted):
  manifest = submitted(*TPU, '--slices=2', '--spot')
  job = job_of(manifest)
  assert job['replicas'] == 2
  spec = job['template']['spec']
  assert (spec['parallelism'], spec['completions'], spec['completionMode']) == (4, 4, 'Indexed')
  assert container_of(manifest)['resources'] == {'limits': {'google.com/tpu': 4}}
  assert spec['template']['spec']['nodeSelector'] == {
    'cloud.google.com/gke-tpu-accelerator': 'tpu-v5-lite-podslice',
    'cloud.google.com/gke-tpu-topology': '4x4',
    'cloud.google.com/gke-spot': 'true',
  }
  assert spec['template']['spec']['tolerations'][0]['key'] == 'cloud.google.com/gke-spot'
  (topology,) = manifest['metadata']['annotations'].values()
  assert topology == 'cloud.google.com/gke-nodepool'


def test_gpu_nodes(submitted):
  manifest = submitted(*GPU)
  container = container_of(manifest)
  assert container['resources'] == {'limits': {'nvidia.com/gpu': 8}}
  assert {entry['name']: entry['value'] for entry in container['env']} == {
    'JOBSET_NAME': 'cap',
    'REPLICATED_JOB_NAME': 'worker',
    'PODS_PER_JOB': '2',
  }
  assert manifest['spec']['network']['enableDNSHostnames'] is True
  assert 'annotations' not in manifest['metadata']


def test_preemptions_are_no_failures(submitted):
  """A job that was stopped or lost a node fails as PodFailurePolicy, which has no restart limit."""
  manifest = submitted(*GPU, '--restarts=1')
  policy = manifest['spec']['failurePolicy']
  assert policy['maxRestarts'] == 1
  (rule,) = policy['rules']
  assert rule['action'] == 'RestartJobSetAndIgnoreMaxRestarts'
  assert rule['onJobFailureReasons'] == ['PodFailurePolicy']
  spec = job_of(manifest)['template']['spec']
  exits, disruption = spec['podFailurePolicy']['rules']
  assert exits['onExitCodes']['values'] == [75, 143]
  assert exits['onExitCodes']['containerName'] == container_of(manifest)['name']
  assert disruption['onPodConditions'] == [{'type': 'DisruptionTarget', 'status': 'True'}]
  assert spec['backoffLimit'] == 0
  assert spec['template']['spec']['shareProcessNamespace'] is True  # so that SIGTERM always arrives


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (lambda m: m['spec'].update(suspnd=True), "'suspnd' was unexpected"),
    (lambda m: m['spec']['failurePolicy']['rules'][0].update(action='Restart'), 'is not one of'),
    (lambda m: job_of(m)['template']['spec'].update(paralelism=2), 'paralelism'),
    (lambda m: container_of(m).update(image=3), "3 is not of type 'string'"),
    (lambda m: container_of(m).pop('name'), "'name' is a required property"),
    (lambda m: container_of(m)['volumeMounts'][0].pop('mountPath'), "'mountPath' is a required"),
  ],
)
def test_check_finds_faults(change, message, submitted):
  manifest = submitted(*GPU)
  jobset.check(manifest)
  broken = copy.deepcopy(manifest)
  change(broken)
  with pytest.raises(jobset.InvalidJobSet, match=message):
    jobset.check(broken)
