import pytest

from vidcap_jax.cli.restart import restart_advice

FLAGS = ['--config=configs/quickstart.py', "--config.order=('a','b')", '--workdir=my runs/a']
QUOTED = "--config=configs/quickstart.py '--config.order=('\"'\"'a'\"'\"','\"'\"'b'\"'\"')'"


@pytest.mark.parametrize(
  ('started', 'shown'),
  [
    (['python', '-m', 'vidcap_jax.main'], 'python -m vidcap_jax.main'),
    (['/env/bin/python', '-u', '-m', 'vidcap_jax.main'], '/env/bin/python -u -m vidcap_jax.main'),
    (['/env/bin/python', '/env/bin/vidcap', 'train'], 'vidcap train'),
  ],
)
def test_the_command_can_be_copied(started, shown):
  command = restart_advice(1, [*started, *FLAGS]).splitlines()[-1]
  assert command.strip() == f"{shown} {QUOTED} '--workdir=my runs/a'"


def test_a_job_of_several_processes_is_started_by_its_launcher():
  assert 'python' not in restart_advice(2, ['python', '-m', 'vidcap_jax.main'])
