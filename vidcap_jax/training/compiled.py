"""Compiles a step for each shape of batch, and logs the operations and memory that it takes.

A run knows its shapes at its first step: one for each length that batches are cut to. Its programs
are compiled by threads, in the order in which they are first needed, while the steps that have
theirs are computed. A program is a function of the shapes alone, so it is the same whenever and
wherever it was compiled. Programs that validation needs are compiled after those of the steps.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from vidcap_jax.counts import counted
from vidcap_jax.distributed import activity
from vidcap_jax.errors import ConfigError
from vidcap_jax.training.cost import cost_of_traced
from vidcap_jax.training.ledger import WAIT_EVENT
from vidcap_jax.training.memory import (
  REMEDIES,
  Memory,
  bytes_per_device,
  fits_line,
  memory_of,
  size,
)

Log = Callable[[str], None]


def make_compiler() -> ThreadPoolExecutor:
  """The threads that compile: half of the processor's cores, at most four.

  Compiling takes a core and some GB of memory; the other cores feed the devices, or are them.
  """
  threads = min(4, max(1, len(os.sched_getaffinity(0)) // 2))
  return ThreadPoolExecutor(threads, thread_name_prefix='compiler')


def compile_by_shape(
  step: jax.stages.Wrapped,
  log: Log,
  compiler: ThreadPoolExecutor,
  upcoming: Callable[..., Iterable[tuple]] = lambda *_: (),
  behind: 'Sequence[Behind]' = (),
) -> Callable:
  """A jitted function, compiled ahead of its call with each set of shapes.

  With ``jax_debug_nans`` the function itself is called and nothing is logged: only then does JAX
  search for the operation that makes the first NaN, for which it compiles another program.

  Args:
    step: jitted; its first argument is donated.
    log: gets a line with the number of programs, and for each that has been compiled one with
      operations and memory, and one that it fits where devices report their memory.
    compiler: threads that compile.
    upcoming: the arguments of the first call -> those of all calls by their shapes, in the order in
      which they come first; arrays may be abstract.
    behind: compiled after these.

  Raises:
    ConfigError: the devices have less memory than a program needs; before it runs, and at the next
      call after it was compiled.
  """
  programs = _Programs(step, log, compiler, behind)

  def run(*arguments):
    if jax.debug_nans.value:
      return step(*arguments)
    return programs.get(arguments, upcoming)(*arguments)

  return run


def abstract(tree: Any) -> Any:
  """The shapes, dtypes and shardings of arrays; abstract arrays stay as they are."""
  return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)


@dataclasses.dataclass(frozen=True)
class _Program:
  """A compiled function.

  Attributes:
    run: the function.
    memory: that it takes; None where the back end does not report it.
    line: about its operations and memory.
    rows: B of its batch; None: unknown.
    name: in front of the line that it fits.
  """

  run: Callable
  memory: Memory | None
  line: str
  rows: int | None
  name: str = ''


class Behind:
  """A jitted function of (params, batch) that a thread compiles after the steps.

  It is called like the function. Arguments of other shapes than those that it was compiled for, and
  calls before the first step, are left to the function itself.
  """

  def __init__(self, function: Any, name: str, batch: Mapping):
    """Only notes what is to be compiled.

    Args:
      function: jitted.
      name: for log lines, e.g. 'validation'.
      batch: abstract, with ``video_index``.
    """
    self._function, self._name, self._batch = function, name, batch
    self._key: tuple = ()
    self._future: Future[_Program] | None = None

  def submit(self, compiler: ThreadPoolExecutor, params: Any) -> Future[_Program]:
    """Compiles the function for parameters of these shapes, in a thread."""
    arguments = abstract((params, dict(self._batch)))
    self._key = _key(arguments)
    self._future = compiler.submit(self._compile, arguments)
    return self._future

  def __call__(self, params: Any, batch: Mapping) -> Any:
    if not self._future or jax.debug_nans.value or self._key != _key((params, batch)):
      return self._function(params, batch)
    return _wait_for(self._future).run(params, batch)

  def _compile(self, arguments: tuple) -> _Program:
    program = _compile_lowered(self._function.lower(*arguments))
    memory, rows = memory_of(program), len(self._batch['video_index'])
    line = f'{self._name} compiled'
    if memory:
      line = f'{self._name} takes {_memory_text(memory)}'
    return _Program(program, memory, line, rows, f'{self._name} ')


class _Programs:
  """The programs of a step, by the shapes of their arguments."""

  def __init__(
    self,
    step: jax.stages.Wrapped,
    log: Log,
    compiler: ThreadPoolExecutor,
    behind: Sequence[Behind],
  ):
    self._step, self._log, self._compiler, self._behind = step, log, compiler, behind
    self._futures: dict[tuple, Future[_Program]] = {}
    self._unreported: list[Future[_Program]] = []
    self._stats: Mapping[str, int] | None = None

  def get(self, arguments: tuple, upcoming: Callable[..., Iterable[tuple]]) -> Callable:
    """The program for arguments; waits until it has been compiled."""
    key = _key(arguments)
    if not self._futures:
      # Now, because the temporary arrays of a step that is being computed would count, too.
      self._stats = device_memory()
      shapes = [abstract(arguments), *upcoming(*arguments)]
      for each in shapes:
        self._submit(each)
      for function in self._behind:
        self._unreported.append(function.submit(self._compiler, arguments[0].params))
      self._log(f'compiles {counted(len(self._futures), "program")} to train: this takes a while')
    elif key not in self._futures:
      self._log('compiling another step')
      self._submit(abstract(arguments))
    program = _wait_for(self._futures[key])
    self._report()
    return program.run

  def _submit(self, arguments: tuple) -> None:
    if (key := _key(arguments)) not in self._futures:
      self._futures[key] = self._compiler.submit(_compile, self._step, arguments)
      self._unreported.append(self._futures[key])

  def _report(self) -> None:
    """Logs the programs that have been compiled since the last call.

    Raises:
      ConfigError: one does not fit.
    """
    for future in [f for f in self._unreported if f.done()]:
      self._unreported.remove(future)
      program = future.result()
      self._log(program.line)
      if program.memory and (line := fits_line(program.memory, self._stats, program.rows)):
        self._log(program.name + line)


def _wait_for(future: Future[_Program]) -> _Program:
  """Waits until a program has been compiled, and records for how long."""
  if not future.done():
    began = time.perf_counter()
    try:
      with activity.doing('compiling'):
        future.result()
    finally:
      jax.monitoring.record_event_duration_secs(WAIT_EVENT, time.perf_counter() - began)
  return future.result()


def device_memory() -> Mapping[str, int] | None:
  """``memory_stats`` of this process's first device; None where it reports none."""
  return jax.local_devices()[0].memory_stats()


