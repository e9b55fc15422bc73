"""Several processes as one job: how they come together, and how they end together."""

import contextlib
import os
import re
import socket
import sys
import time
import traceback
from collections.abc import Iterator

import jax

from vidcap_jax.distributed.cluster import Place
from vidcap_jax.distributed.watchdog import Watchdog
from vidcap_jax.errors import UserError

_A_DAY = 24 * 3600


@contextlib.contextmanager
def joined(place: Place | None, timeout: float, start_timeout: float) -> Iterator[None]:
  """Within it the processes of a job share their devices; nothing is done for a lone one.

  To be entered before anything asks JAX for its devices. An error inside is printed with the
  process's index and ends all processes; none is raised, and this one exits at once: what it would
  do at exit waits for the others, who may be waiting for it. Only the runtime's errors, but for a
  lack of memory, are held back for ``timeout`` seconds: the loss of another may be behind them.

  Args:
    place: from ``cluster.find``.
    timeout: seconds within which all end when one is lost.
    start_timeout: seconds to wait for the others at first.

  Raises:
    UserError: they did not come together.
  """
  if place is None:
    yield
    return
  watchdog = _join(place, timeout, start_timeout)
  who = f'process {place.index} of {place.count}'
  try:
    yield
    # One may be done long before another, which still scores captions.
    _client().wait_at_barrier('vidcap_jax_end', _A_DAY * 1000)
  except UserError as error:
    _tell(f'{who}: error: {error}')
    _end(watchdog, 1, f'process {place.index} failed: {_first_line(error)}')
  except KeyboardInterrupt:
    _end(watchdog, 130, f'process {place.index} was interrupted')
  except BaseException as error:
    if _of_runtime(error) and 'RESOURCE_EXHAUSTED' not in str(error):  # memory is one's own
      # A collective fails when a peer is gone, and that is what there is to tell.
      _tell(f'{who}: {_first_line(error)}; looking whether another process is lost')
      watchdog.wait_for_verdict()
    _tell(f'{who}:\n{traceback.format_exc()}')
    _end(watchdog, 1, f'process {place.index} failed: {_first_line(error)}')
  watchdog.stop()
  jax.distributed.shutdown()


def _join(place: Place, timeout: float, start_timeout: float) -> Watchdog:
  if place.index:
    _wait_for_main(place, start_timeout)
  # Its notifier takes SIGTERM from everything else; `loop.StopSignal` is what we want instead.
  if hasattr(jax.config, 'jax_enable_preemption_service'):  # since jax 0.8.2
    jax.config.update('jax_enable_preemption_service', False)
  try:
    jax.distributed.initialize(
      place.coordinator,
      place.count,
      place.index,
      local_device_ids=place.local_devices,
      cluster_detection_method='deactivate',
      initialization_timeout=int(start_timeout),
      # The runtime's own watch needs no Python thread, names no process and aborts (134): it is
      # there for a process in which no thread gets to run.
      heartbeat_timeout_seconds=int(2 * timeout),
    )
  except (RuntimeError, ValueError) as error:
    if not _of_runtime(error):  # e.g. a config file that has asked for devices already
      raise
    raise UserError(
      f'process {place.index} of {place.count} did not find the others at {place.coordinator} '
      f'within {start_timeout:.0f} s, as {place.kind} had it: {_first_line(error)}'
    ) from None
  return Watchdog(_client(), place.index, place.count, timeout)


def _wait_for_main(place: Place, start_timeout: float) -> None:
  """Returns once process 0 listens: the runtime aborts a process that waits for it in vain."""
  host, _, port = place.coordinator.rpartition(':')
  deadline = time.monotonic() + start_timeout
  while True:
    try:
      socket.create_connection((host.strip('[]'), int(port)), timeout=1.0).close()
      return
    except OSError as error:
      if time.monotonic() > deadline:
        raise UserError(
          f'process {place.index} of {place.count} did not find the others at {place.coordinator} '
          f'within {start_timeout:.0f} s, as {place.kind} had it: {error}'
        ) from None
    time.sleep(0.2)


def _client():
  """The coordination service's client, for which JAX has no public name."""
  from jax._src import distributed

  return distributed.global_state.client


def _tell(text: str) -> None:
  with contextlib.suppress(OSError):  # whoever read it may be gone, as a launcher that was killed
    print(text, file=sys.stderr, flush=True)


def _end(watchdog: Watchdog, code: int, reason: str) -> None:
  for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(OSError, ValueError):
      stream.flush()
  watchdog.announce(code, reason)
  os._exit(code)


def _of_runtime(error: BaseException) -> bool:
  """Whether XLA raised it: under several types, a status code in front."""
  of_python = isinstance(error, (ValueError, RuntimeError)) and re.match('[A-Z_]+: ', str(error))
  return isinstance(error, jax.errors.JaxRuntimeError) or bool(of_python)


def _first_line(error: BaseException) -> str:
  lines = str(error).strip().splitlines() or [type(error).__name__]
  return lines[0][:200]
