"""Extracts features of many videos into a folder, resumably, several videos at a time."""

import concurrent.futures
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Generator, Mapping, Sequence

from vidcap_jax.counts import counted
from vidcap_jax.failures import FailureLog
from vidcap_jax.features import extractors, picture_files, stream_folders, video_decoder, weights
from vidcap_jax.features.picture_files import FrameFiles, Source
from vidcap_jax.features.stream_folders import VideoResult
from vidcap_jax.features.workers import Died, cores, run
from vidcap_jax.files import write_json
from vidcap_jax.progress import progress

FAILURES = 'failures.json'
POOLS = ('processes', 'threads')
_QUEUED_PER_THREAD = 2  # videos submitted ahead

# Video id -> (its file or files, the descriptions of the streams to make).
Jobs = Mapping[str, tuple[Source, Mapping[str, Mapping]]]

Results = Generator[tuple[str, VideoResult], None, None]  # (video id, result), when it is done


@dataclasses.dataclass
class Outcome:
  """What a run did.

  Attributes:
    extracted: ids of videos extracted in this run.
    reused: ids of videos that had their features before.
    failed: id -> why the video has no features.
    damaged: id -> what is wrong with a video whose features are those of the frames that decode.
    absent: id -> sound streams that the video does not have.
  """

  extracted: list[str] = dataclasses.field(default_factory=list)
  reused: list[str] = dataclasses.field(default_factory=list)
  failed: dict[str, str] = dataclasses.field(default_factory=dict)
  damaged: dict[str, str] = dataclasses.field(default_factory=dict)
  absent: dict[str, list[str]] = dataclasses.field(default_factory=dict)

  def add(self, video_id: str, result: VideoResult) -> None:
    """Adds the result of a video extracted in this run."""
    if result.failed:
      self.failed[video_id] = result.failed
      return
    self.extracted.append(video_id)
    if result.damaged:
      self.damaged[video_id] = result.damaged
    if result.absent:
      self.absent[video_id] = list(result.absent)

  def reuse(self, video_id: str, earlier_report: Mapping) -> None:
    """Adds a video that has its features, with what the earlier run reported of it."""
    self.reused.append(video_id)
    reports: dict[str, dict] = {'damaged': self.damaged, 'absent': self.absent}
    for key, report in reports.items():
      if video_id in earlier_report.get(key, {}):
        report[video_id] = earlier_report[key][video_id]

  def report(self) -> dict:
    """The contents of failures.json."""
    return {'failed': self.failed, 'damaged': self.damaged, 'absent': self.absent}


@dataclasses.dataclass(frozen=True)
class ExtractionPlan:
  """What a run has to extract.

  Attributes:
    out: the folder to write.
    streams: name -> description, as of ``extractors.check``.
    jobs: for the videos that lack features.
    outcome: of the videos that have all features; ``collect`` adds the others.
  """

  out: pathlib.Path
  streams: dict[str, dict]
  jobs: Jobs
  outcome: Outcome

  @property
  def load_networks(self) -> Callable[[], None]:
    """Loads the networks in the process that calls it, which may be another one."""
    names = sorted({s['extractor'] for s in self.streams.values()})
    return functools.partial(_load_networks, names, weights.paths())


def _load_networks(extractor_names: Sequence[str], paths: Mapping[str, pathlib.Path]) -> None:
  weights.set_paths(paths)
  extractors.load(extractor_names)


def plan_extraction(
  videos: Mapping[str, Source], streams: Mapping[str, Mapping], out: str | pathlib.Path
) -> ExtractionPlan:
  """Checks the arguments, creates the streams' folders and finds which features are missing.

  Raises: as ``extract``.
  """
  out = pathlib.Path(out)
  checked = {name: extractors.check(name, s) for name, s in streams.items()}
  video_decoder.import_av()
  sources = videos.values()
  if any(picture_files.frames_of(source) for source in sources):
    picture_files.import_pillow()
  picture_files.check_frame_rate(sources, checked)
  rate = next((s.rate for s in sources if isinstance(s, FrameFiles) and s.rate), None)
  stream_folders.prepare_folders(out, checked, rate)
  earlier_report = stream_folders.read_json(out / FAILURES)
  outcome, jobs = Outcome(), {}
  for video_id, path in videos.items():
    if missing := stream_folders.missing_streams(out, checked, video_id):
      jobs[video_id] = (path, missing)
    else:
      outcome.reuse(video_id, earlier_report)
  return ExtractionPlan(out, checked, jobs, outcome)


