"""Compiling one program, for the CPU's devices in place of a topology's, and for TPUs."""

import dataclasses
import importlib.util
import json
import pathlib
import pickle
import re
import subprocess
import sys
import time

import jax
import pytest

from tests import tiny
from vidcap_jax.compilation import hlo, topology, worker
from vidcap_jax.compilation.jobs import Selection, find_jobs
from vidcap_jax.compilation.processes import run_job
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.training import compiled

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def jobs(tiny_data, tmp_path):
  config = tiny.small_config(tiny_data)
  folders = {'reports': str(tmp_path / 'reports'), 'output': str(tmp_path)}
  found, _ = find_jobs(config, Selection(data=tiny_data), read_topology('v5e:2x4'), **folders)
  return found


@pytest.fixture
def on_cpu(monkeypatch):
  """The CPU's eight devices in place of a TPU's."""
  monkeypatch.setattr(topology, 'devices', lambda _: jax.devices())
  monkeypatch.setattr(topology, 'installed_versions', lambda _: {'libtpu': '1'})


class Stopped(Exception):
  """What is needed is known."""


def computations(text):
  """The computations of a program, without where in the source they come from."""
  return re.sub(r', metadata=\{[^}]*\}', '', text[text.index('\n\n%') :])


def test_a_step_is_the_one_that_training_compiles(jobs, on_cpu, tiny_data, tmp_path, monkeypatch):
  report = worker.compile_job(jobs[0])
  texts = []

  def stop(program):
    texts.append(program.as_text())
    raise Stopped

  monkeypatch.setattr(compiled, 'memory_of', stop)
  with pytest.raises(Stopped):
    tiny.run(tiny.small_config(tiny_data), tmp_path / 'work')
  (trained,) = texts
  assert computations((tmp_path / 'xe-step-21.hlo').read_text()) == computations(trained)
  assert (report.rows, report.batch_per_chip, report.unaliased) == (8, 1, 0)
  assert report.flops > 1e4
  assert {c.kind for c in report.contents.collectives} == {'all-reduce'}
  assert report.memory.total > 0
  assert not report.stored


def test_a_decoder(jobs, on_cpu):
  report = worker.compile_job(jobs[1])
  assert (report.program, report.length, report.error) == ('greedy', 21, '')
  assert report.contents.open_loops == 1  # it ends when all captions have ended


@pytest.fixture
def fake_compiler(monkeypatch):
  """Counts the programs that are compiled."""
  compiled = []

  def compile_program(job, lowered, report):
    compiled.append(job.program)
    return dataclasses.replace(report, error='a bug', seconds=3.0), 'text of the program'

  monkeypatch.setattr(worker, '_compile', compile_program)
  return compiled


def test_a_program_compiled_before_is_read(jobs, on_cpu, fake_compiler, tmp_path):
  text = tmp_path / jobs[0].file_name
  first = worker.compile_job(jobs[0])
  text.unlink()
  again = worker.compile_job(jobs[0])
  assert fake_compiler == ['step']
  assert (first.stored, again.stored) == (False, True)
  assert dataclasses.replace(again, stored=False) == first
  assert text.read_text() == 'text of the program'


def test_the_text_of_a_stored_program_is_read_again(jobs, on_cpu, monkeypatch):
  first = worker.compile_job(jobs[1])
  contents = dataclasses.replace(first.contents, collectives=[], cycles=10)
  monkeypatch.setattr(worker, 'contents_of', lambda program: contents)
  again = worker.compile_job(jobs[1])
  assert again.stored
  assert again.contents == contents
  clock = jobs[1].topology.chip.clock
  assert (again.estimate, again.collective_estimate) == (10 / clock, 0)


def test_without_a_folder_of_reports(jobs, on_cpu, fake_compiler):
  job = dataclasses.replace(jobs[0], reports='', output='')
  assert not worker.compile_job(job).stored
  assert not worker.compile_job(job).stored


def test_another_program_is_compiled_anew(jobs, on_cpu, fake_compiler, monkeypatch):
  job = jobs[0]
  others = [
    job,
    job.with_rows(16),
    dataclasses.replace(job, topology=read_topology('v6e:2x4')),
    dataclasses.replace(job, low_effort=True),
    jobs[1],
  ]
  for each in others:
    assert not worker.compile_job(each).stored
  monkeypatch.setattr(topology, 'installed_versions', lambda _: {'libtpu': '2'})
  assert not worker.compile_job(job).stored


class _Lowered:
  """Compiles a small program after failing with each of ``messages``."""

  def __init__(self, *messages):
    self.messages, self.options = list(messages), []

  def compile(self, compiler_options=None):
    self.options.append(compiler_options)
    if self.messages:
      raise jax.errors.JaxRuntimeError(self.messages.pop(0))
    return jax.jit(lambda x: x @ x).lower(jax.numpy.ones((4, 4))).compile()


NO_TILES = "INTERNAL: Couldn't find output tile sizes that satisfy hlo: %dot.317 = f32[2048,896]"
EMPTY = worker.Report('xe', 'step', 21)


