r"""Extraction and building on an engine of many machines: Apache Beam, or a Dask cluster.

    python -m data_prep.apache_beam extract --videos=… --output=… -- --runner=FlinkRunner …
    python -m data_prep.apache_beam build --format=… --annotations=… --features=… --output=… -- …
    python -m data_prep.apache_beam extract --engine=dask://HOST:PORT --videos=… --output=…

Flags before ``--`` are those of ``data_prep.extract`` and ``data_prep.build``, flags after it are
Beam's. With ``--engine`` the jobs run on the Dask cluster with that scheduler, without Beam. The
results are equal to those of the two commands, bit for bit, because the same functions run for each
video and each shard; either can resume what the other began. All machines must see the files under
the same paths.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import pathlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence

from data_prep import build, dask_engine, engine_jobs, extract
from data_prep.dataset.builder import ShardBuilder
from data_prep.dataset.options import Options
from data_prep.dataset.writer import ShardPlan
from vidcap_jax import command_errors
from vidcap_jax.errors import UserError, error_text
from vidcap_jax.features import extract_folder
from vidcap_jax.features.picture_files import Source as VideoSource
from vidcap_jax.features.sources import Source
from vidcap_jax.features.stream_folders import VideoResult

_RESULTS = '.beam'  # folder in --output for the pipeline's results, while extraction runs


class BeamError(UserError):
  """Wrong flags for Beam; says which."""


def import_beam():
  """Imports Apache Beam; ModuleNotFoundError says which extra to install."""
  try:
    import apache_beam
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'Apache Beam is not installed: install the extra "beam", pip install \'vidcap_jax[beam]\''
    ) from error
  return apache_beam


def pipeline_options(flags: Sequence[str]):
  """Parses Beam's flags.

  Raises:
    BeamError: a flag that Beam and its runners do not know.
  """
  import_beam()
  from apache_beam.options.pipeline_options import PipelineOptions

  if any('dask' in flag.lower() for flag in flags if flag.startswith('--runner')):
    raise BeamError(
      'after "--": Beam\'s Dask runner runs jobs twice and loses their results; use '
      '--engine=dask://HOST:PORT without Beam instead'
    )
  options = PipelineOptions(list(flags))
  known = options.get_all_options()
  unknown = options.get_all_options(retain_unknown_options=True).keys() - known.keys()
  if unknown:
    raise BeamError(f'after "--": Beam knows no --{", --".join(sorted(unknown))}')
  return options


def run_jobs(flags: Sequence[str], plan: extract_folder.ExtractionPlan) -> extract_folder.Results:
  """Runs an extraction's jobs in a pipeline; yields the results once the pipeline has ended.

  Raises:
    BeamError: the pipeline ended without the results of all videos.
  """
  beam = import_beam()
  options = pipeline_options(flags)
  folder = plan.out / _RESULTS
  shutil.rmtree(folder, ignore_errors=True)
  extract_video = functools.partial(_extract, engine_jobs.extraction_of(plan))
  if plan.jobs:
    with engine_jobs.attempts(plan.out), beam.Pipeline(options=options) as pipeline:
      videos = pipeline | beam.Create([(v, *job) for v, job in plan.jobs.items()])
      lines = videos | beam.Reshuffle() | 'Extract' >> beam.Map(extract_video)
      lines | beam.io.WriteToText(str(folder / 'results'))
  results = {}
  for file in sorted(folder.glob('results*')):
    for line in file.read_text().splitlines():
      video_id, fields = json.loads(line)
      results[video_id] = VideoResult(**{**fields, 'absent': tuple(fields['absent'])})
  yield from results.items()
  shutil.rmtree(folder, ignore_errors=True)
  if lost := [video_id for video_id in plan.jobs if video_id not in results]:
    raise BeamError(
      f'the runner lost the results of {len(lost)} of {len(plan.jobs)} videos ({lost[0]}, …); what '
      'is extracted is kept: run the same command again, with another runner if it recurs'
    )


def _extract(extraction: engine_jobs.Extraction, job: tuple[str, VideoSource, Mapping]) -> str:
  """Extracts one video; returns a line of JSON with its id and result."""
  result = engine_jobs.extract_video(extraction, *job)
  return json.dumps([job[0], dataclasses.asdict(result)])


def build_shards(
  flags: Sequence[str],
  options: Options,
  shards: Sequence[ShardPlan],
  sources: Sequence[Source],
) -> None:
  """Builds shards in a pipeline; each shard leaves its result in the data set's folder."""
  beam = import_beam()
  beam_options = pipeline_options(flags)
  closed_sources = engine_jobs.without_readers(sources)
  jobs = engine_jobs.shard_jobs(shards, sources)

  class Build(beam.DoFn):  # type: ignore[name-defined]
    """Opens the streams once in each worker, and builds shards from them."""

    def setup(self):
      self.sources = engine_jobs.open_sources(closed_sources, options)

    def process(self, job) -> Iterator[str]:
      engine_jobs.build_shard(options, job, self.sources)
      yield job.shard.file

  if jobs:
    with (
      engine_jobs.attempts(pathlib.Path(options.out)),
      beam.Pipeline(options=beam_options) as pipeline,
    ):
      pipeline | beam.Create(jobs) | beam.Reshuffle() | 'Build' >> beam.ParDo(Build())


@contextlib.contextmanager
def _engine(
  engine: str | None, flags: Sequence[str]
) -> Iterator[tuple[extract.JobRunner, ShardBuilder]]:
  """What runs an extraction's jobs and what builds shards: a Dask cluster, or Beam."""
  if engine is None:
    pipeline_options(flags)  # so that wrong flags are reported before any work
    yield functools.partial(run_jobs, flags), functools.partial(build_shards, flags)
  elif flags:
    raise BeamError(f'--engine={engine} is without Beam: leave {flags[0]} out')
  else:
    with dask_engine.connect(engine) as client:
      run_on_cluster = functools.partial(dask_engine.run_jobs, client)
      yield run_on_cluster, functools.partial(dask_engine.build_shards, client)


def _add_engine(parser: argparse.ArgumentParser) -> None:
  parser.add_argument(
    '--engine',
    metavar='dask://HOST:PORT',
    help='scheduler of a Dask cluster on which the jobs run (default: Beam runs them)',
  )


def _print_help(command: str) -> None:
  """Prints the command's own help, with what is different here; Beam need not be installed."""
  parser = extract.make_parser(local=False) if command == 'extract' else build.make_parser()
  parser.prog = f'python -m data_prep.apache_beam {command}'
  parser.epilog = f'{parser.epilog}\n\nFlags of Beam and of its runner come last, after --.'
  _add_engine(parser)
  parser.print_help()


@command_errors.exit_on_closed_pipe()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  command, *rest = list(sys.argv[1:] if argv is None else argv) or ['--help']
  if command not in ('extract', 'build'):
    print(__doc__, file=sys.stdout if command in ('-h', '--help') else sys.stderr)
    return 0 if command in ('-h', '--help') else 2
  cut = rest.index('--') if '--' in rest else len(rest)
  if {'-h', '--help'} & {*rest[:cut]}:
    _print_help(command)
    return 0
  parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
  _add_engine(parser)
  args, own = parser.parse_known_args(rest[:cut])
  try:
    with _engine(args.engine, rest[cut + 1 :]) as (run_elsewhere, shard_builder):
      if command == 'extract':
        return extract.main(own, run_elsewhere)
      return build.main(own, shard_builder)
  except (UserError, ModuleNotFoundError) as error:
    print(f'error: {error_text(error)}', file=sys.stderr)
    return 1


if __name__ == '__main__':
  sys.exit(main())
