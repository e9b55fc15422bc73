r"""Extracts features from a folder of video files.

    python -m data_prep.extract --videos=clips/ --out=features/ --uniform=20 \
        --streams=image:efficientnet_lite0,motion:efficientnet_lite0_motion

writes features/image/ID.npy and features/motion/ID.npy for every clips/ID.mp4, and in each folder
a stream.json that says how they were made. Interrupted, it goes on where it stopped when started
again with the same options.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from data_prep import extraction, extractors, sampling, video
from data_prep.progress import progress
from vidcap_jax.errors import UserError

SUFFIXES = (
  *('.3gp', '.avi', '.flv', '.gif', '.m4v', '.mkv', '.mov'),
  *('.mp4', '.mpeg', '.mpg', '.ts', '.webm', '.wmv'),
)
SIDECAR = 'stream.json'
FAILURES = 'failures.json'
DTYPE = 'float16'
_AHEAD = 2  # videos waiting per worker


class ExtractError(UserError):
  """Options or folders that can't be worked with; says what to change."""


@dataclasses.dataclass
class Outcome:
  """What a run did: ids extracted now, ids kept from before, and reasons by id.

  ``failed`` videos have no features; ``damaged`` ones have those of the frames that decode.
  """

  extracted: list[str] = dataclasses.field(default_factory=list)
  kept: list[str] = dataclasses.field(default_factory=list)
  failed: dict[str, str] = dataclasses.field(default_factory=dict)
  damaged: dict[str, str] = dataclasses.field(default_factory=dict)


def find_videos(folder: str | pathlib.Path) -> dict[str, pathlib.Path]:
  """Video files below a folder by id, the file's name without its ending; sorted.

  Raises:
    ExtractError: no such folder, no video in it, or two files with one id.
  """
  folder = pathlib.Path(folder)
  if not folder.is_dir():
    raise ExtractError(f'{folder}: no such folder')
  found: dict[str, pathlib.Path] = {}
  for path in sorted(folder.rglob('*')):
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
      continue
    if path.stem in found:
      raise ExtractError(f'{path} and {found[path.stem]}: both would be video {path.stem!r}')
    found[path.stem] = path
  if not found:
    raise ExtractError(f'{folder}: no video file in it (looked for {" ".join(SUFFIXES)})')
  return found


def parse_streams(text: str) -> dict[str, str]:
  """``image:efficientnet_lite0@every=5,…`` as what makes each stream, by its name.

  Raises:
    ExtractError: not of the form NAME:EXTRACTOR[@SAMPLING], with commas between.
  """
  streams: dict[str, str] = {}
  for part in filter(None, text.split(',')):
    name, colon, made_by = part.partition(':')
    if not colon or not re.fullmatch(r'[A-Za-z]\w*', name, re.ASCII):
      raise ExtractError(f'--streams: {part!r} is not of the form NAME:EXTRACTOR[@SAMPLING]')
    if name in streams:
      raise ExtractError(f'--streams: {name!r} is given twice')
    streams[name] = made_by
  if not streams:
    raise ExtractError('--streams: no stream given')
  return streams


def _write_json(path: pathlib.Path, data) -> None:
  partial = path.with_name(path.name + '.partial')
  partial.write_text(json.dumps(data, indent=1) + '\n')
  partial.replace(path)


def _prepare_folder(folder: pathlib.Path, name: str, description: Mapping) -> None:
  """Makes a stream's folder; refuses one whose features were made in another way."""
  wanted = {'name': name, **description, 'dtype': DTYPE}
  file = folder / SIDECAR
  if file.is_file():
    try:
      found = json.loads(file.read_text())
    except ValueError:
      found = {}
    keys = [k for k in wanted if not isinstance(found, dict) or found.get(k) != wanted[k]]
    if keys:
      now = ', '.join(f'{k} {wanted[k]!r}' for k in keys)
      raise ExtractError(
        f'{file}: the features there were made in another way (asked for now: {now}); '
        'give another --out, or remove that folder'
      )
    return
  if folder.is_dir() and any(folder.glob('*.npy')):
    raise ExtractError(f'{folder}: holds features without {SIDECAR}; give another --out')
  folder.mkdir(parents=True, exist_ok=True)
  _write_json(file, wanted)


def _store(path: pathlib.Path, array: np.ndarray) -> None:
  partial = path.with_name(path.name + '.partial')
  with partial.open('wb') as file:
    np.save(file, array)
    file.flush()
    os.fsync(file.fileno())
  partial.replace(path)


def _features(path: pathlib.Path, streams: Mapping[str, Mapping]):
  """(arrays by stream, note) of one video; raises what is wrong with it."""
  notes: list[str] = []
  arrays = extraction.extract_video(path, streams, notes)
  with np.errstate(over='ignore'):
    stored = {name: array.astype(DTYPE) for name, array in arrays.items()}
  for name, array in stored.items():
    if not np.isfinite(array).all():
      raise ValueError(f'stream {name!r}: values that {DTYPE} can not hold')
  return stored, '; '.join(notes)


def _ahead(executor, jobs: Iterator, workers: int):
  """(id, future) in order, with a bounded number of jobs begun."""
  waiting: list = []
  for name, arguments in jobs:
    waiting.append((name, executor.submit(_features, *arguments)))
    if len(waiting) >= workers * _AHEAD:
      yield waiting.pop(0)
  yield from waiting