def compile_for(topology_name, job, *messages, low_effort=False):
  """The report, the text and the compiler's options of each attempt."""
  lowered = _Lowered(*messages)
  target = read_topology(topology_name)
  job = dataclasses.replace(job, topology=target, low_effort=low_effort)
  return *worker._compile(job, lowered, EMPTY), lowered.options


def test_a_product_in_triton_without_tiles_is_compiled_without_triton(jobs):
  report, text, options = compile_for('h100:8', jobs[0], NO_TILES, low_effort=True)
  effort = {'exec_time_optimization_effort': -1.0}
  assert options == [effort, {**effort, 'xla_gpu_enable_triton_gemm': False}]
  assert (report.error, report.without_triton) == ('', True)
  assert report.memory.total > 0
  assert 'dot' in text


@pytest.mark.parametrize(
  ('topology_name', 'message'),
  [
    ('h100:8', 'RESOURCE_EXHAUSTED: Ran out of memory'),
    ('h100:8', 'INTERNAL: Triton failed'),
    ('v5e:2x4', NO_TILES),
  ],
)
def test_other_errors_are_not_tried_again(jobs, topology_name, message):
  report, text, options = compile_for(topology_name, jobs[0], message)
  assert (report.error, report.without_triton, text) == (message, False, '')
  assert len(options) == 1


def test_a_program_that_fails_without_triton_too(jobs):
  report, _, options = compile_for('h100:8', jobs[0], NO_TILES, 'RESOURCE_EXHAUSTED: 90 GB')
  assert (report.error, report.without_triton) == ('RESOURCE_EXHAUSTED: 90 GB', True)
  assert report.out_of_memory
  assert len(options) == 2


def test_a_program_that_compiles_at_once_has_triton(jobs):
  report, _, options = compile_for('h100:8', jobs[0])
  assert (report.error, report.without_triton, options) == ('', False, [{}])


@pytest.mark.parametrize(
  ('message', 'lacks_memory'),
  [
    ('RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.\nUsed 17.5G of 15.75G', True),
    ('INTERNAL: Mosaic failed', False),
  ],
)
def test_an_error_of_the_compiler_is_one_line(message, lacks_memory, jobs):
  report, text = worker._compile(jobs[0], _Lowered(message), EMPTY)
  assert report.error == message.replace('\n', ' ')
  assert (report.out_of_memory, text) == (lacks_memory, '')


def test_a_batch_that_does_not_divide_is_reported(jobs, on_cpu, tmp_path):
  (tmp_path / 'job').write_bytes(pickle.dumps(jobs[0].with_rows(12)))
  worker.main([str(tmp_path / 'job'), str(tmp_path / 'report')])
  report = json.loads((tmp_path / 'report').read_text())
  assert '12' in report['error']
  assert '8 or 16' in report['error']


def test_a_process_ends_with_the_one_that_started_it(tmp_path):
  worker_code = (
    'import os, pathlib, time\n'
    'from vidcap_jax.compilation.worker import end_with_parent\n'
    'end_with_parent(os.getppid())\n'
    f'pathlib.Path({str(tmp_path)!r}, "id").write_text(str(os.getpid()))\n'
    'time.sleep(100)\n'
  )
  code = f'import subprocess, sys\nsubprocess.run([sys.executable, "-c", {worker_code!r}])\n'
  parent = subprocess.Popen([sys.executable, '-c', code], cwd=ROOT)
  number = tmp_path / 'id'
  try:
    while not (number.is_file() and number.read_text()):
      assert parent.poll() is None
      time.sleep(0.1)
  finally:
    parent.kill()
    parent.wait()
  process = int(number.read_text())
  deadline = time.monotonic() + 30
  while _runs(process):
    assert time.monotonic() < deadline
    time.sleep(0.1)


def test_a_process_ends_if_the_one_that_started_it_is_gone_already():
  gone = subprocess.Popen([sys.executable, '-c', ''])
  gone.wait()
  code = (
    'import time\n'
    'from vidcap_jax.compilation.worker import end_with_parent\n'
    f'end_with_parent({gone.pid})\n'
    'time.sleep(100)\n'
  )
  assert subprocess.run([sys.executable, '-c', code], cwd=ROOT, timeout=90).returncode == 1


def _runs(process: int) -> bool:
  status = pathlib.Path(f'/proc/{process}/stat')
  return status.is_file() and status.read_text().rpartition(')')[2].split()[0] != 'Z'


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
  not importlib.util.find_spec('libtpu'),
  reason="libtpu is not installed: pip install -e '.[tpu-compile]'",
)
def test_a_step_for_tpus(jobs):
  job = jobs[0]
  report = run_job(job, topology.environment(job.topology), 800.0, lambda seconds: None)
  assert report.error == ''
  assert report.fits(job.topology.chip)
  assert report.unaliased == 0
  assert report.contents.cycles > 0
  assert report.contents.loops > 0
  assert report.contents.open_loops == 0
  assert not report.contents.host_calls
  assert not report.contents.float64
  assert not any(c.in_loop for c in report.contents.collectives)
  text = pathlib.Path(job.output, job.file_name).read_text()
  assert hlo.read_program(text).loops
