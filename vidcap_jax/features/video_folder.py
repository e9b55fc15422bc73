"""Finds the videos of a folder or a list: video files, folders of frames, and single pictures."""

import dataclasses
import functools
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError
from vidcap_jax.features import picture_files
from vidcap_jax.features.picture_files import FrameFiles, Source, is_picture

SUFFIXES = (
  *('.3gp', '.avi', '.flv', '.gif', '.m4v', '.mkv', '.mov'),
  *('.mp4', '.mpeg', '.mpg', '.ts', '.webm', '.wmv'),
)
LISTS = ('.lst', '.tsv', '.txt')
# How the pictures of a folder are read.
PICTURES = ('auto', 'frames', 'single', 'ignore')
_FEW = 100  # pictures whose numbers may have any gaps


@dataclasses.dataclass(frozen=True)
class PictureRules:
  """How pictures are read.

  Attributes:
    how: of ``PICTURES``. ``auto``: the pictures of a folder are the frames of one video if their
      names are numbered, except those of the given folder itself, which are single pictures.
    frame_rate: of all frames in files; None: not known.
    top_may_be_frames: ``auto`` makes no such exception: numbered pictures of the given folder are
      frames of one video too.
  """

  how: str = 'auto'
  frame_rate: Fraction | None = None
  top_may_be_frames: bool = False


def parse_frame_rate(text: str | None) -> Fraction | None:
  """Parses the flag --frame_rate: ``25``, ``29.97`` or ``30000/1001``.

  Raises:
    DataError: not a number above 0.
  """
  try:
    rate = None if text is None else Fraction(text)
  except (ValueError, ZeroDivisionError):
    rate = Fraction(0)
  if rate is not None and rate <= 0:
    raise DataError(f'--frame_rate={text}: not a number above 0, such as 25 or 30000/1001')
  return rate


def find_videos(
  path: str | pathlib.Path, rules: PictureRules = PictureRules()
) -> dict[str, Source]:
  """Finds the videos in a folder and its subfolders, or those that a list names.

  Args:
    path: a folder; a text file with a line PATH or ID<TAB>PATH for each video, where several
      pictures of one ID are its frames in this order; or a single video or picture.
    rules: how pictures are read.

  Returns:
    id (the name of the file without extension, or of the folder of frames) -> source, sorted by
    path, or in the order of the list.

  Raises:
    DataError: no such folder, no video in it, two videos with one id, or pictures that may be
      frames or not.
  """
  path = pathlib.Path(path)
  if path.is_dir():
    found = list(_in_folder(path, rules))
  elif not path.is_file():
    raise DataError(f'{path}: no such folder')
  elif path.suffix.lower() in LISTS:
    found = list(_in_list(path, rules))
  elif is_picture(path) or path.suffix.lower() in SUFFIXES:
    found = [(path.stem, path)]
  else:
    kinds = ' '.join((*LISTS, *SUFFIXES, *picture_files.SUFFIXES))
    raise DataError(f'{path}: is a file, and not one of {kinds}; give its folder')
  videos: dict[str, Source] = {}
  for video_id, source in found:
    if video_id in videos:
      raise DataError(
        f'{source} and {videos[video_id]}: both would be video {video_id!r}; rename one'
      )
    videos[video_id] = source
  if not videos:
    suffixes = ' '.join((*SUFFIXES, *picture_files.SUFFIXES))
    raise DataError(f'{path}: no video file or picture in it (looked for {suffixes})')
  return videos


def describe(videos: Mapping[str, Source]) -> str:
  """The kinds of videos and their counts, for the user; empty if all are video files."""
  folders = [source for source in videos.values() if isinstance(source, FrameFiles)]
  single = [s for s in videos.values() if isinstance(s, pathlib.Path) and is_picture(s)]
  if not folders and not single:
    return ''
  pictures = sum(len(frames.files) for frames in folders)
  counts = {
    'video file': len(videos) - len(folders) - len(single),
    'video': len(folders),
    'single picture': len(single),
  }
  frames = {'video': f' from {counted(pictures, "picture")} as frames'}
  shown = ', '.join(
    counted(count, what) + frames.get(what, '') for what, count in counts.items() if count
  )
  numbers = _numbers([path.stem for path in single]) if len(single) > 1 else None
  if numbers is not None and _count_up(numbers):
    shown += ' (numbered: if they are the frames of one video, give --pictures=frames)'
  return shown


