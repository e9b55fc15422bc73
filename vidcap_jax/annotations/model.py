"""Annotations: what every reader fills, by adding the entries of its files."""

import dataclasses
import filecmp
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from vidcap_jax.annotations.files import malformed
from vidcap_jax.annotations.text import clean
from vidcap_jax.counts import counted
from vidcap_jax.data.split_names import SPELLINGS, usual_name
from vidcap_jax.errors import DataError

EMPTY = 'empty'  # Why a caption is left out; readers may have other reasons.


@dataclasses.dataclass
class AnnotatedVideo:
  """One video, or clip of a video, of an annotation.

  Attributes:
    video_id: also the name of its features.
    captions: cleaned, in file order; a caption that occurs twice is kept twice.
    split, category: where given.
    source: what the clip was cut from, where known: a URL, a YouTube id, a movie.
  """

  video_id: str
  captions: list[str] = dataclasses.field(default_factory=list)
  split: str | None = None
  category: int = -1
  source: str | None = None


@dataclasses.dataclass(frozen=True)
class Entry:
  """What one place of a file says about one video: the values as written, of whatever type.

  ``captions`` is a text, a list of texts, or None; every other field may be None.
  """

  video_id: Any
  captions: Any = None
  split: Any = None
  category: Any = None
  source: Any = None


# One row, line or item of a file: its place, and its entry or what is wrong with it.
Located = tuple[str, Entry | str]


@dataclasses.dataclass
class Annotations:
  """The videos of one or more annotation files.

  Attributes:
    videos: by id, in file order.
    language: of the captions, where the form determines it: ``en``, ``zh``.
    for_scoring: keep captions (empty ones too) and split names exactly as written, and ignore
      categories: scorers compare the text itself. A data set is built from cleaned captions.
    left_out: captions left out: reason -> the video id of each.
    notes: remarks for the user.
    undecided: why the splits in the files can't be used, if so.
  """

  videos: dict[str, AnnotatedVideo] = dataclasses.field(default_factory=dict)
  language: str | None = None
  for_scoring: bool = False
  left_out: dict[str, list[str]] = dataclasses.field(default_factory=dict)
  notes: list[str] = dataclasses.field(default_factory=list)
  undecided: str = ''
  _files: list[pathlib.Path] = dataclasses.field(default_factory=list, repr=False)
  # The first file that names each video.
  _file_of: dict[str, pathlib.Path] = dataclasses.field(default_factory=dict, repr=False)

  def add_file(self, path: pathlib.Path, entries: Iterable[Located]) -> None:
    """Adds a file's entries.

    Captions that a video has in several files are all kept, and a note counts such videos.

    Raises:
      DataError: some entries can't be used, or contradict those of an earlier file; they are named
        by place. Or the file repeats an earlier one.
    """
    if repeated := next((file for file in self._files if _same_content(file, path)), None):
      raise DataError(f'{path}: the same file as {repeated}; give it once')
    self._files.append(path)
    earlier = {video_id: len(video.captions) for video_id, video in self.videos.items()}
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
    self._note_shared(path, earlier)

  def _note_shared(self, path: pathlib.Path, earlier: Mapping[str, int]) -> None:
    """Notes the videos that have captions in a file and in earlier ones.

    Args:
      path: the file, whose entries have been added.
      earlier: video id -> number of captions in earlier files.

    Raises:
      DataError: all captions of the file are in earlier files.
    """
    added = {i: v.captions[earlier.get(i, 0) :] for i, v in self.videos.items()}
    shared = [i for i, count in earlier.items() if count and added[i]]
    if not shared:
      return
    known = {i: set(self.videos[i].captions[: earlier[i]]) for i in shared}
    equal = sum(caption in known[i] for i in shared for caption in added[i])
    files = ', '.join(map(str, dict.fromkeys(self._file_of[i] for i in shared)))
    ids = (
      f'{counted(len(shared), "video")} ({", ".join(shared[:3])}{", …" if len(shared) > 3 else ""})'
    )
    if equal == sum(map(len, added.values())):
      raise DataError(
        f'{path}: all its captions, of {ids}, are in {files} too and would count twice; give one '
        'of the files'
      )
    self.notes.append(
      f'captions of {ids} are in {path} and in {files}, which are taken for the same videos'
      + (f'; {counted(equal, "caption")} in both' if equal else '')
    )

  def add(self, entry: Entry) -> None:
    """Adds an entry; a video may have any number of them. Empty captions are left out.

    Raises:
      DataError: a value of the wrong type, or one that contradicts an earlier entry.
    """
    video_id = read_id(entry.video_id)
    captions = () if entry.captions is None else entry.captions
    if isinstance(captions, str):
      captions = (captions,)
    if not isinstance(captions, list | tuple) or not all(isinstance(c, str) for c in captions):
      raise DataError('captions are neither a text nor a list of texts')
    video = self.videos.setdefault(video_id, AnnotatedVideo(video_id))
    if self._files:
      self._file_of.setdefault(video_id, self._files[-1])
    if self.for_scoring:
      video.captions += captions
    else:
      self._add_cleaned(video, captions)
      _set_category(video, entry.category)
    self._set_split(video, entry.split)
    if isinstance(entry.source, str) and entry.source.strip():
      self._set_source(video, entry.source.strip())

  def _add_cleaned(self, video: AnnotatedVideo, captions: Iterable[str]) -> None:
    for caption in captions:
      if text := clean(caption):
        video.captions.append(text)
      else:
        self.leave_out(EMPTY, video.video_id)

  def _set_split(self, video: AnnotatedVideo, value) -> None:
    """Sets a video's split, which belongs to the video, not the row: blank values leave it."""
    if value is None or (isinstance(value, str) and not value.strip()):
      return
    if not isinstance(value, str):
      raise DataError(f'"split" is {value!r}, not a name')
    split = value.strip() if self.for_scoring else normalize_split(value)
    if video.split is not None and usual_name(video.split) != usual_name(split):
      raise DataError(
        f'video {video.video_id!r} is in split {split!r} here and in {video.split!r} '
        f'{self._before(video)}; a video belongs to one split'
      )
    video.split = video.split or split

  def _set_source(self, video: AnnotatedVideo, source: str) -> None:
    """Sets a video's source; scorers, which don't use it, take the last one."""
    known = video.source
    if known and not self.for_scoring and not _same_source(known, source):
      raise DataError(
        f'video {video.video_id!r} is {source!r} here and {known!r} {self._before(video)}; ids of '
        'different videos must differ'
      )
    video.source = source

  def _before(self, video: AnnotatedVideo) -> str:
    """Where an earlier entry of a video is, for messages."""
    file = self._file_of.get(video.video_id)
    return 'before' if file in (None, self._files[-1]) else f'in {file}'

  def leave_out(self, reason: str, video_id: str) -> None:
    """Counts a caption that is left out."""
    self.left_out.setdefault(reason, []).append(video_id)


