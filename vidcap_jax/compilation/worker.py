"""A process that compiles one program: python -m vidcap_jax.compilation.worker JOB REPORT PARENT.

JOB is a pickled ``Job``; REPORT, a file of JSON, is written; PARENT is the id of the process that
starts it, see ``processes``.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import pickle
import sys
import threading
import time
from typing import Any

import jax
import jaxlib

from vidcap_jax.compilation import hlo, topology
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.compilation.arrays import arrays_of
from vidcap_jax.compilation.jobs import Job, program_of
from vidcap_jax.compilation.report import (
  Contents,
  Report,
  collective_seconds,
  contents_of,
  from_dict,
)
from vidcap_jax.distributed import runtime
from vidcap_jax.distributed.mesh import check_batch, make_mesh
from vidcap_jax.errors import UserError
from vidcap_jax.training.cost import cost_of_traced
from vidcap_jax.training.memory import bytes_per_device, memory_of

_FORM = 3  # of stored reports; raised when something is added that their texts do not hold
# How XLA's error begins when it has chosen tiles that a product in Triton does not have. With a GPU
# it compiles and times several tiles and leaves out those that fail; without, it takes a default.
_NO_TILES = "Couldn't find output tile sizes"
_WITHOUT_TRITON = {'xla_gpu_enable_triton_gemm': False}


def compile_job(job: Job) -> Report:
  """Traces and compiles a job's program, or reads the report of the same program.

  Raises:
    UserError: settings, data and topology don't fit together.
  """
  runtime.apply({'matmul_precision': job.config.runtime.matmul_precision})
  devices = topology.devices(job.topology)
  mesh = make_mesh(job.config.mesh.data, job.config.mesh.model, devices)
  check_batch(job.rows, mesh)
  stage = make_stage(job.config, job.data, mesh)
  function, arguments = program_of(stage, job)
  traced = function.trace(*arguments)
  lowered = traced.lower()
  store = _Store(job, lowered.as_text())
  if stored := store.read():
    report, text = stored
    if report.contents:  # read again, since more may be read in the text than when it was stored
      report = dataclasses.replace(report, contents=_contents(text, job.length))
      report = _with_estimates(job, report, report.flops)
    return dataclasses.replace(report, stage=job.stage, program=job.program, stored=True)
  empty = Report(job.stage, job.program, job.length, job.rows, job.rows // mesh.shape['data'])
  report, text = _compile(job, lowered, empty)
  if report.contents:
    flops = cost_of_traced(traced, while_rounds=job.length).flops
    report = _with_estimates(job, report, flops)
    if job.program == 'step' and report.memory:
      state = bytes_per_device(stage.state)
      report = dataclasses.replace(report, unaliased=max(0, state - report.memory.aliased))
  if report.out_of_memory:
    report = dataclasses.replace(report, arrays=tuple(arrays_of(traced)))
  store.write(report, text)
  return report


def _compile(job: Job, lowered: jax.stages.Lowered, report: Report) -> tuple[Report, str]:
  """Compiles a program; returns the report and the program's text, '' if it did not compile.

  For GPUs it is compiled without Triton's products if the compiler finds no tiles for them.
  """
  options: dict[str, Any] = {'exec_time_optimization_effort': -1.0} if job.low_effort else {}
  start = time.monotonic()
  program, error = _try_to_compile(lowered, options)
  if _NO_TILES in error and job.topology.chip.platform == 'cuda':
    report = dataclasses.replace(report, without_triton=True)
    program, error = _try_to_compile(lowered, options | _WITHOUT_TRITON)
  report = dataclasses.replace(report, seconds=time.monotonic() - start)
  if program is None:
    lacking = 'RESOURCE_EXHAUSTED' in error
    return dataclasses.replace(report, error=error, out_of_memory=lacking), ''
  text = program.as_text() or ''
  contents, memory = _contents(text, report.length), memory_of(program)
  return dataclasses.replace(report, memory=memory, contents=contents), text


def _try_to_compile(
  lowered: jax.stages.Lowered, options: dict[str, Any]
) -> tuple[jax.stages.Compiled | None, str]:
  """The compiled program and '', or None and the compiler's error in one line."""
  try:
    return lowered.compile(compiler_options=options), ''
  except jax.errors.JaxRuntimeError as error:
    return None, ' '.join(str(error).split())


def _contents(text: str, length: int) -> Contents:
  return contents_of(hlo.read_program(text, length))


def _with_estimates(job: Job, report: Report, flops: float) -> Report:
  """Adds operations, the estimate of time and the share of the chips' peak."""
  chip, chips, contents = job.topology.chip, job.topology.chips, report.contents
  of_slice = chips // job.topology.slices
  assert contents is not None
  peak = chip.peak(job.config.train.dtype, job.config.runtime.matmul_precision)
  at_peak = flops / chips / peak
  if chip.clock:
    estimate = contents.cycles / chip.clock
  else:  # the compiler of GPUs estimates nothing
    estimate = max(at_peak, contents.traffic / chip.bandwidth)
  return dataclasses.replace(
    report,
    flops=flops,
    estimate=estimate,
    collective_estimate=collective_seconds(contents, chip, of_slice),
    share_of_peak=at_peak / estimate if estimate else 0.0,
  )


class _Store:
  """The folder of reports: a report and a text for each program, by a key of all that matters."""

  def __init__(self, job: Job, program: str):
    versions = topology.installed_versions(job.topology.chip.platform)
    flags = [os.environ.get(name, '') for name in ('XLA_FLAGS', 'LIBTPU_INIT_ARGS')]
    settings = (job.config.train.dtype, job.config.runtime.matmul_precision, job.length, job.rows)
    parts = (
      *(_FORM, jax.__version__, jaxlib.__version__, sorted(versions.items()), flags),
      *(job.topology.name, job.topology.chip, job.low_effort, settings, program),
    )
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    folder = pathlib.Path(job.reports) if job.reports else None
    self._report = folder / f'{key}.json' if folder else None
    self._text = folder / f'{key}.hlo.gz' if folder else None
    self._output = pathlib.Path(job.output, job.file_name) if job.output else None

  def read(self) -> tuple[Report, str] | None:
    """The report of the same program and its text, None for none."""
    if not self._report or not self._text:
      return None
    if not self._report.is_file() or not self._text.is_file():
      return None
    text = gzip.decompress(self._text.read_bytes()).decode()
    if self._output:
      self._output.write_text(text)
    return from_dict(json.loads(self._report.read_text())), text

  def write(self, report: Report, text: str) -> None:
    """Keeps a report and the program's text."""
    if self._output and text:
      self._output.write_text(text)
    if self._report and self._text:
      self._report.parent.mkdir(parents=True, exist_ok=True)
      self._text.write_bytes(gzip.compress(text.encode()))
      self._report.write_text(json.dumps(dataclasses.asdict(report)))


def end_with_parent(parent: int) -> None:
  """Ends this process when the one that has started it is gone, even while a compiler works.

  Args:
    parent: its process id. It may have gone while this one was importing modules.
  """

  def watch():
    while os.getppid() == parent:
      time.sleep(0.5)
    os._exit(1)

  threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> None:
  """Compiles the job in a file; see the module's docstring."""
  job_file, report_file = map(pathlib.Path, arguments)
  job: Job = pickle.loads(job_file.read_bytes())
  try:
    report = compile_job(job)
  except UserError as error:
    report = Report(job.stage, job.program, job.length, job.rows, error=str(error))
  report_file.write_text(json.dumps(dataclasses.asdict(report)))


if __name__ == '__main__':
  *files, parent_id = sys.argv[1:]
  end_with_parent(int(parent_id))
  main(files)
