"""Freed memory is kept on CPUs, for threads too, unless the user has set malloc otherwise."""

import ctypes
import os
import subprocess
import sys

import pytest

from tests.versions import ROOT
from vidcap_jax.distributed import allocator

pytestmark = pytest.mark.skipif(
  not hasattr(ctypes.CDLL(None), 'gnu_get_libc_version'), reason='malloc is not that of glibc'
)

# Allocates, fills and frees 64 MiB four times in a thread, and prints the pages that the system had
# to map in the last round.
PROGRAM = """
import ctypes, pathlib, resource, threading
import numpy
from vidcap_jax.distributed import allocator

is_kept = allocator.keep_freed_memory(pathlib.Path('/dev/null'))
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
counts = []

def allocate():
  for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = libc.malloc(2**26)
    ctypes.memset(block, 1, 2**26)
    libc.free(block)
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

thread = threading.Thread(target=allocate)
thread.start()
thread.join()
print(is_kept, counts[-1])
"""


def run(**settings: str) -> tuple[bool, int]:
  clean = {k: v for k, v in os.environ.items() if not k.startswith(('GLIBC_', 'MALLOC_'))}
  environment = {**clean, 'PYTHONPATH': str(ROOT), **settings}
  command = [sys.executable, '-c', PROGRAM]
  done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
  is_kept, pages = done.stdout.split()
  return is_kept == 'True', int(pages)


def test_freed_memory_is_used_again_without_new_pages():
  is_kept, pages = run()
  assert is_kept
  assert pages < 16


def test_settings_of_the_user_stand():
  is_kept, pages = run(MALLOC_TRIM_THRESHOLD_='131072')
  assert not is_kept
  assert pages >= 32  # at least one for each 2 MiB


@pytest.mark.parametrize('file', ['nvidia0', 'accel3', 'vfio/2', 'kfd'])
def test_nothing_changes_with_an_accelerator(tmp_path, monkeypatch, file):
  (tmp_path / file).parent.mkdir(exist_ok=True)
  (tmp_path / file).touch()
  for name in [name for name in os.environ if name.startswith(('GLIBC_', 'MALLOC_'))]:
    monkeypatch.delenv(name)
  monkeypatch.setattr(allocator, '_use_huge_pages', lambda *_: pytest.fail('the heap has grown'))
  monkeypatch.delenv('JAX_PLATFORMS', raising=False)
  assert not allocator.keep_freed_memory(tmp_path)
  monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
  assert not allocator._may_use_accelerator(tmp_path)
