"""What every annotation reader returns, and how entries of its files get into it."""

import dataclasses
import pathlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from vidcap_jax.annotations.files import malformed
from vidcap_jax.annotations.text import clean
from vidcap_jax.data.split_names import SPELLINGS, usual_name
from vidcap_jax.errors import DataError

EMPTY = 'empty'  # Why a caption is left out; readers may have other reasons.


@dataclasses.dataclass
class AnnotatedVideo:
  """One video (or clip of one) of an annotation.

  Attributes:
    video_id: names its features too.
    captions: cleaned, in file order; one that is there twice is kept twice.
    split, category: where given.
    source: what it is a clip of, where known: a URL, a YouTube id, a movie.
  """

  video_id: str
  captions: list[str] = dataclasses.field(default_factory=list)
  split: str | None = None
  category: int = -1
  source: str | None = None


@dataclasses.dataclass(frozen=True)
class Entry:
  """What one place of a file says of one video: values as they stand there, of whatever type.

  ``captions`` is a text, a list of texts, or None; every other field may be None.
  """

  video_id: Any
  captions: Any = None
  split: Any = None
  category: Any = None
  source: Any = None


@dataclasses.dataclass
class Annotations:
  """All that annotation files say.

  Attributes:
    videos: by id, in file order.
    language: of the captions, where the form tells: ``en``, ``zh``.
    left_out: captions left out: reason -> id of the video of each.
    notes: what is odd, for people.
    undecided: why there are no splits, where the files do have something in their place.
  """

  videos: dict[str, AnnotatedVideo] = dataclasses.field(default_factory=dict)
  language: str | None = None
  left_out: dict[str, list[str]] = dataclasses.field(default_factory=dict)
  notes: list[str] = dataclasses.field(default_factory=list)
  undecided: str = ''

  def read(self, path: pathlib.Path, entries: Iterable[tuple[str, Entry | str]]) -> None:
    """Adds a file's entries: pairs of a place, and an entry or what is wrong there.

    Raises:
      DataError: some entries can't be used; they are named by place.
    """
    problems = []
    for where, entry in entries:
      if isinstance(entry, str):
        problems.append((where, entry))
        continue
      try:
        self.add(entry)
      except DataError as error:
        problems.append((where, str(error)))
    if problems:
      raise malformed(path, problems)

  def add(self, entry: Entry) -> None:
    """Adds an entry; a video may have any number of them. Empty captions are left out.

    Raises:
      DataError: a value of the wrong type, or one that contradicts an earlier entry.
    """
    video_id = read_id(entry.video_id)
    captions = entry.captions
    if captions is None:
      captions = ()
    elif isinstance(captions, str):
      captions = (captions,)
    if not isinstance(captions, list | tuple) or not all(isinstance(c, str) for c in captions):
      raise DataError(f'captions of {video_id!r} are neither a text nor a list of texts')
    video = self.videos.setdefault(video_id, AnnotatedVideo(video_id))
    for caption in captions:
      if text := clean(caption):
        video.captions.append(text)
      else:
        self.leave_out(EMPTY, video_id)
    if entry.split not in (None, ''):
      if not isinstance(entry.split, str):
        raise DataError(f'"split" is {entry.split!r}, not a name')
      split = normalize_split(entry.split)
      if video.split not in (None, split):
        raise DataError(
          f'video {video_id!r} is in split {split!r} here and in {video.split!r} before; '
          'a video belongs to one split'
        )
      video.split = split
    if entry.category not in (None, ''):
      category = _category(entry.category)
      if video.category not in (-1, category):
        raise DataError(
          f'video {video_id!r} is of category {category} here and of {video.category} before'
        )
      video.category = category
    if isinstance(entry.source, str) and entry.source.strip():
      video.source = entry.source.strip()

  def leave_out(self, reason: str, video_id: str) -> None:
    """Counts a caption that is not taken."""
    self.left_out.setdefault(reason, []).append(video_id)


def read_id(value) -> str:
  """A video id: a text without white space at its ends, or a whole number.

  Raises:
    DataError: anything else, and texts that are empty or hold control characters.
  """
  if type(value) is int:
    return str(value)
  if not isinstance(value, str):
    raise DataError('no video id' if value is None else f'the video id {value!r} is not a text')
  name = value.strip()
  if not name:
    raise DataError('no video id')
  if any(unicodedata.category(c) in ('Cc', 'Cs', 'Zl', 'Zp') for c in name):
    raise DataError(f'the video id {name!r} holds control characters')
  return name


def _category(value) -> int:
  """A category: a number from 0 on, or its digits."""
  if isinstance(value, str) and re.fullmatch(r'\s*[0-9]{1,9}\s*', value):
    value = int(value)
  if type(value) is int and 0 <= value < 2**31:
    return value
  raise DataError(f'"category" is {value!r}, not a number from 0 on')


def normalize_split(name: str) -> str:
  """``train``, ``val`` or ``test`` for their usual spellings; other names are kept.

  Raises:
    DataError: a name that cannot be part of a file name.
  """
  name = usual_name(name)
  if not re.fullmatch(r'[A-Za-z][A-Za-z0-9_]*', name):
    raise DataError(f'split name {name!r}; use letters, digits and underscores, first a letter')
  return name


def split_in_name(path: pathlib.Path) -> str | None:
  """The split that a file's name says: ``val`` for sents_val_lc_nopunc.txt, val_1.json.

  None if it says none, or several.
  """
  found = {SPELLINGS[p] for p in re.split(r'[^a-z]+', path.stem.lower()) if p in SPELLINGS}
  return found.pop() if len(found) == 1 else None