def _in_folder(top: pathlib.Path, rules: PictureRules) -> Iterator[tuple[str, Source]]:
  """The videos below a folder, sorted by path."""
  found: list[tuple[pathlib.Path, str, Source]] = []
  frame_folders: list[pathlib.Path] = []
  for folder, _, names in os.walk(top):
    files = [pathlib.Path(folder, name) for name in names]
    files = [file for file in files if file.is_file()]
    videos = [file for file in files if file.suffix.lower() in SUFFIXES]
    pictures = [] if rules.how == 'ignore' else [file for file in files if is_picture(file)]
    if videos and pictures and rules.how == 'auto':
      raise DataError(
        f'{folder}: holds videos ({videos[0].name}) and pictures ({pictures[0].name}); put them '
        'into separate folders, or leave the pictures out with --pictures=ignore'
      )
    found += [(file, file.stem, file) for file in videos]
    if not pictures:
      continue
    if _are_frames(pathlib.Path(folder), pictures, rules, is_top=pathlib.Path(folder) == top):
      place = pathlib.Path(folder)
      frame_folders.append(place)
      ordered = picture_files.natural_order(file.name for file in pictures)
      frames = FrameFiles(folder, tuple(place / name for name in ordered), rules.frame_rate)
      found.append((place, place.name or place.resolve().name, frames))
    else:
      found += [(file, file.stem, file) for file in pictures]
  below = {parent: path for path, _, _ in reversed(found) for parent in path.parents}
  for place in frame_folders:
    inside = below.get(place)
    if inside and rules.how == 'auto':
      raise DataError(
        f'{place}: holds frames of a video and, below it, {inside.relative_to(place)}; '
        'put them into separate folders'
      )
  for _, video_id, source in sorted(found, key=lambda item: item[0]):
    yield video_id, source


def _are_frames(
  folder: pathlib.Path, pictures: Sequence[pathlib.Path], rules: PictureRules, is_top: bool
) -> bool:
  """Whether a folder's pictures are the frames of one video.

  Raises:
    DataError: their names leave it open.
  """
  if rules.how != 'auto':
    return rules.how == 'frames'
  if is_top and (not rules.top_may_be_frames or len(pictures) == 1):
    return False
  numbers = _numbers([file.stem for file in pictures])
  if numbers is not None and _count_up(numbers):
    return True
  if is_top and numbers is None:
    return False
  shown = ', '.join(sorted(file.name for file in pictures)[:3])
  raise DataError(
    f'{folder}: its {len(pictures)} pictures ({shown}, …) may be frames of one video or single '
    'pictures, as their names do not count up; choose by --pictures=frames or --pictures=single, '
    'or leave pictures out with --pictures=ignore'
  )


def _numbers(stems: Sequence[str]) -> list[int] | None:
  """The last number in each name; None if anything else in the names differs."""
  matches = [re.fullmatch(r'(.*?)([0-9]+)([^0-9]*)', stem) for stem in stems]
  if len({match and (match[1], match[3]) for match in matches}) > 1 or not matches[0]:
    return None
  return sorted(int(match[2]) for match in matches if match)


def _count_up(numbers: Sequence[int]) -> bool:
  """Whether ascending numbers may be those of frames: few, or with few gaps."""
  steps = [b - a for a, b in zip(numbers, numbers[1:])]
  step = functools.reduce(math.gcd, steps, 0) or 1
  return len(numbers) <= _FEW or (numbers[-1] - numbers[0]) / step < 2 * len(numbers)


def _in_list(path: pathlib.Path, rules: PictureRules) -> Iterator[tuple[str, Source]]:
  """The videos of a list; of frames, the pictures of one id."""
  entries: dict[str, list[pathlib.Path]] = {}
  try:
    lines = path.read_text('utf-8-sig').splitlines()
  except (OSError, UnicodeDecodeError) as error:
    raise DataError(f'{path}: cannot be read as UTF-8 text: {error}') from None
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    named, tab, rest = line.partition('\t')
    file = _listed(path, (rest if tab else line).strip())
    video_id = named.strip() if tab else file.name if file.is_dir() else file.stem
    if not video_id or '/' in video_id:
      raise DataError(f'{path}: line {number}: not "PATH" or "ID<TAB>PATH": {line[:60]!r}')
    files = entries.setdefault(video_id, [])
    files.append(file)
    if len(files) > 1 and not (tab and is_picture(file) and is_picture(files[0])):
      raise DataError(
        f'{path}: line {number}: video {video_id!r} is listed before ({files[0]}); only pictures '
        'after "ID<TAB>" may be listed several times for one ID, as its frames'
      )
  for video_id, files in entries.items():
    if len(files) > 1:
      yield video_id, FrameFiles(f'{path}: {video_id}', tuple(files), rules.frame_rate)
    elif files[0].is_dir():
      yield video_id, _folder_of_frames(path, files[0], rules)
    else:
      yield video_id, files[0]


def _listed(path: pathlib.Path, name: str) -> pathlib.Path:
  """A file that a list names, relative to the list's folder or else to the working folder."""
  beside = path.parent / name
  return beside if beside.exists() or not pathlib.Path(name).exists() else pathlib.Path(name)


def _folder_of_frames(path: pathlib.Path, folder: pathlib.Path, rules: PictureRules) -> FrameFiles:
  names = [file.name for file in folder.iterdir() if is_picture(file)]
  if not names:
    raise DataError(f'{path}: {folder}: a folder without pictures; list the files of videos')
  files = tuple(folder / name for name in picture_files.natural_order(names))
  return FrameFiles(str(folder), files, rules.frame_rate)
