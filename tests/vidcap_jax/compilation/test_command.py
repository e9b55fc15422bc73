"""The command: what it prints, writes and returns, with substitutes for the compiler."""

import json

import pytest

from tests import tiny
from vidcap_jax.compilation import command, topology
from vidcap_jax.compilation.jobs import Selection
from vidcap_jax.compilation.report import Contents, Report
from vidcap_jax.errors import UserError
from vidcap_jax.training.memory import Memory

MIB = 2**20
CONTENTS = Contents([], [], 0, [], 0, [], 0, 0, 0, 0)


@pytest.fixture
def compiled(monkeypatch):
  """Programs that take 100 MiB and 1,000 for each row of a chip; those of a stage may fail."""
  ran = []

  def run_job(job, environment, timeout, tick):
    tick(0.0)
    ran.append((job.name, timeout, environment))
    rows = job.rows // job.data_axis
    memory = Memory((100 + 1000 * rows) * MIB, 0, 0, 0)
    return Report(
      job.stage, job.program, job.length, job.rows, rows, memory=memory, contents=CONTENTS
    )

  monkeypatch.setattr(command, 'run_job', run_job)
  monkeypatch.setattr(topology, 'installed_versions', lambda _: {'libtpu': '0.0'})
  monkeypatch.setattr(command.jax.config, 'update', lambda *_: None)
  return ran


@pytest.fixture
def run(tiny_data):
  """``run(**options)``: whether all is well, and the lines that are printed."""

  def run(**options):
    config = tiny.get_config(tiny_data)
    config.source = 'tests/tiny.py'
    lines = []
    selection = Selection(data=tiny_data)
    options = command.Options(**{'topology': 'v5e:2x4', **options})
    return command.compile_run(config, selection, options, lines.append), lines

  return run


def test_a_line_for_each_program_and_a_summary(compiled, run, capsys):
  good, lines = run(timeout=12.0)
  names = ['xe step, 6 tokens', 'xe step, 21 tokens', 'xe greedy, 21 tokens']
  assert good
  assert [name for name, *_ in compiled] == names
  assert {timeout for _, timeout, _ in compiled} == {12.0}
  assert all(env['JAX_PLATFORMS'] == 'cpu' for *_, env in compiled)
  assert [line for line in lines if line.startswith(tuple(names))] == lines[-4:-1]
  assert '3 programs: 3 compile, 3 fit' in lines[-1]
  assert '3 of 3, xe greedy' in capsys.readouterr().err


def test_a_program_that_does_not_fit(compiled, run, tiny_data):
  config = tiny.get_config(tiny_data)
  config.source, config.train.batch_size = 'tests/tiny.py', 8 * 17
  lines = []
  options = command.Options('v5e:2x4')
  assert not command.compile_run(config, Selection(data=tiny_data), options, lines.append)
  assert '3 programs: 3 compile, 1 fit' in lines[-1]  # the decoder's batch is smaller


def test_the_largest_batch(compiled, run):
  good, lines = run(fit_batch=True)
  assert good
  fitting = [line for line in lines if 'largest batch' in line]
  assert len(fitting) == 3
  assert all('is 16 a chip' in line and '32: 32,100 MiB' in line for line in fitting)


def test_reports_as_json(compiled, run, tmp_path):
  run(output=str(tmp_path / 'new' / 'folder'))
  content = json.loads((tmp_path / 'new' / 'folder' / 'report.json').read_text())
  assert content['topology'] == 'v5e:2x4'
  assert [(p['program'], p['length'], p['fits']) for p in content['programs']] == [
    ('step', 6, True),
    ('step', 21, True),
    ('greedy', 21, True),
  ]


def test_a_failure_is_not_good(compiled, run, monkeypatch):
  def fails(job, *_):
    return Report(job.stage, job.program, job.length, error='INTERNAL: a bug')

  monkeypatch.setattr(command, 'run_job', fails)
  good, lines = run()
  assert not good
  assert any('does not compile: INTERNAL: a bug' in line for line in lines)
  assert '3 programs: 0 compile, 0 fit' in lines[-1]


def test_an_output_that_cannot_be_written(compiled, run):
  with pytest.raises(UserError, match='--output=/dev/null/x'):
    run(output='/dev/null/x')
  assert not compiled


def test_the_folder_of_reports(monkeypatch, tmp_path):
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
  assert command.default_reports() == str(tmp_path / 'vidcap_jax' / 'compiled')
