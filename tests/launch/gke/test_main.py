"""The command launch.gke: its flags, its checks, and the input of kubectl."""

import re
import subprocess
import sys

import pytest
import yaml

from launch.gke import __main__ as gke
from tests.launch.conftest import NASTY
from tests.launch.gke.conftest import COMMON, GPU, TPU, container_of


def expanded(word: str, variables) -> str:
  """An argument as Kubernetes expands it: $(NAME) to a known variable, $$ to a dollar sign."""
  meaning = lambda m: '$' if m[0] == '$$' else variables.get(m[1], m[0])  # noqa: E731
  return re.sub(r'\$\$|\$\(([^()]*)\)', meaning, word)


@pytest.mark.parametrize('flags', [TPU, GPU], ids=['tpu', 'gpu'])
@pytest.mark.usefixtures('nothing_was_run_inside')
def test_dry_run_prints_what_is_submitted(flags, submitted, fakes, capsys):
  manifest = submitted(*flags, arguments=NASTY)
  variables = {'HOME': '/root', 'HOSTNAME': 'pod'}
  command = [expanded(word, variables) for word in container_of(manifest)['command']]
  assert command == ['python', '-m', 'vidcap_jax.main', '--start_timeout=1800', *NASTY]
  assert submitted(*flags, arguments=NASTY) == manifest  # the same command resumes

  (fakes.home / 'given').unlink()
  assert gke.main([*COMMON, *flags, '--dry_run', '--', *NASTY]) == 0
  printed = capsys.readouterr().out
  assert not (fakes.home / 'given').exists()
  subprocess.run(['bash', '-c', printed], check=True)
  assert yaml.safe_load((fakes.home / 'given').read_text()) == manifest


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (['--name=Cap_', *GPU], r"JobSet, \$.metadata.name: 'Cap_' does not match"),
    (
      [f'--name={"c" * 47}', *TPU, '--slices=11'],
      r"JobSet, .*metadata.name: .*'c{47}-worker-10-3-abcde' .* 65 .* 63",
    ),
    (['--restarts=-1', *GPU], r'JobSet, \$.spec.failurePolicy.maxRestarts: -1 is less than'),
  ],
)
def test_invalid_job_sets_are_refused(flags, message, capsys):
  assert gke.main([*COMMON, *flags, '--dry_run', '--', '-c']) == 1
  out, err = capsys.readouterr()
  assert out == ''
  assert re.match(f'error: {message}', err)


def test_the_longest_valid_name(submitted):
  assert submitted(f'--name={"c" * 46}', *TPU)['metadata']['name'] == 'c' * 46


def test_packages_for_checking_are_missing(monkeypatch, capsys):
  monkeypatch.setitem(sys.modules, 'kubernetes_validate', None)
  assert gke.main([*COMMON, *GPU, '--dry_run', '--', '-c']) == 1
  assert "needs kubernetes_validate: pip install -e '.[launch]'" in capsys.readouterr().err


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (GPU[:1], 'the following arguments are required: --chips_per_host'),
    ([*GPU, '--tpu=x'], 'not allowed with argument'),
    ([*GPU, '--slices=2'], '--slices'),
    ([TPU[0], *TPU[2:]], '--topology and --tpu'),
    ([*GPU, '--topology=4x4'], '--topology and --tpu'),
    ([*GPU, '--claim='], '--claim= is empty'),
    ([*TPU, '--hosts=3'], 'chips, but --hosts=3 with'),
    ([TPU[0], '--topology=big', '--chips_per_host=4'], '--topology=big: '),
    ([*GPU, '--hosts=0'], '--hosts, --slices and --chips_per_host'),
  ],
)
def test_wrong_flags(flags, message, capsys):
  with pytest.raises(SystemExit):
    gke.main([*COMMON, *flags, '--', '-c'])
  assert message in capsys.readouterr().err
