"""What the workers of an engine run: one video to extract, or one shard to write.

An engine may run a job a second time while a worker that it believes dead still runs the first. So
each run of a job writes to a folder of its own, and complete files are moved from there to their
place: no file is written by two workers. All runs of a job write the same bytes.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data_prep.dataset import plan, writer
from data_prep.dataset.options import Options
from data_prep.dataset.writer import ShardPlan
from vidcap_jax.features import extractors, networks, stream_folders, weights
from vidcap_jax.features.extract_folder import ExtractionPlan
from vidcap_jax.features.picture_files import Source as VideoSource
from vidcap_jax.features.sources import Source
from vidcap_jax.features.stream_folders import VideoResult

ATTEMPTS = '.attempts'  # folder in --output for the files that workers are writing
_loading = threading.Lock()  # networks and the paths of their weights are global to a process
_loaded: list[tuple] = []  # streams and paths of weights of the networks that are loaded


@contextlib.contextmanager
def attempts(out: pathlib.Path) -> Iterator[None]:
  """Creates the folder for unfinished files, and removes it with what killed workers left."""
  shutil.rmtree(out / ATTEMPTS, ignore_errors=True)
  (out / ATTEMPTS).mkdir(parents=True)
  try:
    yield
  finally:
    shutil.rmtree(out / ATTEMPTS, ignore_errors=True)


@contextlib.contextmanager
def _attempt(out: pathlib.Path) -> Iterator[pathlib.Path]:
  folder = tempfile.TemporaryDirectory(dir=out / ATTEMPTS, ignore_cleanup_errors=True)
  with folder as name:
    yield pathlib.Path(name)


@dataclasses.dataclass(frozen=True)
class Extraction:
  """What all jobs of an extraction share.

  Attributes:
    out: the folder of the streams' folders.
    streams: name -> description, as of ``extractors.check``.
    weights_paths: the files given for networks.
  """

  out: pathlib.Path
  streams: Mapping[str, Mapping]
  weights_paths: Mapping[str, pathlib.Path]


def extraction_of(plan: ExtractionPlan) -> Extraction:
  """What the jobs of a plan share."""
  return Extraction(plan.out, plan.streams, weights.paths())


def extract_video(
  extraction: Extraction, video_id: str, path: VideoSource, streams: Mapping[str, Mapping]
) -> VideoResult:
  """Extracts a video's features, as ``stream_folders.extract_to_files``, within ``attempts``.

  Raises:
    OSError: a file can't be written.
    UserError, ModuleNotFoundError: as of ``extractors.check`` and ``extractors.load``, e.g. for
      other weights on this machine than where the command runs.
  """
  with _loading:
    _load_networks(extraction)
  out = extraction.out
  with _attempt(out) as folder:
    for stream in streams:
      (folder / stream).mkdir()
    result = stream_folders.extract_to_files(folder, video_id, path, streams)
    for stream in streams:
      file = stream_folders.feature_file(folder, stream, video_id)
      if file.is_file():
        file.replace(stream_folders.feature_file(out, stream, video_id))
  return result


def _load_networks(extraction: Extraction) -> None:
  """Loads the networks, unless an earlier job in this process has loaded them."""
  wanted = (extraction.streams, extraction.weights_paths)
  if _loaded == [wanted]:
    return
  _loaded.clear()
  weights.set_paths(extraction.weights_paths)
  networks.load_network.cache_clear()  # they may have been loaded with other weights
  for name, description in extraction.streams.items():
    extractors.check(name, description)
  extractors.load({d['extractor'] for d in extraction.streams.values()})
  _loaded.append(wanted)


@dataclasses.dataclass(frozen=True)
class ShardJob:
  """A shard to write, and for each source the names of its features by video id."""

  shard: ShardPlan
  names: Sequence[Mapping[str, str]]


def shard_jobs(shards: Sequence[ShardPlan], sources: Sequence[Source]) -> list[ShardJob]:
  """A job for each shard, each with the names of its own videos' features only."""
  return [
    ShardJob(
      shard,
      [
        {v.video_id: s.names[v.video_id] for v in shard.videos if v.video_id in s.names}
        for s in sources
      ],
    )
    for shard in shards
  ]


def without_readers(sources: Sequence[Source]) -> list[Source]:
  """The sources in a form that can be sent to a worker."""
  no_reader: Any = None
  return [dataclasses.replace(s, reader=no_reader, names={}) for s in sources]


def open_sources(sources: Sequence[Source], options: Options) -> list[Source]:
  """The sources of ``without_readers`` with readers opened in this process."""

  def open_reader(stream: str):
    return plan.open_reader(stream, options.features[stream], options)

  return [dataclasses.replace(s, reader=open_reader(s.stream.name)) for s in sources]


def build_shard(options: Options, job: ShardJob, sources: Sequence[Source]) -> None:
  """Writes a shard and its state file, leaving out videos with bad features.

  The builder reports the videos that any shard left out as one error.

  Args:
    options: whose ``out`` is within ``attempts``.
    job: of ``shard_jobs``.
    sources: of ``open_sources``.

  Raises:
    OSError: a file can't be read or written.
  """
  out = pathlib.Path(options.out)
  named = [dataclasses.replace(s, names=n) for s, n in zip(sources, job.names, strict=True)]
  with _attempt(out) as folder:
    state = pathlib.Path(writer.STATE_FOLDER, f'{job.shard.file}.json')
    (folder / state).parent.mkdir()
    writer.build_shard(folder, job.shard, named, align=options.align, skip=True)
    for file in (job.shard.file, state):
      (folder / file).replace(out / file)