def extract(
  videos: Mapping[str, pathlib.Path],
  streams: Mapping[str, Mapping],
  out: str | pathlib.Path,
  workers: int | None = None,
) -> Outcome:
  """Writes ``OUT/STREAM/ID.npy`` (float16) for videos by id; what is there already is kept.

  A file is written whole or not at all. OUT/failures.json names what failed or was damaged.

  Args:
    videos: id -> file.
    streams: name -> description, of ``extractors.describe``.
    out: folder for the streams' folders.
    workers: videos decoded at a time; by default as many as there are cores, at most 8.

  Raises:
    ExtractError: a stream's folder holds features that were made in another way.
    extractors.ExtractorError: unknown extractor, version or sampling.
    ModuleNotFoundError: PyAV or the network's weights are not installed.
    OSError: the features can't be written.
  """
  out = pathlib.Path(out)
  workers = workers or min(8, os.cpu_count() or 1)
  streams = {name: extractors.check(name, s) for name, s in streams.items()}
  video.import_av()
  extractors.load(s['extractor'] for s in streams.values())  # missing weights: found here, not late
  for name, description in streams.items():
    _prepare_folder(out / name, name, description)

  outcome = Outcome()
  earlier = _read_failures(out / FAILURES).get('damaged', {})
  todo = {}
  for video_id, path in videos.items():
    lacking = {n: s for n, s in streams.items() if not (out / n / f'{video_id}.npy').is_file()}
    if lacking:
      todo[video_id] = (path, lacking)
      continue
    outcome.kept.append(video_id)
    if video_id in earlier:
      outcome.damaged[video_id] = earlier[video_id]

  with concurrent.futures.ThreadPoolExecutor(workers) as executor:
    jobs = _ahead(executor, iter(todo.items()), workers)
    try:
      for video_id, future in progress(jobs, len(todo), 'extracting'):
        try:
          arrays, note = future.result()
        except Exception as error:  # whatever one file does, the others go on
          known = isinstance(error, video.VideoError | ValueError)
          outcome.failed[video_id] = str(error) if known else f'{type(error).__name__}: {error}'
          continue
        for name, array in arrays.items():
          _store(out / name / f'{video_id}.npy', array)
        outcome.extracted.append(video_id)
        if note:
          outcome.damaged[video_id] = note
    finally:
      executor.shutdown(wait=False, cancel_futures=True)
      _write_json(out / FAILURES, {'failed': outcome.failed, 'damaged': outcome.damaged})
  return outcome


def _read_failures(path: pathlib.Path) -> dict:
  try:
    data = json.loads(path.read_text())
  except (OSError, ValueError):
    return {}
  return data if isinstance(data, dict) else {}


def summary(outcome: Outcome, out: str | pathlib.Path) -> str:
  """What a run did, for people."""
  lines = [f'{video_id}: FAILED: {why}' for video_id, why in outcome.failed.items()]
  lines += [f'{video_id}: damaged: {why}' for video_id, why in outcome.damaged.items()]
  counts = f'{len(outcome.extracted)} videos extracted'
  if outcome.kept:
    counts += f', {len(outcome.kept)} kept from before'
  counts += f', {len(outcome.damaged)} damaged in part, {len(outcome.failed)} failed'
  named = f'; named in {pathlib.Path(out) / FAILURES}' if outcome.failed or outcome.damaged else ''
  return '\n'.join([*lines, counts + named])


def _parser() -> argparse.ArgumentParser:
  names = '\n'.join(
    f'  {name:<28}{e.kind}, {e.channels} channels' for name, e in extractors.REGISTRY.items()
  )
  parser = argparse.ArgumentParser(
    prog='python -m data_prep.extract',
    description='Extracts features from video files, resumably. What is there already is kept.',
    formatter_class=argparse.RawDescriptionHelpFormatter,
    epilog=f'extractors:\n{names}\n\nThe exit code is 1 if any video failed; the others are kept.',
  )
  add = parser.add_argument
  add('--videos', required=True, metavar='DIR', help='folder of video files (searched in depth)')
  add('--out', required=True, metavar='DIR', help='folder for NAME/VIDEOID.npy')
  add(
    '--streams',
    default='image:efficientnet_lite0',
    metavar='NAME:EXTRACTOR[,…]',
    help='streams to make (default: %(default)s)',
  )
  how = parser.add_mutually_exclusive_group()
  how.add_argument('--uniform', type=int, metavar='N', help='N frames of each video, evenly spread')
  how.add_argument('--every', type=int, metavar='N', help='every N-th frame')
  how.add_argument('--fps', type=float, metavar='X', help='X frames a second')
  add('--workers', type=int, metavar='N', help='videos decoded at a time (default: the cores)')
  return parser


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  parser = _parser()
  args = parser.parse_args(argv)
  asked = {how: vars(args)[how] for how in sampling.BASES if vars(args)[how] is not None}
  try:
    if args.workers is not None and args.workers < 1:
      raise ExtractError(f'--workers={args.workers}: at least 1')
    streams = extractors.describe_all(parse_streams(args.streams), asked)
    outcome = extract(find_videos(args.videos), streams, args.out, args.workers)
  except (ValueError, extractors.ExtractorError, ModuleNotFoundError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('interrupted; the same command goes on from here', file=sys.stderr)
    return 130
  print(summary(outcome, args.out))
  return 1 if outcome.failed else 0


if __name__ == '__main__':
  sys.exit(main())