def _same_content(file: pathlib.Path, other: pathlib.Path) -> bool:
  return file.is_file() and other.is_file() and filecmp.cmp(file, other, shallow=False)


def _same_source(source: str, other: str) -> bool:
  """Whether two sources are the same; one may have folders in front of the name."""
  return source == other or source.endswith(f'/{other}') or other.endswith(f'/{source}')


def read_id(value) -> str:
  """A video id: a text without white space at its ends, or a whole number.

  7.0 is read as 7: programs that rewrite a table make floats of its whole numbers.

  Raises:
    DataError: anything else, and texts that are empty or hold control characters.
  """
  if type(value) is int:
    return str(value)
  if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
    return str(int(value))
  if not isinstance(value, str):
    raise DataError('no video id' if value is None else f'the video id {value!r} is not a text')
  name = value.strip()
  if not name:
    raise DataError('no video id')
  if any(unicodedata.category(c) in ('Cc', 'Cs', 'Zl', 'Zp') for c in name):
    raise DataError(f'the video id {name!r} holds control characters')
  return name


def _set_category(video: AnnotatedVideo, value) -> None:
  """Sets a video's category, a number from 0 on or its digits; None and '' leave it."""
  if value in (None, ''):
    return
  if isinstance(value, str) and re.fullmatch(r'\s*[0-9]{1,9}\s*', value):
    value = int(value)
  if type(value) is not int or not 0 <= value < 2**31:
    raise DataError(f'"category" is {value!r}, not a number from 0 on')
  if video.category not in (-1, value):
    raise DataError(
      f'video {video.video_id!r} is of category {value} here and of {video.category} before'
    )
  video.category = value


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
  """The split in a file's name: ``val`` for sents_val_lc_nopunc.txt, Flickr_8k.devImages.txt.

  None if the name holds no split, or several.
  """
  words = [word.removesuffix('images') for word in re.split(r'[^a-z]+', path.stem.lower())]
  found = {SPELLINGS[word] for word in words if word in SPELLINGS}
  return found.pop() if len(found) == 1 else None
