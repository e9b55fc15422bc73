r"""Makes a data set without any downloads: renders clips of moving shapes and extracts features.

    python -m data_prep.synthetic.clips --output=DIR --videos=400

writes DIR/videos (the clips), DIR/facts.json (what happens in each), DIR/captions.jsonl,
DIR/features and the data set itself, DIR/dataset. Run again after an interruption, it resumes and
makes the same data set.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

from data_prep import extract
from data_prep.dataset.builder import Options, build
from data_prep.synthetic import render, shapes
from data_prep.synthetic.recipe import check_recipe
from vidcap_jax import command_arguments, command_errors
from vidcap_jax.data.schema import MANIFEST_NAME
from vidcap_jax.errors import DataError
from vidcap_jax.features import extract_folder, extractors, video_decoder
from vidcap_jax.files import write_json, write_text
from vidcap_jax.progress import progress

STREAMS = {'image': 'efficientnet_lite0', 'motion': 'efficientnet_lite0_motion'}
SAMPLING = {'uniform': 8}
VIDEOS = 600
CAPTIONS = 5

FACTS = 'facts.json'
ANNOTATIONS = 'captions.jsonl'
DATA_SET = 'dataset'
_VERSION = 2  # increased whenever the clips or captions of a seed change


def _render(clips: Sequence[shapes.Clip], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Renders the clips that have no file yet; returns files by video id."""
  folder.mkdir(exist_ok=True)
  paths = {clip.video_id: folder / f'{clip.video_id}.mp4' for clip in clips}
  missing = [clip for clip in clips if not paths[clip.video_id].is_file()]
  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor:
    try:
      jobs = [executor.submit(render.write, clip, paths[clip.video_id]) for clip in missing]
      for job in progress(jobs, len(jobs), 'rendering', unit='clips'):
        job.result()
    finally:
      executor.shutdown(cancel_futures=True)
  return paths


def _annotate(clips: Sequence[shapes.Clip], directory: pathlib.Path, captions: int) -> None:
  """Writes facts.json (id -> split and facts) and captions.jsonl, if they are missing."""
  if (directory / FACTS).is_file() and (directory / ANNOTATIONS).is_file():
    return
  facts = {clip.video_id: {'split': clip.split, **shapes.facts(clip)} for clip in clips}
  write_json(directory / FACTS, facts)
  rows = [
    {'video_id': clip.video_id, 'split': clip.split, 'caption': caption}
    for clip in clips
    for caption in shapes.captions(clip, captions)
  ]
  write_text(directory / ANNOTATIONS, ''.join(json.dumps(row) + '\n' for row in rows))


def _plan(videos: int, seed: int, captions: int) -> list[shapes.Clip]:
  """Plans the clips; DataError, before anything is rendered, if they have too few captions."""
  clips = shapes.plan(videos, seed)
  most = min(map(shapes.most_captions, clips))
  if not 1 <= captions <= most:
    raise DataError(
      f'--captions={captions}: some clips have only {most} different captions; use 1 to {most}'
    )
  return clips


def _extract(
  paths: Mapping[str, pathlib.Path], streams: Mapping[str, Mapping], features: pathlib.Path
) -> None:
  """Extracts the features of all clips; DataError if a clip can't be read."""
  outcome = extract_folder.extract(paths, streams, features)
  if outcome.failed:
    raise DataError(
      f'{features}: clips that could not be read:\n{extract_folder.summary(outcome, features)}'
    )


