"""Flags for TPU slices and for GPU nodes, and the JobSets that they give."""

import pytest
import yaml

from launch.gke import __main__ as gke

COMMON = ['--name=cap', '--image=registry/vidcap_jax:1', '--claim=vatex']
TPU = ['--tpu=tpu-v5-lite-podslice', '--topology=4x4', '--hosts=4', '--chips_per_host=4']
GPU = ['--gpu=nvidia-h100-80gb', '--hosts=2', '--chips_per_host=8']


def job_of(manifest) -> dict:
  (job,) = manifest['spec']['replicatedJobs']
  return job


def container_of(manifest) -> dict:
  (container,) = job_of(manifest)['template']['spec']['template']['spec']['containers']
  return container


@pytest.fixture
def submitted(fakes):
  """``submitted(*flags)``: the JobSet that kubectl receives."""
  fakes.add('kubectl', 'pathlib.Path(os.environ["HOME"], "given").write_text(sys.stdin.read())')

  def submit(*flags, arguments=('--config=x',)):
    assert gke.main([*COMMON, *flags, '--', *arguments]) == 0
    assert fakes.calls('kubectl')[-1] == ['apply', '-f', '-']
    return yaml.safe_load((fakes.home / 'given').read_text())

  return submit
