"""Makes glibc's malloc keep freed memory, which programs on a CPU allocate again at every call.

XLA allocates the intermediate results of a program when it is called. malloc takes blocks of 32 MiB
or more from the system and gives them back when they are freed, so at every call the system clears
their pages again: that was 16 % of a step of cross entropy, see docs/speed.md. Where an accelerator
runs the programs, nothing is changed: there the host's many threads need malloc's arenas.
"""

import ctypes
import mmap
import os
import pathlib

# Parameters of mallopt, from glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
_HUGE_PAGE = 2**21
_SETTINGS = ('GLIBC_TUNABLES', 'MALLOC_')  # environment variables by which users set malloc
# Device files of GPUs by NVIDIA and AMD, also under WSL, and of TPUs.
_ACCELERATORS = ('nvidia[0-9]*', 'kfd', 'dxg', 'accel[0-9]*', 'accel/accel[0-9]*', 'vfio/[0-9]*')


def keep_freed_memory(devices: pathlib.Path = pathlib.Path('/dev')) -> bool:
  """Makes malloc keep what is freed in one heap of huge pages; returns whether it does now.

  It must be called before JAX uses a device, since threads keep the arena that they have. Nothing
  is changed where the user has set malloc by environment variables, malloc is not glibc's, or the
  machine has an accelerator that JAX may use.

  Args:
    devices: the folder of device files.
  """
  is_set = any(name.startswith(_SETTINGS) for name in os.environ)
  if is_set or _may_use_accelerator(devices):
    return False
  libc = ctypes.CDLL(None)
  if not hasattr(libc, 'gnu_get_libc_version') or not hasattr(mmap, 'MADV_HUGEPAGE'):
    return False
  # Only the main arena can hold blocks of any size, and only those outside of it are unmapped.
  options = ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1))
  is_kept = all(libc.mallopt(option, value) for option, value in options)
  _use_huge_pages(libc, os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 2)
  return is_kept


def _may_use_accelerator(devices: pathlib.Path) -> bool:
  """Whether there is a GPU or TPU, and ``JAX_PLATFORMS`` does not leave it out."""
  if os.environ.get('JAX_PLATFORMS', '').lower() == 'cpu':
    return False
  return any(file for name in _ACCELERATORS for file in devices.glob(name))


def _use_huge_pages(libc: ctypes.CDLL, size: int) -> None:
  """Grows the heap by ``size`` bytes that are huge pages once they are used, where that is allowed.

  Memory that is not used yet costs nothing.
  """
  libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
  libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
  libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
  if not (start := libc.malloc(size)):
    return
  aligned = -(-start // _HUGE_PAGE) * _HUGE_PAGE
  libc.madvise(aligned, (start + size - aligned) // _HUGE_PAGE * _HUGE_PAGE, mmap.MADV_HUGEPAGE)
  libc.free(start)
