"""What compiled programs hold: collectives, loops, host calls, aliased state, copies and memory.

The programs of ``tests/small_vatex.py``, split over eight devices by the batch: compiled for eight
CPU devices at every test run, and for eight TPUs where libtpu is installed. A change that makes a
program slower or larger there changes no result, so only these tests fail.
"""

import dataclasses
import importlib.util
import math
import pathlib
from collections.abc import Iterator

import jax
import pytest

from vidcap_jax import config_files
from vidcap_jax.compilation import hlo, topology, worker
from vidcap_jax.compilation.abstract_stage import AbstractStage, make_stage
from vidcap_jax.compilation.jobs import Job, Selection, find_jobs, program_of
from vidcap_jax.compilation.processes import run_job
from vidcap_jax.compilation.report import Report
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.training.cost import inner_programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = 'tests/small_vatex.py:temporal_rl'
DEVICES = 8
# A beam's search among a word's children in the table of n-grams, and the rounds of random bits.
SEARCH_ROUNDS, RANDOM_ROUNDS = 14, 5
PADDED = 1.01  # parts of parameters that TPUs fill up to whole tiles
SUMS = ('all-reduce', 'reduce-scatter')
SCALARS = 1024  # bytes of the sums that are scalars or one number for each row
needs_libtpu = pytest.mark.skipif(
  not importlib.util.find_spec('libtpu'),
  reason="libtpu is not installed: pip install -e '.[tpu-compile]'",
)


@dataclasses.dataclass(frozen=True)
class Compiled:
  """A program and what its bounds are computed from.

  Attributes:
    job: what was compiled.
    report: what it holds.
    program: its text.
    params: bytes of the parameters.
  """

  job: Job
  report: Report
  program: hlo.Program
  params: int

  @property
  def rows(self) -> int:
    """Captions of a device that are computed side by side."""
    config = self.job.config
    captions = config.decode.beam if self.job.program == 'beam' else config.data.captions_per_video
    return self.report.batch_per_chip * captions

  @property
  def word_loops(self) -> list[hlo.Loop]:
    """Those that run once for each word."""
    return [loop for loop in self.program.loops if loop.rounds == self.job.length]

  def collective_bytes(self, kind: str, *, in_loop: bool) -> int:
    """Of all runs together."""
    found = self.report.contents.collectives
    return sum(c.bytes for c in found if (c.kind, c.in_loop) == (kind, in_loop))

  @property
  def collective_kinds(self) -> set[tuple[str, bool]]:
    """Kinds, and whether in a loop."""
    return {(c.kind, c.in_loop) for c in self.report.contents.collectives}


def find_job(
  stage: str,
  program: str,
  output: str = '',
  dtype: str = 'float32',
  optimizer: str = 'as_params',
) -> Job:
  config = config_files.load_config(SOURCE)
  with config.unlocked():
    config.source, config.train.dtype, config.mesh.optimizer = SOURCE, dtype, optimizer
  selection = Selection(stage=stage, programs=(program,))
  (job,), _ = find_jobs(config, selection, read_topology('v5e:2x4'), output=output, low_effort=True)
  return job


def stage_of(job: Job) -> AbstractStage:
  return make_stage(job.config, job.data, make_mesh(devices=jax.devices()))


@pytest.fixture(params=['cpu', pytest.param('tpu', marks=[pytest.mark.slow, needs_libtpu])])
def backend(request, monkeypatch):
  monkeypatch.chdir(ROOT)
  return request.param


@pytest.fixture
def compiled(backend, monkeypatch, tmp_path):
  """(stage, program, mesh.optimizer) -> ``Compiled``."""

  def compile_program(stage, program, optimizer='as_params'):
    job = find_job(stage, program, str(tmp_path), optimizer=optimizer)
    if backend == 'tpu':
      report = run_job(job, topology.environment(job.topology), 800.0, lambda seconds: None)
    else:
      monkeypatch.setattr(topology, 'devices', lambda _: jax.devices()[:DEVICES])
      monkeypatch.setattr(topology, 'installed_versions', lambda _: {})
      report = worker.compile_job(job)
    assert report.error == ''
    text = (tmp_path / job.file_name).read_text()
    params = stage_of(job).state.params
    size = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(params))
    return Compiled(job, report, hlo.read_program(text, job.length), size)

  return compile_program


def check_clean(found: Compiled) -> None:
  """Nothing that no program should hold."""
  contents = found.report.contents
  assert not contents.host_calls
  assert not contents.float64
  assert found.report.unaliased == 0
  assert not contents.copies, 'copies of 1 MiB or more, such as one of the reference tables'


def check_loops(found: Compiled, over_words: int, open_loops: int) -> None:
  """Loops over words, and none over videos, captions or the vocabulary."""
  assert len(found.word_loops) == over_words
  assert sum(not loop.exact for loop in found.program.loops) == open_loops
  others = {loop.rounds for loop in found.program.loops} - {found.job.length}
  assert others <= {SEARCH_ROUNDS, RANDOM_ROUNDS}


def check_gradients(found: Compiled, losses: int = 1, sums: int = 1) -> None:
  """All gradients are summed over devices after the last word, but that of attention's vector.

  Args:
    found: the program.
    losses: that are differentiated, each with a loop of its own.
    sums: over devices, of all gradients.
  """
  outside = sum(found.collective_bytes(kind, in_loop=False) for kind in SUMS)
  attention = 4 * found.job.config.model.attention
  assert sums * (found.params - attention) <= outside <= PADDED * sums * found.params + SCALARS
  inside = found.collective_bytes('all-reduce', in_loop=True)
  assert inside <= found.job.length * (losses * attention + 4)


