"""JobSets: what they hold, that they are checked, and what kubectl is given."""

import copy
import re
import subprocess
import sys

import pytest
import yaml

from launch.gke import __main__ as gke
from launch.gke import jobset
from tests.launch.conftest import NASTY

COMMON = ['--name=cap', '--image=registry/vidcap_jax:1', '--claim=vatex']
TPU = ['--tpu=tpu-v5-lite-podslice', '--topology=4x4', '--hosts=4', '--chips_per_host=4']
GPU = ['--gpu=nvidia-h100-80gb', '--hosts=2', '--chips_per_host=8']


@pytest.fixture
def submitted(fakes):
  """The JobSet that kubectl is given for some flags."""
  fakes.add('kubectl', 'pathlib.Path(os.environ["HOME"], "given").write_text(sys.stdin.read())')

  def submit(*flags, arguments=('--config=x',)):
    assert gke.main([*COMMON, *flags, '--', *arguments]) == 0
    assert fakes.calls('kubectl')[-1] == ['apply', '-f', '-']
    return yaml.safe_load((fakes.home / 'given').read_text())

  return submit


def job_of(whole) -> dict:
  (job,) = whole['spec']['replicatedJobs']
  return job


def container_of(whole) -> dict:
  (container,) = job_of(whole)['template']['spec']['template']['spec']['containers']
  return container


def expanded(word: str, variables) -> str:
  """What Kubernetes makes of an argument: $(NAME) a variable if there is one, $$ a dollar."""
  meaning = lambda m: '$' if m[0] == '$$' else variables.get(m[1], m[0])  # noqa: E731
  return re.sub(r'\$\$|\$\(([^()]*)\)', meaning, word)


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


@pytest.mark.parametrize('flags', [TPU, GPU], ids=['tpu', 'gpu'])
@pytest.mark.usefixtures('nothing_was_run_inside')
def test_a_dry_run_is_what_would_be_submitted(flags, submitted, fakes, capsys):
  whole = submitted(*flags, arguments=NASTY)
  variables = {'HOME': '/root', 'HOSTNAME': 'pod'}
  command = [expanded(word, variables) for word in container_of(whole)['command']]
  assert command == ['python', '-m', 'vidcap_jax.main', '--start_timeout=1800', *NASTY]
  assert submitted(*flags, arguments=NASTY) == whole  # to go on: the same

  (fakes.home / 'given').unlink()
  assert gke.main([*COMMON, *flags, '--dry_run', '--', *NASTY]) == 0
  printed = capsys.readouterr().out
  assert not (fakes.home / 'given').exists()
  subprocess.run(['bash', '-c', printed], check=True)
  assert yaml.safe_load((fakes.home / 'given').read_text()) == whole


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (['--name=Cap_', *GPU], r"JobSet, \$.metadata.name: 'Cap_' does not match"),
    (
      [f'--name={"c" * 47}', *TPU, '--slices=11'],
      r"JobSet, .*metadata.name: .*'c{47}-worker-10-3-abcde', have 65 characters, more than 63",
    ),
    (['--restarts=-1', *GPU], r'JobSet, \$.spec.failurePolicy.maxRestarts: -1 is less than'),
  ],
)
def test_what_a_cluster_would_refuse(flags, message, capsys):
  assert gke.main([*COMMON, *flags, '--dry_run', '--', '-c']) == 1
  out, err = capsys.readouterr()
  assert out == ''
  assert re.match(f'error: {message}', err)


def test_the_longest_name(submitted):
  assert submitted(f'--name={"c" * 46}', *TPU)['metadata']['name'] == 'c' * 46


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


def test_without_the_packages_that_check(monkeypatch, capsys):
  monkeypatch.setitem(sys.modules, 'kubernetes_validate', None)
  assert gke.main([*COMMON, *GPU, '--dry_run', '--', '-c']) == 1
  assert "needs kubernetes_validate: pip install -e '.[launch]'" in capsys.readouterr().err


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (GPU[:1], 'the following arguments are required: --chips_per_host'),
    ([*GPU, '--tpu=x'], 'not allowed with argument'),
    ([*GPU, '--slices=2'], '--slices are of TPUs'),
    ([TPU[0], *TPU[2:]], '--topology goes with --tpu'),
    ([*GPU, '--topology=4x4'], '--topology goes with --tpu'),
    ([*GPU, '--claim='], '--claim= is empty'),
    ([*TPU, '--hosts=3'], 'chips, but --hosts=3 with'),
    ([TPU[0], '--topology=big', '--chips_per_host=4'], '--topology=big: not of the form 4x4'),
    ([*GPU, '--hosts=0'], '--hosts, --slices and --chips_per_host are 1 or more'),
  ],
)
def test_wrong_flags(flags, message, capsys):
  with pytest.raises(SystemExit):
    gke.main([*COMMON, *flags, '--', '-c'])
  assert message in capsys.readouterr().err
