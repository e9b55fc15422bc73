"""Which moment of a video each row of its features shows, for studies and their pictures."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from vidcap_jax.data import provenance as data_provenance
from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.features import sampling, video
from vidcap_jax.features.formats import lengths
from vidcap_jax.features.picture_files import FrameFiles, Source


@dataclasses.dataclass(frozen=True)
class FrameTimes:
  """When the rows (T, …) of a stream's features are on screen.

  Attributes:
    seconds: (T,) after the video's first frame.
    how: 'sampled', as the stream's sampling says; 'assumed', rows evenly spaced over the video.
    unit: 'seconds'; 'pictures' where files of frames have no rate, and ``seconds`` counts them.
  """

  seconds: tuple[float, ...]
  how: str
  unit: str = 'seconds'


def times_of(
  provenance: FeatureProvenance, rows: Mapping[str, int], source: Source | None
) -> dict[str, FrameTimes]:
  """The times of a video's rows by stream, as the build of the data set selected them.

  Args:
    provenance: of the streams that a model reads.
    rows: T of each stream in the data set; streams that the video lacks (T = 0) are left out.
    source: the video file or its frames; None: only streams sampled by frames a second have times.
      Of frames without a rate, rows that were sampled by time are taken to be evenly spaced.

  Raises:
    VideoError: not a video that can be opened.
    ModuleNotFoundError: PyAV is not installed.
  """
  if source is None:
    return _without_video(provenance, rows)
  clock = video.clock_of(source)
  streams = (*provenance.streams, *provenance.alignment_streams)
  has_rate = not isinstance(source, FrameFiles) or source.rate is not None
  unit = 'seconds' if has_rate else 'pictures'
  times = {
    stream.name: np.asarray(sampling.sampled_times(stream.sampling, clock))
    for stream in streams
    if stream.sampling and 'hop' not in stream.sampling
    if has_rate or 'fps' not in stream.sampling
  }
  options = data_provenance.options_of(provenance.options, times)
  chosen = (options.get(option, {}) for option in ('align', 'max_frames', 'blocks'))
  selected = lengths.select_frames(times, *chosen)
  found = {}
  for name, count in rows.items():
    if not count:
      continue
    if len(times.get(name, ())):
      exact = len(selected[name]) == count
      seconds = selected[name] if exact else _spread(times[name], count)
      found[name] = FrameTimes(tuple(map(float, seconds)), 'sampled', unit)
    else:
      parts = (np.arange(count) + 0.5) / count * float(clock.length)
      found[name] = FrameTimes(tuple(map(float, parts)), 'assumed', unit)
  return found


def _spread(times: np.ndarray, count: int) -> np.ndarray:
  """Times of ``count`` rows made of frames at ``times``, such as means or changes of frames."""
  positions = (np.arange(count) + 0.5) * len(times) / count - 0.5
  return np.interp(positions, np.arange(len(times)), times)


def _without_video(provenance: FeatureProvenance, rows: Mapping[str, int]) -> dict[str, FrameTimes]:
  """Times of streams sampled by frames a second, none of whose rows a build may have left out."""
  found = {}
  for stream in provenance.streams:
    how, count = stream.sampling or {}, rows.get(stream.name, 0)
    group = data_provenance.aligned_with(provenance.options, {stream.name})
    chosen = data_provenance.options_of(provenance.options, group)
    if 'fps' not in how or not count or {'align', 'max_frames', 'blocks'} & {*chosen}:
      continue
    first, step = 0, 1  # in frames at this rate
    if 'one_in' in how:
      first, step = (how['one_in'] - 1) // 2, how['one_in']
    if 'window' in how:
      first, step = first + step * ((how['window'] - 1) // 2), step * how['stride']
    seconds = tuple((first + step * row) / how['fps'] for row in range(count))
    found[stream.name] = FrameTimes(seconds, 'sampled')
  return found
