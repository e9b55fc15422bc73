"""The hardware that a run trains on, in words, for its records."""

import collections
import os
import pathlib
import platform
import re

import jax

from vidcap_jax.counts import counted


def describe_hardware() -> str:
  """Number and kind of all devices of the job, such as ``8 x TPU v5 lite``.

  Of CPUs the processor and the cores that this process may use: ``2 cores, AMD EPYC 7B13``.
  """
  devices = jax.devices()
  if devices[0].platform == 'cpu':
    hosts = jax.process_count()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    text = f'{counted(cores or 1, "core")}, {_processor()}'
    return f'{hosts} x ({text})' if hosts > 1 else text
  kinds = collections.Counter(device.device_kind for device in devices)
  return ', '.join(f'{count} x {kind}' for kind, count in kinds.items())


def _processor(cpuinfo: str = '/proc/cpuinfo') -> str:
  """The processor's name, from Linux or else as Python knows it."""
  path = pathlib.Path(cpuinfo)
  found = re.search(r'^model name\s*:\s*(.+)$', path.read_text() if path.is_file() else '', re.M)
  return ' '.join(found[1].split()) if found else platform.processor() or platform.machine()
