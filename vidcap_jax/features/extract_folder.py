"""Extracts features of many videos into a folder, resumably, several videos at a time."""

import concurrent.futures
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Generator, Mapping, Sequence

from vidcap_jax.features import extractors, stream_folders, video, weights
from vidcap_jax.features.stream_folders import Made
from vidcap_jax.features.workers import Died, cores, run
from vidcap_jax.files import write_json
from vidcap_jax.progress import progress

FAILURES = 'failures.json'
POOLS = ('processes', 'threads')
_AHEAD = 2  # videos waiting per thread

# Video id -> (its file, the descriptions of the streams to make).
Jobs = Mapping[str, tuple[pathlib.Path, Mapping[str, Mapping]]]

Results = Generator[tuple[str, Made], None, None]  # What became of each video, by its id.


@dataclasses.dataclass
class Outcome:
  """What a run did: ids extracted now, ids kept from before, and reasons by id.

  ``failed`` videos have no features; ``damaged`` ones have those of the frames that decode;
  ``absent`` names the streams of sound that videos do not have.
  """

  extracted: list[str] = dataclasses.field(default_factory=list)
  kept: list[str] = dataclasses.field(default_factory=list)
  failed: dict[str, str] = dataclasses.field(default_factory=dict)
  damaged: dict[str, str] = dataclasses.field(default_factory=dict)
  absent: dict[str, list[str]] = dataclasses.field(default_factory=dict)

  def add(self, video_id: str, made: Made) -> None:
    """Counts a video that was worked on."""
    if made.failed:
      self.failed[video_id] = made.failed
      return
    self.extracted.append(video_id)
    if made.damaged:
      self.damaged[video_id] = made.damaged
    if made.absent:
      self.absent[video_id] = list(made.absent)

  def keep(self, video_id: str, earlier: Mapping) -> None:
    """Counts a video that has its features from before; what was said of it then still holds."""
    self.kept.append(video_id)
    for mine, theirs in ((self.damaged, 'damaged'), (self.absent, 'absent')):
      if video_id in earlier.get(theirs, {}):
        mine[video_id] = earlier[theirs][video_id]

  def report(self) -> dict:
    """What is kept in failures.json."""
    return {'failed': self.failed, 'damaged': self.damaged, 'absent': self.absent}


@dataclasses.dataclass(frozen=True)
class Work:
  """What is left to do in a folder.

  Attributes:
    out: the folder.
    streams: name -> description, as this program carries it out.
    jobs: by video id.
    outcome: so far, of the videos that have their features.
  """

  out: pathlib.Path
  streams: dict[str, dict]
  jobs: Jobs
  outcome: Outcome

  @property
  def prepare(self) -> Callable[[], None]:
    """Makes the networks ready in whatever process calls it."""
    names = sorted({s['extractor'] for s in self.streams.values()})
    return functools.partial(_load, names, weights.given())


def _load(extractor_names: Sequence[str], given: Mapping[str, pathlib.Path]) -> None:
  weights.give(given)
  extractors.load(extractor_names)


def plan(
  videos: Mapping[str, pathlib.Path], streams: Mapping[str, Mapping], out: str | pathlib.Path
) -> Work:
  """Checks what can be known beforehand, makes the folders and finds what is left to do.

  Raises: as ``extract``.
  """
  out = pathlib.Path(out)
  checked = {name: extractors.check(name, s) for name, s in streams.items()}
  video.import_av()
  stream_folders.prepare(out, checked)
  earlier = stream_folders.read_json(out / FAILURES)
  outcome, jobs = Outcome(), {}
  for video_id, path in videos.items():
    if lacking := stream_folders.lacking(out, checked, video_id):
      jobs[video_id] = (path, lacking)
    else:
      outcome.keep(video_id, earlier)
  return Work(out, checked, jobs, outcome)


def extract(
  videos: Mapping[str, pathlib.Path],
  streams: Mapping[str, Mapping],
  out: str | pathlib.Path,
  workers: int | None = None,
  pool: str = 'threads',
) -> Outcome:
  """Writes ``OUT/STREAM/ID.npy`` (float16) for videos by id; what is there already is kept.

  A file is written whole or not at all. OUT/failures.json names what failed or was damaged.

  Args:
    videos: id -> file.
    streams: name -> description, of ``extractors.describe``.
    out: folder for the streams' folders.
    workers: videos worked on at a time; by default as many as there are cores, at most 8.
    pool: 'threads' of this process, or 'processes' of their own, so that a file on which the
      decoder crashes or memory runs out costs no other.

  Raises:
    stream_folders.FolderError: a stream's folder holds features that were made in another way.
    extractors.ExtractorError: unknown extractor, version or sampling; weights that are not there.
    processes.StartError: a process that ended before it could begin.
    ModuleNotFoundError: PyAV or the network's weights are not installed.
    OSError: the features can't be written.
  """
  work = plan(videos, streams, out)
  return carry_out(work, in_pool(work, workers, pool))


def carry_out(work: Work, made: Results) -> Outcome:
  """Takes the results of planned work as they come, and reports them in OUT/failures.json."""
  try:
    results = stream_folders.stop_on_call_errors(made, lambda result: result.failed)
    for video_id, result in progress(results, len(work.jobs), 'extracting'):
      work.outcome.add(video_id, result)
  finally:
    made.close()
    write_json(work.out / FAILURES, work.outcome.report())
  return work.outcome


def usual_pool() -> str:
  """Processes, but threads where there is an accelerator, which is one process's alone."""
  import jax

  return 'processes' if jax.default_backend() == 'cpu' else 'threads'


def in_pool(work: Work, workers: int | None, pool: str) -> Results:
  """Does planned work on this machine; arguments as of ``extract``."""
  workers = workers or min(8, len(cores()))
  return _in_processes(work, workers) if pool == 'processes' else _in_threads(work, workers)


def _in_threads(work: Work, workers: int) -> Results:
  if work.jobs:
    work.prepare()
  waiting: list[tuple[str, concurrent.futures.Future[Made]]] = []
  with concurrent.futures.ThreadPoolExecutor(workers) as executor:
    try:
      for video_id, (path, streams) in work.jobs.items():
        job = executor.submit(stream_folders.make, work.out, video_id, path, streams)
        waiting.append((video_id, job))
        if len(waiting) >= workers * _AHEAD:
          done, job = waiting.pop(0)
          yield done, job.result()
      for done, job in waiting:
        yield done, job.result()
    finally:
      executor.shutdown(wait=False, cancel_futures=True)


def _in_processes(work: Work, workers: int) -> Results:
  jobs = ((v, (work.out, v, path, streams)) for v, (path, streams) in work.jobs.items())
  for video_id, result in run(stream_folders.make, jobs, workers, work.prepare):
    if isinstance(result, Died):
      result = Made(failed=f'{work.jobs[video_id][0]}: {result}')
    yield video_id, result


def summary(outcome: Outcome, out: str | pathlib.Path) -> str:
  """What a run did, for people."""
  lines = [f'{video_id}: FAILED: {why}' for video_id, why in outcome.failed.items()]
  lines += [f'{video_id}: damaged: {why}' for video_id, why in outcome.damaged.items()]
  counts = f'{len(outcome.extracted)} videos extracted'
  if outcome.kept:
    counts += f', {len(outcome.kept)} kept from before'
  counts += f', {len(outcome.damaged)} damaged in part, {len(outcome.failed)} failed'
  if outcome.absent:
    counts += f', {len(outcome.absent)} without sound'
  noted = any(outcome.report().values())
  named = f'; named in {pathlib.Path(out) / FAILURES}' if noted else ''
  return '\n'.join([*lines, counts + named])