def check_memory(found: Compiled, gradients: int, floats: int) -> None:
  """Temporary memory is bounded by the gradients and by arrays of the device's own captions.

  Args:
    found: the program.
    gradients: copies of the parameters' size.
    floats: kept of each word of a caption.
  """
  words = found.rows * found.job.length
  assert found.report.memory.temporary <= gradients * found.params + 4 * words * floats


def kept_of_a_word(found: Compiled) -> int:
  """Floats of logits and of the arrays that the gradient of a step needs."""
  model = found.job.config.model
  return 6 * len(found.job.data.vocabulary) + 48 * model.hidden


@pytest.mark.timeout(900)
def test_a_step_of_cross_entropy(compiled):
  found = compiled('temporal', 'step')
  check_clean(found)
  check_loops(found, over_words=2, open_loops=0)
  check_gradients(found)
  assert found.collective_kinds <= {('all-reduce', False), ('all-reduce', True)}
  check_memory(found, gradients=2, floats=kept_of_a_word(found))


@pytest.mark.timeout(900)
def test_a_step_with_sharded_moments(compiled):
  """Each device updates its part of the parameters, and all gather the new ones once."""
  found = compiled('temporal', 'step', 'sharded')
  check_clean(found)
  check_loops(found, over_words=2, open_loops=0)
  check_gradients(found)
  gathered = found.collective_bytes('all-gather', in_loop=False)
  assert 0.95 * found.params < gathered <= PADDED * found.params
  assert not found.collective_bytes('all-gather', in_loop=True)
  moments = 2 * found.params / DEVICES
  assert found.report.memory.aliased < found.params + 1.5 * moments
  check_memory(found, gradients=2, floats=kept_of_a_word(found))


@pytest.mark.timeout(900)
def test_a_self_critical_step(compiled, backend):
  found = compiled('temporal_rl', 'step')
  check_clean(found)
  # Greedy captions, samples and the captions of the batch; the last two are differentiated.
  check_loops(found, over_words=5, open_loops=1)
  # Only TPUs' compiler adds the gradients of both losses before it sums them over devices.
  check_gradients(found, losses=2, sums=1 if backend == 'tpu' else 2)
  gathered = found.collective_bytes('all-gather', in_loop=False)
  assert gathered <= found.job.rows * (found.job.length + 1) * 4, 'one number for each word'
  reduced = {('all-reduce', False), ('all-reduce', True)}
  assert found.collective_kinds <= {*reduced, ('all-gather', False)}
  check_memory(found, gradients=3, floats=2 * kept_of_a_word(found))


@pytest.mark.timeout(900)
def test_beam_search(compiled, backend):
  found = compiled('temporal', 'beam')
  check_clean(found)
  check_loops(found, over_words=1, open_loops=1)
  ended = found.collective_bytes('all-reduce', in_loop=True)
  assert ended <= 4 * found.job.length, 'whether all captions have ended'
  kinds = {('all-reduce', True)}
  if backend == 'cpu':  # where JAX's top_k gathers its argument from all devices
    kinds |= {('all-gather', True), ('all-gather', False)}
    logits = 4 * found.job.rows * found.job.config.decode.beam * len(found.job.data.vocabulary)
    gathered = found.collective_bytes('all-gather', in_loop=True)
    assert gathered <= found.job.length * logits / 4, 'candidates, but not the logits'
  assert found.collective_kinds <= kinds
  check_memory(found, gradients=0, floats=kept_of_a_word(found))


def traced(stage: str, dtype: str = 'float32') -> tuple[Job, jax.stages.Traced]:
  job = find_job(stage, 'step', dtype=dtype)
  function, arguments = program_of(stage_of(job), job)
  return job, function.trace(*arguments)


def equations(program) -> Iterator:
  """Of a jaxpr, at any depth."""
  for equation in program.eqns:
    yield equation
    for inner in inner_programs(equation.params):
      yield from equations(inner)


@pytest.fixture
def in_project(monkeypatch):
  monkeypatch.chdir(ROOT)


@pytest.mark.parametrize('stage', ['temporal', 'temporal_rl'])
def test_no_sum_over_rows_in_bfloat16(in_project, stage):
  """A sum over all videos is of hundreds of numbers, of which bfloat16 loses most."""
  job, program = traced(stage, 'bfloat16')
  B, S, L = job.rows, job.config.data.captions_per_video, job.length
  by_row = {B, L * B, L * B * S}
  sums = ('reduce_sum', 'dot_general', 'scatter-add')
  checked = [
    equation.outvars[0].aval
    for equation in equations(program.jaxpr.jaxpr)
    if equation.primitive.name in sums and equation.outvars[0].aval.dtype == 'bfloat16'
  ]
  assert len(checked) > 20
  assert not [str(result) for result in checked if not by_row & set(result.shape)]


def test_the_whole_state_is_donated(in_project):
  job, program = traced('temporal')
  text = program.lower().as_text()
  donated = text.count('jax.buffer_donor') + text.count('tf.aliasing_output')
  assert donated == len(jax.tree.leaves(stage_of(job).state))