def _key(arguments: tuple) -> tuple:
  return tuple((leaf.shape, leaf.dtype, leaf.sharding) for leaf in jax.tree.leaves(arguments))


def _compile(step: jax.stages.Wrapped, arguments: tuple) -> _Program:
  """Compiles a step and counts what it takes."""
  traced = step.trace(*arguments)
  lowered = traced.lower()
  program = _compile_lowered(lowered)
  try:
    flops = cost_of_traced(traced, lowered).flops
  except RuntimeError:  # JAX_PLATFORMS leaves out the CPU, which counts them
    flops = 0
  memory, batch = memory_of(program), arguments[1]
  rows = len(batch['video_index']) if 'video_index' in batch else None
  return _Program(program, memory, _cost_line(flops, memory, arguments[0], batch), rows)


def _compile_lowered(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
  """Compiles a program.

  Raises:
    ConfigError: the devices have less memory than it needs.
  """
  try:
    return lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    if 'RESOURCE_EXHAUSTED' not in str(error):
      raise
    reason = str(error).splitlines()[0]
    raise ConfigError(f'the program does not fit: {reason}; use {REMEDIES}') from None


def _memory_text(memory: Memory) -> str:
  """What a program takes of each device, and for what."""
  return (
    f'{size(memory.total)} of each device: {size(memory.arguments)} of arguments, '
    f'{size(memory.temporary)} of temporary arrays'
  )


def _cost_line(flops: float, memory: Memory | None, state: Any, batch: Mapping) -> str:
  """A line with the operations and memory of a program, and the state that is not donated to it."""
  line = 'a step'
  if 'captions' in batch:
    line += f' with captions of {batch["captions"].shape[-1]} tokens'
  line += f' takes {flops / 1e9:.3g} GFLOP' if flops else ' takes'
  if memory is None:  # some back ends do not report it
    return line if flops else 'compiled'
  line += (' and ' if flops else ' ') + _memory_text(memory)
  state_size = bytes_per_device(state)
  if memory.aliased < state_size:
    copied = size(state_size - memory.aliased)
    line += f'; {copied} of the training state is held twice, since it is not donated'
  return line