def extract(
  videos: Mapping[str, Source],
  streams: Mapping[str, Mapping],
  out: str | pathlib.Path,
  workers: int | None = None,
  pool: str = 'threads',
) -> Outcome:
  """Writes ``OUT/STREAM/ID.npy`` (float16) for each video and stream that has no such file.

  Each file is written whole or not at all. OUT/failures.json lists failed and damaged videos.

  Args:
    videos: id -> file, or the files of its frames.
    streams: name -> description, of ``extractors.describe``.
    out: folder for the streams' folders.
    workers: number of videos to extract at a time; by default one for each core, at most 8.
    pool: 'threads' of this process; or 'processes', so that only one video fails if the decoder
      crashes on it, or memory runs out.

  Raises:
    stream_folders.FolderError: a stream's folder holds features that were made in another way.
    extractors.ExtractorError: unknown extractor, version or sampling; missing weights.
    workers.StartError: a process ended before its first video.
    DataError: files of frames without a frame rate, for a stream that samples by time.
    ModuleNotFoundError: PyAV, Pillow or the network's weights are not installed.
    OSError: the features can't be written.
  """
  plan = plan_extraction(videos, streams, out)
  return collect(plan, run_jobs(plan, workers, pool))


def collect(plan: ExtractionPlan, results: Results) -> Outcome:
  """Adds the results of a plan's jobs to its outcome, and writes OUT/failures.json."""
  try:
    checked = stream_folders.stop_on_call_errors(results, lambda result: result.failed)
    for video_id, result in progress(checked, len(plan.jobs), 'extracting'):
      plan.outcome.add(video_id, result)
  finally:
    results.close()
    write_json(plan.out / FAILURES, plan.outcome.report())
  return plan.outcome


def default_pool() -> str:
  """Processes on CPUs; threads with an accelerator, which only one process can use."""
  import jax

  return 'processes' if jax.default_backend() == 'cpu' else 'threads'


def run_jobs(plan: ExtractionPlan, workers: int | None, pool: str) -> Results:
  """Runs a plan's jobs on this machine; arguments as of ``extract``."""
  workers = workers or min(8, len(cores()))
  return _in_processes(plan, workers) if pool == 'processes' else _in_threads(plan, workers)


def _in_threads(plan: ExtractionPlan, workers: int) -> Results:
  if plan.jobs:
    plan.load_networks()
  queue: list[tuple[str, concurrent.futures.Future[VideoResult]]] = []
  with concurrent.futures.ThreadPoolExecutor(workers) as executor:
    try:
      for video_id, (path, streams) in plan.jobs.items():
        job = executor.submit(stream_folders.extract_to_files, plan.out, video_id, path, streams)
        queue.append((video_id, job))
        if len(queue) >= workers * _QUEUED_PER_THREAD:
          first_id, job = queue.pop(0)
          yield first_id, job.result()
      for video_id, job in queue:
        yield video_id, job.result()
    finally:
      executor.shutdown(wait=False, cancel_futures=True)


def _in_processes(plan: ExtractionPlan, workers: int) -> Results:
  jobs = ((v, (plan.out, v, path, streams)) for v, (path, streams) in plan.jobs.items())
  for video_id, result in run(stream_folders.extract_to_files, jobs, workers, plan.load_networks):
    if isinstance(result, Died):
      result = VideoResult(failed=f'{plan.jobs[video_id][0]}: {result}')
    yield video_id, result


def summary(outcome: Outcome, out: str | pathlib.Path) -> str:
  """What a run did, as lines of text."""
  lines: list[str] = []
  failures = FailureLog(lines.append)
  for video_id, why in outcome.failed.items():
    failures.fail(video_id, why, f'{video_id}: FAILED: {why}')
  failures.close()
  lines += [f'{video_id}: damaged: {why}' for video_id, why in outcome.damaged.items()]
  counts = f'{counted(len(outcome.extracted), "video")} extracted'
  if outcome.reused:
    counts += f', {len(outcome.reused)} kept from before'
  counts += f', {len(outcome.damaged)} damaged in part, {len(outcome.failed)} failed'
  if outcome.absent:
    counts += f', {len(outcome.absent)} without sound'
  if any(outcome.report().values()):
    counts += f'; see {pathlib.Path(out) / FAILURES}'
  return '\n'.join([*lines, counts])
