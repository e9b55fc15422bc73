"""Caches the features of a training split in host memory or on the devices (``data.cache``).

Batches are the same bit for bit: a video's features are read, fitted and padded by the same
functions, only earlier.

  none    no cache: each row of each batch is read from its record.
  host    all records are read once into memory, with only the streams that the model reads.
  device  all features are read once, padded to the sizes of a batch, and sharded over the devices
          by video. A batch from the host then holds only captions and the indices of its videos,
          and the devices exchange the features (one all-to-all).
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
from vidcap_jax.data.batch import default_sizes, empty_batch, fill_row, fit
from vidcap_jax.data.records import Subset, Video, VideoSource
from vidcap_jax.data.schema import Stream
from vidcap_jax.distributed.mesh import block, to_devices
from vidcap_jax.errors import DataError

MODES = ('none', 'host', 'device')


@dataclasses.dataclass(frozen=True)
class Features:
  """How training gets a split's features.

  Attributes:
    source: the videos that rows are read from.
    streams: the streams that are read with the rows.
    fill: adds the other streams to a batch (B, …) that is on the devices.
  """

  source: VideoSource
  streams: tuple[Stream, ...]
  fill: Callable[[Mapping], Mapping]


def check_mode(mode: str) -> None:
  """Raises DataError unless ``mode`` is one of ``MODES``."""
  if mode not in MODES:
    raise DataError(f'config.data.cache={mode!r} is not known; known: {", ".join(MODES)}')


def load_features(
  mode: str,
  source: VideoSource,
  texts: Sequence[Video],
  streams: Sequence[Stream],
  sizes: Mapping[str, Sequence[int]],
  blocks: Mapping[str, int],
  mesh: Mesh,
  threads: int = 2,
) -> Features:
  """Fills the cache of a split's features, unless ``mode`` is 'none'.

  Args:
    mode: one of ``MODES``.
    source: the split.
    texts: its videos without features, see ``pipeline.read_texts``.
    streams: the streams that the model reads.
    sizes, blocks: of a batch, see ``batch.default_sizes``.
    mesh: of all devices.
    threads: number of threads that read.

  Raises:
    DataError: an unknown mode, or too little memory; raised before anything is read.
  """
  streams = tuple(streams)
  check_mode(mode)
  if mode == 'none':
    return Features(source, streams, lambda batch: batch)
  if mode == 'host':  # whole records, also frames and regions that batches leave out
    need = bytes_needed(len(source), streams, default_sizes(streams), 1)
  else:
    need = bytes_needed(len(source), streams, sizes, mesh.shape['data'])
  check_memory(mode, need, mesh)
  if mode == 'host':
    names = [stream.name for stream in streams]
    videos = tuple(pipeline.read_each(source, functools.partial(_select_streams, names), threads))
    return Features(videos, streams, lambda batch: batch)
  cached = _load_on_devices(source, streams, sizes, blocks, mesh, threads)
  gather = make_gather(mesh)

  def fill(batch: Mapping) -> Mapping:
    return {**batch, **gather(cached, batch['video_index'])}

  return Features(texts, (), fill)


def bytes_needed(
  videos: int, streams: Sequence[Stream], sizes: Mapping[str, Sequence[int]], parts: int
) -> int:
  """Bytes of the padded features and masks of each part, if so many videos are split evenly."""
  bytes_per_video = sum(
    math.prod(sizes[s.name]) * (s.channels * np.dtype(s.dtype).itemsize + 1) for s in streams
  )
  return -(-videos // parts) * bytes_per_video


def check_memory(mode: str, need: int, mesh: Mesh) -> None:
  """Raises DataError if this host or one of its devices has too little free memory.

  Args:
    mode: 'host' or 'device'.
    need: bytes in all, or on each device in mode 'device'.
    mesh: of all devices.
  """
  devices = mesh.local_devices
  limits = [device.memory_stats() for device in devices] if mode == 'device' else []
  free, where = _free_on_host(), 'the host has'
  if limits and all(limits):
    free_on_device = min(limit['bytes_limit'] - limit['bytes_in_use'] for limit in limits)
    _compare(mode, need, free_on_device, 'each device has')
    need *= mesh.shape['data'] // block(mesh)[1]
    where = 'in host memory first, which has'
  elif mode == 'device':  # CPU devices share the host's memory
    need *= len(devices)
  _compare(mode, need, free, where)


def _compare(mode: str, need: int, free: int, where: str) -> None:
  """Raises DataError if ``need`` bytes are more than the ``free`` ones."""
  if need > free:
    other = 'none' if mode == 'host' else 'host or none, or lower data.max_frames'
    raise DataError(
      f'config.data.cache={mode}: the features need {need / 2**30:.2f} GiB, {where} '
      f'{free / 2**30:.2f} GiB free; set data.cache={other}'
    )


def _free_on_host() -> int:
  """Bytes of host memory that can be allocated without swapping."""
  try:
    with open('/proc/meminfo') as file:  # noqa: PTH123  not a file on a disk
      lines = dict(line.split(':', 1) for line in file)
    return int(lines['MemAvailable'].split()[0]) * 1024
  except (OSError, KeyError):
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')


def _select_streams(names: Sequence[str], video: Video) -> Video:
  """A video with only the named streams."""
  # Arrays are views of the whole record: a copy lets the memory of the other streams go.
  features = {name: video.features[name].copy() for name in names if name in video.features}
  return dataclasses.replace(video, features=features)


def _load_on_devices(source, streams, sizes, blocks, mesh, threads) -> Mapping:
  """{'features': {name: (N, …)}, 'masks': …} of a split, padded to N videos, sharded by video."""
  parts, (host, hosts) = mesh.shape['data'], block(mesh)
  videos_per_host = -(-len(source) // parts) * parts // hosts
  start = host * videos_per_host
  videos = Subset(source, range(start, min(start + videos_per_host, len(source))))
  batch = empty_batch(streams, sizes, videos_per_host, 0, 0)
  arrays = {part: batch[part] for part in ('features', 'masks')}
  fit_video = functools.partial(fit, streams, sizes, blocks)
  for row, features in enumerate(pipeline.read_each(videos, fit_video, threads)):
    fill_row(arrays, row, streams, features)
  return to_devices(arrays, mesh)


def make_gather(mesh: Mesh) -> Callable[[Mapping, jax.Array], dict]:
  """Returns a jitted function (arrays (N, …), rows (B,)) -> arrays (B, …), all sharded by row.

  Row -1 is padding and gives zeros. Every device sends to each other device those of its rows that
  the other one's part of the batch needs.
  """
  parts = mesh.shape['data']
  by_row = PartitionSpec('data')

  @jax.jit
  @functools.partial(jax.shard_map, mesh=mesh, in_specs=(by_row, by_row), out_specs=by_row)
  def gather(arrays, rows):
    wanted = jax.lax.all_gather(rows, 'data')  # (parts, B / parts): the rows each device needs

    def exchange(array):  # (N / parts, …)
      local = wanted - jax.lax.axis_index('data') * len(array)
      # For rows that this device doesn't hold it sends any row, which the receiver ignores.
      sent = array[jnp.clip(local, 0, len(array) - 1)]  # (parts, B / parts, …)
      received = jax.lax.all_to_all(sent, 'data', 0, 0)  # (parts, B / parts, …) by sender
      sender = jnp.clip(rows // len(array), 0, parts - 1)
      taken = received[sender, jnp.arange(len(rows))]  # (B / parts, …)
      is_video = (rows >= 0).reshape(-1, *(1,) * (taken.ndim - 1))
      return jnp.where(is_video, taken, jnp.zeros_like(taken))

    return jax.tree.map(exchange, arrays)

  return gather
