"""The search for the largest batch, on programs whose memory is known."""

import dataclasses

import pytest

from tests import tiny
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.fit import MOST, largest_batch
from vidcap_jax.compilation.jobs import Job
from vidcap_jax.compilation.report import Report
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.training import experiment
from vidcap_jax.training.memory import Memory

GIB = 2**30


@pytest.fixture
def job():
  config = experiment.stage_config(tiny.get_config(), 'xe')
  sizes = data_sizes.from_config_file('configs/quickstart.py', config)
  return Job(config, 'xe', 'step', 21, sizes, read_topology('v5e:2x4'))


class Compiler:
  """Programs of a fixed part and a part for each row of a chip, of 16 GiB in all.

  Attributes:
    compiled: rows of each chip, in the order they were compiled.
  """

  def __init__(self, fixed, each, *, refuses=False, fails_at=0):
    self.fixed, self.each, self.refuses, self.fails_at = fixed, each, refuses, fails_at
    self.compiled = []

  def __call__(self, job):
    rows = job.rows // job.data_axis
    self.compiled.append(rows)
    report = Report(job.stage, job.program, job.length, job.rows, rows)
    total = int((self.fixed + self.each * rows) * GIB)
    if rows == self.fails_at:
      return dataclasses.replace(report, error='INTERNAL: a bug')
    if self.refuses and total > 16 * GIB:
      return dataclasses.replace(report, error='RESOURCE_EXHAUSTED', out_of_memory=True)
    return dataclasses.replace(report, memory=Memory(total, 0, 0, 0))


@pytest.mark.parametrize('refuses', [False, True])
@pytest.mark.parametrize(('fixed', 'each'), [(1.0, 0.1), (0.5, 0.03), (8.0, 0.9), (3.0, 5.0)])
def test_the_largest_batch(job, fixed, each, refuses):
  compiler = Compiler(fixed, each, refuses=refuses)
  found = largest_batch(job, compiler)
  largest = int((16 - fixed) / each)
  assert largest * 15 / 16 - 1 <= found.report.batch_per_chip <= largest
  assert len(compiler.compiled) == len(set(compiler.compiled)) <= 14
  assert list(found.tried) == sorted(compiler.compiled)


def test_no_batch_fits(job):
  found = largest_batch(job, Compiler(20.0, 1.0))
  assert found.report.batch_per_chip == 1
  assert not found.report.fits(job.topology.chip)


def test_a_search_ends_somewhere(job):
  found = largest_batch(job, Compiler(0.0, 1e-6))
  assert found.report.batch_per_chip == MOST
  assert found.more_may_fit
  assert largest_batch(job.with_rows(9 * MOST), Compiler(0.0, 1e-6)).report.batch_per_chip == MOST
  assert not largest_batch(job, Compiler(1.0, 0.1)).more_may_fit


def test_another_failure_ends_the_search(job):
  compiler = Compiler(1.0, 0.1, fails_at=4)
  found = largest_batch(job, compiler)
  assert found.report.error == 'INTERNAL: a bug'
  assert compiler.compiled == [1, 2, 4]


def test_micro_batches_divide_the_batch(job):
  config = job.config.copy_and_resolve_references()
  with config.unlocked():
    config.objective.micro_batches = 4
  compiler = Compiler(1.0, 0.1)
  found = largest_batch(dataclasses.replace(job, config=config), compiler)
  assert not any(rows % 4 for rows in compiler.compiled)
  assert 136 <= found.report.batch_per_chip <= 150
