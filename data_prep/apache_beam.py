r"""Extraction and building by Apache Beam, on one machine or on an engine of many.

    python -m data_prep.apache_beam extract --videos=… --streams=… --out=… -- --runner=FlinkRunner …
    python -m data_prep.apache_beam build --format=… --annotations=… --features=… --out=… -- …

What stands before ``--`` are the flags of ``data_prep.extract`` and ``data_prep.build``, what
stands after it are Beam's. The results are those of the two programs, bit for bit: the same
functions are called for each video and each shard, and each goes on with what the other began.
Files must have the same paths for all machines.
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
from vidcap_jax.features.stream_folders import Made

_RESULTS = '.beam'  # folder of what became of each video, while extraction runs


class BeamError(UserError):
  """Beam's flags can't be worked with; says which."""


def import_beam():
  """Apache Beam, or ModuleNotFoundError saying which extra brings it."""
  try:
    import apache_beam
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'Apache Beam is not installed: install the extra "beam", pip install \'vidcap_jax[beam]\''
    ) from error
  return apache_beam


def pipeline_options(flags: Sequence[str]):
  """Beam's options from its flags.

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


def extract_spread(flags: Sequence[str], work: extract_folder.Work) -> extract_folder.Results:
  """Does an extraction's work by a pipeline; what became of each video, once it has ended."""
  beam = import_beam()
  options = pipeline_options(flags)
  folder = work.out / _RESULTS
  shutil.rmtree(folder, ignore_errors=True)
  make = functools.partial(_make, weights.given(), work.out)
  if work.jobs:
    with beam.Pipeline(options=options) as pipeline:
      videos = pipeline | beam.Create([(v, *job) for v, job in work.jobs.items()])
      lines = videos | beam.Reshuffle() | 'Extract' >> beam.Map(make)
      lines | beam.io.WriteToText(str(folder / 'made'))
  for file in sorted(folder.glob('made*')):
    for line in file.read_text().splitlines():
      video_id, made = json.loads(line)
      yield video_id, Made(**{**made, 'absent': tuple(made['absent'])})
  shutil.rmtree(folder, ignore_errors=True)


def _make(
  given: Mapping[str, pathlib.Path], out: pathlib.Path, job: tuple[str, pathlib.Path, Mapping]
) -> str:
  video_id, path, streams = job
  weights.give(given)
  made = stream_folders.make(out, video_id, path, streams)
  return json.dumps([video_id, dataclasses.asdict(made)])


def build_spread(
  flags: Sequence[str],
  options: Options,
  shards: Sequence[ShardPlan],
  sources: Sequence[Source],
) -> None:
  """Builds shards by a pipeline; each leaves its result in the data set's folder."""
  beam = import_beam()
  beam_options = pipeline_options(flags)
  # Readers are opened where they are needed, and each shard takes along the names of its videos.
  nothing: Any = None
  bare = [dataclasses.replace(source, reader=nothing, names={}) for source in sources]
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
    """Opens the streams once in each worker."""

    def setup(self):
      self.opened = [_opened(source, options) for source in bare]

    def process(self, job) -> Iterator[str]:
      shard, names = job
      its = [dataclasses.replace(s, names=n) for s, n in zip(self.opened, names, strict=True)]
      _build(options, shard, its)
      yield shard.file

  if jobs:
    with beam.Pipeline(options=beam_options) as pipeline:
      pipeline | beam.Create(jobs) | beam.Reshuffle() | 'Build' >> beam.ParDo(Build())


def _opened(source: Source, options: Options) -> Source:
  name = source.stream.name
  return dataclasses.replace(source, reader=plan.open_reader(name, options.features[name], options))


def _build(options: Options, shard: ShardPlan, sources: Sequence[Source]) -> None:
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
    'extract': lambda: extract.main(own, functools.partial(extract_spread, flags)),
    'build': lambda: build.main(own, functools.partial(build_spread, flags)),
  }
  if command not in programs:
    print(__doc__, file=sys.stdout if command in ('-h', '--help') else sys.stderr)
    return 0 if command in ('-h', '--help') else 2
  try:
    pipeline_options(flags)  # before any work
  except (BeamError, ModuleNotFoundError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return programs[command]()


if __name__ == '__main__':
  sys.exit(main())
