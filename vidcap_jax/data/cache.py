"""Where the features of a training split are kept: on disk, in memory, or on the devices.

``data.cache`` chooses. Batches are the same bit for bit: a video's features are read, fitted and
padded by the same functions, only earlier.

  none    each row of each batch is read from its record.
  host    all records are read once and kept in memory; of the streams only those the model reads.
  device  all features are read once, padded to the sizes of a batch, and kept on the devices, each
          holding an equal part of the videos. A batch then brings words and the numbers of its
          videos, and the devices exchange the features (one all-to-all).
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from vidcap_jax.data import pipeline
from vidcap_jax.data.batch import default_sizes, empty_batch, fit, put
from vidcap_jax.data.records import Subset, Video, VideoSource
from vidcap_jax.data.schema import Stream
from vidcap_jax.distributed.mesh import block, to_devices
from vidcap_jax.errors import DataError

MODES = ('none', 'host', 'device')


@dataclasses.dataclass(frozen=True)
class Features:
  """How training gets a split's features.

  Attributes:
    source: what rows are read from.
    streams: those that are read with the rows.
    fill: completes a batch on the devices, (B, …), with the streams that are not.
  """

  source: VideoSource
  streams: tuple[Stream, ...]
  fill: Callable[[Mapping], Mapping]


def check_mode(mode: str) -> None:
  """Raises DataError if ``mode`` is none of ``MODES``."""
  if mode not in MODES:
    raise DataError(f'config.data.cache={mode!r} is not known; known: {", ".join(MODES)}')


def keep(
  mode: str,
  source: VideoSource,
  texts: Sequence[Video],
  streams: Sequence[Stream],
  sizes: Mapping[str, Sequence[int]],
  blocks: Mapping[str, int],
  mesh: Mesh,
  threads: int = 2,
) -> Features:
  """Reads the features of a split once, if ``mode`` asks for it.

  Args:
    mode: one of ``MODES``.
    source: the split.
    texts: its videos without features, see ``pipeline.read_texts``.
    streams: those that the model reads.
    sizes, blocks: of a batch, see ``batch.default_sizes``.
    mesh: of all devices.
    threads: to read with.

  Raises:
    DataError: an unknown mode, or more than there is memory for; before anything is read.
  """
  streams = tuple(streams)
  check_mode(mode)
  if mode == 'none':
    return Features(source, streams, lambda batch: batch)
  if mode == 'host':  # whole records, whatever a batch takes of them
    need = bytes_needed(len(source), streams, default_sizes(streams), 1)
  else:
    need = bytes_needed(len(source), streams, sizes, mesh.shape['data'])
  check_memory(mode, need, mesh)
  if mode == 'host':
    names = [stream.name for stream in streams]
    videos = tuple(pipeline.read_each(source, functools.partial(_only, names), threads))
    return Features(videos, streams, lambda batch: batch)
  held = _on_devices(source, streams, sizes, blocks, mesh, threads)
  gather = make_gather(mesh)

  def fill(batch: Mapping) -> Mapping:
    return {**batch, **gather(held, batch['video_index'])}

  return Features(texts, (), fill)


def bytes_needed(
  videos: int, streams: Sequence[Stream], sizes: Mapping[str, Sequence[int]], parts: int
) -> int:
  """Bytes of the fitted and padded features and masks of so many videos, in each equal part."""
  of_one = sum(
    math.prod(sizes[s.name]) * (s.channels * np.dtype(s.dtype).itemsize + 1) for s in streams
  )
  return -(-videos // parts) * of_one


def check_memory(mode: str, need: int, mesh: Mesh) -> None:
  """DataError if less memory is free than a device needs, or this host for its part.

  Args:
    mode: 'host' or 'device'.
    need: bytes, of a device in mode 'device'.
    mesh: of all devices.
  """
  mine = mesh.local_devices
  limits = [device.memory_stats() for device in mine] if mode == 'device' else []
  free, where = _free_on_host(), 'it has'
  if limits and all(limits):
    of_one = min(limit['bytes_limit'] - limit['bytes_in_use'] for limit in limits)
    _compare(mode, need, of_one, 'of its devices each has')
    need *= mesh.shape['data'] // block(mesh)[1]
    where = 'where they are put together first, it has'
  elif mode == 'device':  # CPU devices share the host's memory
    need *= len(mine)
  _compare(mode, need, free, where)


def _compare(mode: str, need: int, free: int, where: str) -> None:
  if need > free:
    other = 'none' if mode == 'host' else 'host or none, or lower data.max_frames'
    raise DataError(
      f'config.data.cache={mode}: the features need {need / 2**30:.2f} GiB, {where} '
      f'{free / 2**30:.2f} GiB free; set data.cache={other}'
    )


def _free_on_host() -> int:
  """Bytes that can be had without swapping."""
  try:
    with open('/proc/meminfo') as file:  # noqa: PTH123  no file on a disk
      lines = dict(line.split(':', 1) for line in file)
    return int(lines['MemAvailable'].split()[0]) * 1024
  except (OSError, KeyError):
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')


def _only(names: Sequence[str], video: Video) -> Video:
  """A video with these streams alone."""
  # Copied: an array is a view of its record, and would keep the other streams in memory.
  kept = {name: video.features[name].copy() for name in names if name in video.features}
  return dataclasses.replace(video, features=kept)


def _on_devices(source, streams, sizes, blocks, mesh, threads) -> Mapping:
  """{'features': {name: (N, …)}, 'masks': …} of a split, padded to N videos, spread by video."""
  parts, (host, hosts) = mesh.shape['data'], block(mesh)
  of_host = -(-len(source) // parts) * parts // hosts
  mine = range(host * of_host, min((host + 1) * of_host, len(source)))
  whole = empty_batch(streams, sizes, of_host, 0, 0)
  held = {part: whole[part] for part in ('features', 'masks')}
  each = functools.partial(fit, streams, sizes, blocks)
  for row, fitted in enumerate(pipeline.read_each(Subset(source, mine), each, threads)):
    put(held, row, streams, fitted)
  return to_devices(held, mesh)


def make_gather(mesh: Mesh) -> Callable[[Mapping, jax.Array], dict]:
  """A jitted function (arrays (N, …) spread by row, rows (B,) spread too) -> arrays (B, …).

  Row -1 is padding and gives zeros. Every device sends each other the rows that it holds of those
  which the other was asked for.
  """
  parts = mesh.shape['data']
  spread = PartitionSpec('data')

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=(spread, spread), out_specs=spread)
  def gather(held, rows):
    wanted = jax.lax.all_gather(rows, 'data')  # (parts, B / parts): what each device asks for

    def exchange(array):  # (N / parts, …)
      mine = wanted - jax.lax.axis_index('data') * len(array)
      # Rows that are elsewhere are sent as some row or other, and not taken there.
      sent = array[jnp.clip(mine, 0, len(array) - 1)]  # (parts, B / parts, …)
      came = jax.lax.all_to_all(sent, 'data', 0, 0)  # by the device that sent it
      holder = jnp.clip(rows // len(array), 0, parts - 1)
      taken = came[holder, jnp.arange(len(rows))]  # (B / parts, …)
      there = (rows >= 0).reshape(-1, *(1,) * (taken.ndim - 1))
      return jnp.where(there, taken, jnp.zeros_like(taken))

    return jax.tree.map(exchange, held)

  return gather
