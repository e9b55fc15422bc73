r"""Extraction and building by Apache Beam, on one machine or on an engine of many.

    python -m data_prep.apache_beam extract --videos=… --streams=… --out=… -- --runner=FlinkRunner …
    python -m data_prep.apache_beam build --format=… --annotations=… --features=… --out=… -- …

Flags before ``--`` are those of ``data_prep.extract`` and ``data_prep.build``, flags after it are
Beam's. The results are equal to those of the two commands, bit for bit, because the same functions
run for each video and each shard; either can resume what the other began. All machines must see the
files under the same paths.
"""

import dataclasses
import functools
import json
import pathlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data_prep import build, extract
from data_prep.dataset import plan, writer
from data_prep.dataset.options import Options
from data_prep.dataset.writer import ShardPlan
from vidcap_jax.errors import UserError
from vidcap_jax.features import extract_folder, stream_folders, weights
from vidcap_jax.features.sources import Source
from vidcap_jax.features.stream_folders import VideoResult

_RESULTS = '.beam'  # folder in --out for the pipeline's results, while extraction runs


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

  options = PipelineOptions(list(flags))
  known = options.get_all_options()
  unknown = options.get_all_options(retain_unknown_options=True).keys() - known.keys()
  if unknown:
    raise BeamError(f'after "--": Beam knows no --{", --".join(sorted(unknown))}')
  return options


def run_jobs(flags: Sequence[str], plan: extract_folder.ExtractionPlan) -> extract_folder.Results:
  """Runs an extraction's jobs in a pipeline; yields the results once the pipeline has ended."""
  beam = import_beam()
  options = pipeline_options(flags)
  folder = plan.out / _RESULTS
  shutil.rmtree(folder, ignore_errors=True)
  extract_video = functools.partial(_extract, weights.paths(), plan.out)
  if plan.jobs:
    with beam.Pipeline(options=options) as pipeline:
      videos = pipeline | beam.Create([(v, *job) for v, job in plan.jobs.items()])
      lines = videos | beam.Reshuffle() | 'Extract' >> beam.Map(extract_video)
      lines | beam.io.WriteToText(str(folder / 'results'))
  for file in sorted(folder.glob('results*')):
    for line in file.read_text().splitlines():
      video_id, fields = json.loads(line)
      yield video_id, VideoResult(**{**fields, 'absent': tuple(fields['absent'])})
  shutil.rmtree(folder, ignore_errors=True)


def _extract(
  weights_paths: Mapping[str, pathlib.Path],
  out: pathlib.Path,
  job: tuple[str, pathlib.Path, Mapping],
) -> str:
  """Extracts one video; returns a line of JSON with its id and result."""
  video_id, path, streams = job
  weights.set_paths(weights_paths)
  result = stream_folders.extract_to_files(out, video_id, path, streams)
  return json.dumps([video_id, dataclasses.asdict(result)])


def build_shards(
  flags: Sequence[str],
  options: Options,
  shards: Sequence[ShardPlan],
  sources: Sequence[Source],
) -> None:
  """Builds shards in a pipeline; each shard leaves its result in the data set's folder."""
  beam = import_beam()
  beam_options = pipeline_options(flags)
  # What is sent to a worker: sources without readers, which it opens itself, and with each shard
  # the names of its own videos' features only.
  no_reader: Any = None
  closed_sources = [dataclasses.replace(s, reader=no_reader, names={}) for s in sources]
  jobs = [
    (
      shard,
      [
        {v.video_id: s.names[v.video_id] for v in shard.videos if v.video_id in s.names}
        for s in sources
      ],
    )
    for shard in shards
  ]

  class Build(beam.DoFn):  # type: ignore[name-defined]
    """Opens the streams once in each worker, and builds shards from them."""

    def setup(self):
      self.sources = [_open(source, options) for source in closed_sources]

    def process(self, job) -> Iterator[str]:
      shard, names = job
      sources = [dataclasses.replace(s, names=n) for s, n in zip(self.sources, names, strict=True)]
      _build_shard(options, shard, sources)
      yield shard.file

  if jobs:
    with beam.Pipeline(options=beam_options) as pipeline:
      pipeline | beam.Create(jobs) | beam.Reshuffle() | 'Build' >> beam.ParDo(Build())


def _open(source: Source, options: Options) -> Source:
  name = source.stream.name
  return dataclasses.replace(source, reader=plan.open_reader(name, options.features[name], options))


def _build_shard(options: Options, shard: ShardPlan, sources: Sequence[Source]) -> None:
  writer.build_shard(
    pathlib.Path(options.out),
    shard,
    sources,
    align=options.align,
    skip=True,  # the builder reports videos left out by any shard as one error
  )


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  command, *rest = list(sys.argv[1:] if argv is None else argv) or ['--help']
  cut = rest.index('--') if '--' in rest else len(rest)
  own, flags = rest[:cut], rest[cut + 1 :]
  programs: dict[str, Any] = {
    'extract': lambda: extract.main(own, functools.partial(run_jobs, flags)),
    'build': lambda: build.main(own, functools.partial(build_shards, flags)),
  }
  if command not in programs:
    print(__doc__, file=sys.stdout if command in ('-h', '--help') else sys.stderr)
    return 0 if command in ('-h', '--help') else 2
  try:
    pipeline_options(flags)  # so that wrong flags are reported before any work
  except (BeamError, ModuleNotFoundError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return programs[command]()


if __name__ == '__main__':
  sys.exit(main())
