"""What every annotation reader returns, and the few things that all of them need."""

import dataclasses
import html
import pathlib
import re
from collections.abc import Sequence

from vidcap_jax.data.schema import DataError

# Spellings of the three usual splits; any other name is kept as it is.
SPLIT_NAMES = {
  'train': ('train', 'training'),
  'val': ('val', 'valid', 'validation', 'validate', 'dev'),
  'test': ('test', 'testing'),
}
_SPELLING = {spelling: name for name, group in SPLIT_NAMES.items() for spelling in group}

# Control and zero-width characters that str.split does not take for white space.
_INVISIBLE = re.compile('[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u2060\ufeff]')


@dataclasses.dataclass
class AnnotatedVideo:
  """One video of an annotation: captions in file order; split and category where given."""

  video_id: str
  captions: list[str] = dataclasses.field(default_factory=list)
  split: str | None = None
  category: int = -1


@dataclasses.dataclass
class Annotations:
  """The videos of an annotation in file order, and how many captions were empty."""

  videos: dict[str, AnnotatedVideo] = dataclasses.field(default_factory=dict)
  empty_captions: int = 0

  def video(self, video_id: str) -> AnnotatedVideo:
    """The video of that id, added if it is new."""
    if video_id not in self.videos:
      self.videos[video_id] = AnnotatedVideo(video_id)
    return self.videos[video_id]

  def add_caption(self, video_id: str, caption: str) -> None:
    """Adds a cleaned caption; an empty one is counted instead, its video stays."""
    video = self.video(video_id)
    if text := clean(caption):
      video.captions.append(text)
    else:
      self.empty_captions += 1

  def set_split(self, video_id: str, split: str, where: str) -> None:
    """Puts the video into a split; DataError if it is in another one already."""
    split = normalize_split(split, where)
    video = self.video(video_id)
    if video.split not in (None, split):
      raise DataError(
        f'{where}: video {video_id!r} is in split {split!r} here and in {video.split!r} before; '
        'a video belongs to one split'
      )
    video.split = split


def clean(text: str) -> str:
  """A caption as one line of text.

  HTML entities are resolved, control and zero-width characters removed (U+FEFF among them), and
  every run of white space, line breaks of any kind included, becomes one space.
  """
  return ' '.join(_INVISIBLE.sub('', html.unescape(text)).split())


def normalize_split(name: str, where: str) -> str:
  """``train``, ``val`` or ``test`` for their usual spellings; other names are kept.

  Raises:
    DataError: a name that cannot be part of a file name.
  """
  name = name.strip()
  if name.lower() in _SPELLING:
    return _SPELLING[name.lower()]
  if not re.fullmatch(r'[A-Za-z][A-Za-z0-9_]*', name):
    raise DataError(
      f'{where}: split name {name!r}; use letters, digits and underscores, first a letter'
    )
  return name


def read_text(path: pathlib.Path) -> str:
  """A UTF-8 file's text, without byte order mark.

  Raises:
    DataError: unreadable, or not UTF-8 (with the byte's position).
  """
  try:
    return path.read_bytes().decode('utf-8-sig')
  except OSError as error:
    raise DataError(f'{path}: cannot be read: {error.strerror}') from None
  except UnicodeDecodeError as error:
    raise DataError(f'{path}: not UTF-8 text at byte {error.start}; convert it to UTF-8') from None


def malformed(path: pathlib.Path, problems: Sequence[tuple[str, str]]) -> DataError:
  """One error for all malformed places of a file: (where in the file, what), five of them shown."""
  shown = '; '.join(f'{where}: {what}' for where, what in problems[:5])
  more = f'; and {len(problems) - 5} more' if len(problems) > 5 else ''
  return DataError(f'{path}: {shown}{more}')