def prepare(
  directory: str | pathlib.Path,
  streams: Mapping[str, str] | None = None,
  videos: int = VIDEOS,
  seed: int = 0,
  *,
  captions: int = CAPTIONS,
  sampling: Mapping[str, float] | None = None,
  min_count: int = 1,
) -> str:
  """Renders clips, extracts their features and builds a data set; returns its folder.

  A call resumes after one that was killed, and returns at once if the data set is finished. The
  result depends only on the arguments.

  Args:
    directory: folder for all files; the data set is ``directory/dataset``.
    streams: name -> EXTRACTOR[@SAMPLING], as of ``extractors.describe_all``.
    videos: number of clips, about 70 % train, 10 % val and 20 % test.
    seed: of clips and captions.
    captions: per clip.
    sampling: for streams without one, as in ``vidcap_jax.features.sampling``.
    min_count: fewest occurrences of a word in the vocabulary.

  Raises:
    DataError: more captions than some clip has; or the folder holds other files, or was made with
      other arguments.
    extractors.ExtractorError: unknown extractor.
    ModuleNotFoundError: the extra ``video`` is not installed.
  """
  directory = pathlib.Path(directory)
  streams = STREAMS if streams is None else streams
  sampling = SAMPLING if sampling is None else sampling
  described = extractors.describe_all(streams, sampling)
  recipe = {
    'version': _VERSION,
    'videos': videos,
    'seed': seed,
    'captions': captions,
    'min_count': min_count,
    'streams': described,
  }
  planned = _plan(videos, seed, captions)
  check_recipe(directory, recipe, 'data_prep.synthetic.clips')
  data_set = directory / DATA_SET
  if (data_set / MANIFEST_NAME).is_file():
    return str(data_set)

  video_decoder.import_av()
  paths = _render(planned, directory / 'videos')
  _annotate(planned, directory, captions)
  features = directory / 'features'
  _extract(paths, described, features)
  build(
    Options(
      form='jsonl',
      annotations=(str(directory / ANNOTATIONS),),
      features={name: str(features / name) for name in streams},
      out=str(data_set),
      name='shapes',
      min_count=min_count,
    )
  )
  return str(data_set)


def clips(directory: str | pathlib.Path, split: str) -> list[pathlib.Path]:
  """The rendered files of a split, in order, in a folder made by ``prepare``."""
  directory = pathlib.Path(directory)
  facts = json.loads((directory / FACTS).read_text())
  return [directory / 'videos' / f'{v}.mp4' for v, fact in facts.items() if fact['split'] == split]


def first_captions(directory: str | pathlib.Path) -> dict[str, str]:
  """The first caption of each clip by id, in a folder made by ``prepare``."""
  captions: dict[str, str] = {}
  for line in (pathlib.Path(directory) / ANNOTATIONS).read_text().splitlines():
    row = json.loads(line)
    captions.setdefault(row['video_id'], row['caption'])
  return captions


def read_facts(data_set: str | pathlib.Path) -> dict[str, dict[str, str]]:
  """The facts of each clip of a data set made by ``prepare``: id -> attribute -> value.

  Raises:
    DataError: not a data set made by ``prepare``.
  """
  path = pathlib.Path(data_set).resolve().parent / FACTS
  if not path.is_file():
    raise DataError(f'{path}: no such file; {data_set} was not made by data_prep.synthetic.clips')
  return json.loads(path.read_text())


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m data_prep.synthetic.clips',
    description='Renders clips of moving shapes, extracts their features and builds a data set.',
    formatter_class=argparse.RawDescriptionHelpFormatter,
    epilog='extractors: ' + ', '.join(extractors.REGISTRY),
  )
  add = parser.add_argument
  about = 'folder for clips, features and data set'
  add('--output', '--out', required=True, metavar='DIR', help=about)
  add('--videos', type=int, default=VIDEOS, help='number of clips (default: %(default)s)')
  add('--seed', type=int, default=0, help='of clips and captions (default: %(default)s)')
  add('--captions', type=int, default=CAPTIONS, help='per clip (default: %(default)s)')
  add(
    '--streams',
    default=','.join(f'{name}:{extractor}' for name, extractor in STREAMS.items()),
    metavar='NAME:EXTRACTOR[,…]',
    help='streams to make (default: %(default)s)',
  )
  add('--uniform', type=int, default=8, metavar='N', help='frames of a clip (default: %(default)s)')
  return parser


@command_errors.exit_on_closed_pipe()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  try:
    args = command_arguments.parse(_parser(), argv)
    data_set = prepare(
      args.output,
      extract.parse_streams(args.streams),
      args.videos,
      args.seed,
      captions=args.captions,
      sampling={'uniform': args.uniform},
    )
  except (ValueError, extractors.ExtractorError, ModuleNotFoundError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('interrupted; run the same command again to resume', file=sys.stderr)
    return 130
  print(f'{data_set}: ready; --config.data.dir={data_set} trains on it')
  return 0


if __name__ == '__main__':
  sys.exit(main())
