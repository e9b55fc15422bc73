"""A trace of chosen steps, for TensorBoard's profiler or Perfetto."""

import pathlib
import re
from collections.abc import Callable

import jax

from vidcap_jax.errors import ConfigError


def parse_steps(text: str) -> range:
  """'10:13' as the steps 10, 11 and 12 (counted from 0), '10' as step 10; '' as no step.

  Raises:
    ConfigError: anything else.
  """
  if not text:
    return range(0)
  found = re.fullmatch(r'(\d+)(?::(\d+))?', text)
  steps = range(int(found[1]), int(found[2] or int(found[1]) + 1)) if found else range(0)
  if not steps:
    raise ConfigError(f'--profile={text!r}: give FIRST:LAST, e.g. 10:13 for steps 10, 11 and 12')
  return steps


class Trace:
  """Writes WORKDIR/profile while a step of ``steps`` is computed."""

  def __init__(
    self, steps: range, computed: range, folder: pathlib.Path, log: Callable[[str], None]
  ):
    """Logs it if some of ``steps`` are not among those that are ``computed``."""
    self._steps = range(max(steps.start, computed.start), min(steps.stop, computed.stop))
    self._folder, self._log = folder, log
    self._running = False
    if len(self._steps) < len(steps):
      traced = _span(self._steps) if self._steps else 'none'
      log(f'of steps {_span(steps)} that --profile asks for, this run computes {traced}')

  def before(self, step: int, earlier) -> None:
    """Begins or ends the trace at a step, after waiting for ``earlier``, the last results."""
    if (step in self._steps) == self._running:
      return
    jax.block_until_ready(earlier)
    if self._running:
      self.close()
    else:
      jax.profiler.start_trace(str(self._folder))
      self._running = True

  def close(self) -> None:
    """Ends a trace that is being written."""
    if self._running:
      self._running = False
      jax.profiler.stop_trace()
      self._log(f'trace of steps {_span(self._steps)}: {self._folder}')


def _span(steps: range) -> str:
  return f'{steps[0]} to {steps[-1]}'
