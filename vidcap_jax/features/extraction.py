"""Extracts the features of all streams from a video file, in one pass over the file."""

from collections import deque
from collections.abc import Mapping

import numpy as np

from vidcap_jax.features import extractors, networks, video
from vidcap_jax.features.networks import Forward, Network
from vidcap_jax.features.picture_files import Source

Outputs = dict[str, np.ndarray]


def extract_video(
  path: str | Source,
  streams: Mapping[str, Mapping],
  notes: list[str] | None = None,
) -> dict[str, np.ndarray]:
  """Extracts the features of one video file.

  Args:
    path: the file, or the files of the frames.
    streams: name -> description as of ``extractors.describe`` (or a manifest's streams as
      dicts).
    notes: a line is added for a partly damaged file; see ``video.read``.

  Returns:
    name -> float32 array, axes by kind as in ``schema.KINDS``. A sound stream has T = 0 if the
    video has no sound.

  Raises:
    ExtractorError: a stream that can't be reproduced.
    VideoError: no frame can be decoded.
    ModuleNotFoundError: PyAV or a package with weights is not installed.
  """
  checked = {name: extractors.check(name, description) for name, description in streams.items()}
  # Streams with the same network and sampling share a pass through the network.
  passes: dict[tuple, list[str]] = {}
  for name, description in checked.items():
    network = extractors.get(description['extractor']).network
    passes.setdefault((network, *description['sampling'].items()), []).append(name)
  readers = {}
  for key, names in passes.items():
    used = [extractors.get(checked[name]['extractor']) for name in names]
    wanted = tuple(sorted({output for extractor in used for output in extractor.outputs}))
    readers[key] = _reader(key[0], wanted, checked[names[0]]['sampling'])

  lines: list[str] = []
  for key, given in video.read(path, {k: r.wants for k, r in readers.items()}, lines):
    readers[key].add(given.image if isinstance(given, video.Frame) else given)
  result = {}
  for key, names in passes.items():
    outputs = readers[key].finish(lines, path)
    for name in names:
      extractor = extractors.get(checked[name]['extractor'])
      if outputs is None:
        shape = (0 if n is None else n for n in extractor.shape[1:])
        result[name] = np.zeros((0, *shape), np.float32)
      else:
        result[name] = extractor.finish(*(outputs[o] for o in extractor.outputs))
  if notes is not None:
    notes.extend(dict.fromkeys(lines))
  return {name: result[name] for name in streams}


class _Batches:
  """Collects single inputs into batches for a network, and its outputs."""

  def __init__(self, network: Network, forward: Forward, wanted: tuple[str, ...]):
    self._size, self._forward, self._wanted = network.batch, forward, wanted
    self._batch: np.ndarray | None = None
    self._filled = 0
    self._parts: dict[str, list[np.ndarray]] = {output: [] for output in wanted}

  def add(self, item: np.ndarray) -> None:
    if self._batch is None:
      self._batch = np.zeros((self._size, *item.shape), item.dtype)
    self._batch[self._filled] = item
    self._filled += 1
    if self._filled == self._size:
      self._flush()

  def _flush(self) -> None:
    assert self._batch is not None
    self._batch[self._filled :] = 0
    # A video shorter than a batch, such as a picture, would spend most of the time on padding. Even
    # sizes need fewer programs; for the rest of a longer video another program is not worth it.
    size = self._size
    if not any(self._parts.values()):
      size = 1 if self._filled == 1 else min(size, self._filled + self._filled % 2)
    for output, array in self._forward(self._batch[:size], self._wanted).items():
      self._parts[output].append(np.array(array[: self._filled], np.float32))
    self._filled = 0

  def outputs(self) -> Outputs | None:
    """The network's outputs for all inputs, (T, …) each; None if there were no inputs."""
    if self._filled:
      self._flush()
    if self._batch is None:
      return None
    return {output: np.concatenate(arrays) for output, arrays in self._parts.items()}


class _Frames:
  """Runs a network on single frames."""

  def __init__(self, network: Network, how: Mapping, batches: _Batches):
    self.wants: video.Pictures | video.Sound = video.Pictures(
      how, network.size, network.scale, stretch=network.stretch
    )
    self._batches = batches

  def add(self, image: np.ndarray) -> None:
    self._batches.add(image)

  def finish(self, lines: list[str], path) -> Outputs | None:
    return self._batches.outputs()


class _Windows(_Frames):
  """Runs a network on windows of frames."""

  def __init__(self, network: Network, how: Mapping, batches: _Batches):
    super().__init__(network, how, batches)
    self._length, self._stride = how['window'], how['stride']
    self._recent: deque[np.ndarray] = deque(maxlen=self._length)
    self._count = 0

  def add(self, image: np.ndarray) -> None:
    self._recent.append(image)
    self._count += 1
    begin = self._count - self._length
    if begin >= 0 and begin % self._stride == 0:
      self._batches.add(np.stack(self._recent))

  def finish(self, lines: list[str], path) -> Outputs | None:
    if 0 < self._count < self._length:
      repeated = [self._recent[-1]] * (self._length - self._count)
      self._batches.add(np.stack([*self._recent, *repeated]))
    return self._batches.outputs()


class _Segments:
  """Runs a network on segments of sound."""

  def __init__(self, network: Network, how: Mapping, batches: _Batches):
    self.wants: video.Pictures | video.Sound = video.Sound(network.rate)
    assert network.size is not None
    self._size, self._hop = network.size, max(1, round(how['hop'] * network.rate))
    self._rate, self._batches = network.rate, batches
    self._pending = np.zeros(0, np.float32)  # samples from the start of the next segment
    self._to_skip = 0  # samples before the next segment that have not been added yet
    self._total = 0  # samples added

  def add(self, samples: np.ndarray) -> None:
    self._total += len(samples)
    skipped = min(self._to_skip, len(samples))
    self._to_skip -= skipped
    pending = np.concatenate([self._pending, samples[skipped:]])
    while len(pending) >= self._size:
      self._batches.add(pending[: self._size])
      self._to_skip += max(0, self._hop - len(pending))
      pending = pending[self._hop :]
    self._pending = pending

  def finish(self, lines: list[str], path) -> Outputs | None:
    if 0 < self._total < self._size:
      seconds, needed = self._total / self._rate, self._size / self._rate
      lines.append(
        f'{path}: {seconds:.2f} seconds of sound, at least {needed:.2f} are needed; treated as a '
        'video without sound'
      )
    return self._batches.outputs()


def _reader(name: str, wanted: tuple[str, ...], how: Mapping) -> _Frames | _Segments:
  network = networks.NETWORKS[name]
  batches = _Batches(network, networks.load_network(name), wanted)
  if network.reads == 'audio':
    return _Segments(network, how, batches)
  return (_Windows if network.reads == 'windows' else _Frames)(network, how, batches)
