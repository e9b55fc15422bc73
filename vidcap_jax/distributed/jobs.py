"""Joining the processes of a job, and ending all of them when one fails."""

import contextlib
import os
import re
import socket
import sys
import time
import traceback
from collections.abc import Iterator

import jax

from vidcap_jax.distributed.cluster import JobProcess
from vidcap_jax.distributed.watchdog import Watchdog
from vidcap_jax.errors import UserError

_A_DAY = 24 * 3600


@contextlib.contextmanager
def joined(
  process: JobProcess | None, timeout: float, start_timeout: float, stall_timeout: float = 0.0
) -> Iterator[None]:
  """Joins the job on entry; inside, the devices of all its processes are JAX's devices.

  Enter it before anything asks JAX for its devices. An error inside is not raised: it is printed
  with the process's id, it ends all processes, and this process exits at once, because JAX's exit
  handlers would wait for processes that may be waiting for this one. An error of the runtime, other
  than a lack of memory, ends them only after ``timeout`` seconds: another process that is lost may
  be the cause, and is then reported instead.

  Args:
    process: from ``cluster.find_process``; None, for a single process, does nothing.
    timeout: seconds within which all processes end when one is lost.
    start_timeout: seconds to wait for the other processes to start.
    stall_timeout: seconds that a step may take before the job ends; 0: any time.

  Raises:
    UserError: the processes did not connect.
  """
  if process is None:
    yield
    return
  watchdog = _join(process, timeout, start_timeout, stall_timeout)
  name = f'process {process.process_id} of {process.num_processes}'
  try:
    yield
    # The other processes may end much later: process 0 also scores captions.
    _client().wait_at_barrier('vidcap_jax_end', _A_DAY * 1000)
  except UserError as error:
    _print_error(f'{name}: error: {error}')
    _end(watchdog, 1, f'process {process.process_id} failed: {_first_line(error)}')
  except KeyboardInterrupt:
    _end(watchdog, 130, f'process {process.process_id} was interrupted')
  except BaseException as error:
    if _is_runtime_error(error) and 'RESOURCE_EXHAUSTED' not in str(error):
      # A collective fails when another process is lost; the watchdog then reports that one.
      _print_error(f'{name}: {_first_line(error)}; checking whether another process is lost')
      watchdog.wait_for_lost_process()
    _print_error(f'{name}:\n{traceback.format_exc()}')
    _end(watchdog, 1, f'process {process.process_id} failed: {_first_line(error)}')
  watchdog.stop()
  jax.distributed.shutdown()


def _join(
  process: JobProcess, timeout: float, start_timeout: float, stall_timeout: float
) -> Watchdog:
  if process.process_id:
    _wait_for_coordinator(process, start_timeout)
  # JAX's preemption service would replace our own handler of SIGTERM.
  if hasattr(jax.config, 'jax_enable_preemption_service'):  # since jax 0.8.2
    jax.config.update('jax_enable_preemption_service', False)
  try:
    jax.distributed.initialize(
      process.coordinator_address,
      process.num_processes,
      process.process_id,
      local_device_ids=process.local_device_ids,
      cluster_detection_method='deactivate',
      initialization_timeout=int(start_timeout),
      # The runtime's own heartbeats need no Python thread, but abort without naming a process:
      # they cover a process whose Python threads cannot run.
      heartbeat_timeout_seconds=int(2 * timeout),
    )
  except (RuntimeError, ValueError) as error:
    if not _is_runtime_error(error):  # e.g. the config file has already asked for devices
      raise
    raise _not_connected(process, start_timeout, _first_line(error)) from None
  return Watchdog(_client(), process.process_id, process.num_processes, timeout, stall_timeout)


def _wait_for_coordinator(process: JobProcess, start_timeout: float) -> None:
  """Waits until process 0 listens, since the runtime aborts a process that cannot connect."""
  host, _, port = process.coordinator_address.rpartition(':')
  deadline = time.monotonic() + start_timeout
  while True:
    try:
      socket.create_connection((host.strip('[]'), int(port)), timeout=1.0).close()
      return
    except OSError as error:
      if time.monotonic() > deadline:
        raise _not_connected(process, start_timeout, str(error)) from None
    time.sleep(0.2)


def _not_connected(process: JobProcess, start_timeout: float, reason: str) -> UserError:
  return UserError(
    f'process {process.process_id} of {process.num_processes} could not connect to '
    f'{process.coordinator_address} (address from {process.launcher}) within '
    f'{start_timeout:.0f} s: {reason}; check that process 0 runs there'
  )


def _client():
  """The client of JAX's coordination service, which has no public name."""
  from jax._src import distributed

  return distributed.global_state.client


def _print_error(text: str) -> None:
  with contextlib.suppress(OSError):  # the reader may be gone, e.g. a launcher that was killed
    print(text, file=sys.stderr, flush=True)


def _end(watchdog: Watchdog, code: int, reason: str) -> None:
  for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(OSError, ValueError):
      stream.flush()
  watchdog.announce(code, reason)
  os._exit(code)


def _is_runtime_error(error: BaseException) -> bool:
  """Whether XLA raised the error: it uses several types, with a status code in front."""
  has_status = isinstance(error, (ValueError, RuntimeError)) and re.match('[A-Z_]+: ', str(error))
  return isinstance(error, jax.errors.JaxRuntimeError) or bool(has_status)


def _first_line(error: BaseException) -> str:
  lines = str(error).strip().splitlines() or [type(error).__name__]
  return lines[0][:200]
