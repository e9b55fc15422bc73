"""Pictures in files: the frames of a video as JPEG, PNG or WebP files, and single pictures.

A single picture is a video of one frame. Pillow decodes (the extra ``video``), because PyAV reads
neither EXIF orientation nor mirroring. Only the pictures that a sampling chooses are opened.
"""

import contextlib
import dataclasses
import pathlib
import re
import struct
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from vidcap_jax.errors import DataError, VideoError
from vidcap_jax.features.clock import Clock

SUFFIXES = ('.jpeg', '.jpg', '.png', '.webp')
_FORMATS = ('JPEG', 'PNG', 'WEBP')
_NAMED = 10  # damaged pictures of a video that a note names


@dataclasses.dataclass(frozen=True)
class FrameFiles:
  """Pictures that are the frames of one video.

  Attributes:
    place: the folder or list of the pictures, for messages.
    files: of the frames, in order.
    rate: frames a second; None: not known, so that samplings by time can't be used.
  """

  place: str
  files: tuple[pathlib.Path, ...]
  rate: Fraction | None = None

  def __str__(self) -> str:
    return self.place

  @property
  def clock(self) -> Clock:
    """Frame k appears at k / rate; without a rate, seconds count frames."""
    rate = Fraction(self.rate or 1)
    return Clock(moments=[k / rate for k in range(len(self.files))], rate=rate)


# A video file, a single picture, or the frames of a video.
Source = pathlib.Path | FrameFiles


def is_picture(path: pathlib.Path) -> bool:
  """Whether a file's name is that of a picture; hidden files are not."""
  return path.suffix.lower() in SUFFIXES and not path.name.startswith('.')


def frames_of(source: Source) -> FrameFiles | None:
  """The frames of a source of pictures; None for a video file."""
  if isinstance(source, FrameFiles):
    return source
  return FrameFiles(str(source), (source,)) if is_picture(source) else None


def natural_order(names: Iterable[str]) -> list[str]:
  """Names with their numbers in order: frame2 before frame10."""

  def key(name: str):
    # Of an odd number of parts, every second one is a number.
    parts = re.split(r'([0-9]+)', name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name

  return sorted(names, key=key)


def check_frame_rate(sources: Iterable[Source], streams: Mapping[str, Mapping]) -> None:
  """Checks that frames have a rate where a stream samples them by time.

  Args:
    sources: of the videos.
    streams: name -> description, as of ``extractors.check``.

  Raises:
    DataError: they have none; names the folder, the stream and the flag.
  """
  by_time = [name for name, d in streams.items() if 'fps' in d['sampling']]
  for source in sources if by_time else ():
    if isinstance(source, FrameFiles) and source.rate is None and len(source.files) > 1:
      how = streams[by_time[0]]['sampling']
      raise DataError(
        f'{source}: stream {by_time[0]!r} samples {how["fps"]:g} frames a second, and files of '
        'frames have no time stamps; give their frames a second with --frame_rate=N'
      )


def import_pillow():
  """Imports Pillow's modules; ModuleNotFoundError says which extra to install."""
  try:
    from PIL import Image, ImageOps
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'Pillow is needed to read pictures: install the extra "video", '
      "pip install 'vidcap_jax[video]'"
    ) from error
  return Image, ImageOps


def read_picture(path: pathlib.Path) -> np.ndarray:
  """A picture, upright as its EXIF orientation says: uint8 (rows, columns, 3), RGB.

  Transparency is dropped; of an animation the first frame is read.

  Raises:
    VideoError: no such file, or it can't be decoded.
    ModuleNotFoundError: Pillow is not installed.
  """
  image_module, operations = import_pillow()
  if not path.is_file():
    raise VideoError(f'{path}: no such file')
  if path.stat().st_size == 0:
    raise VideoError(f'{path}: the file is empty')
  damage = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error),
    image_module.DecompressionBombError,
  )
  try:
    with image_module.open(path, formats=_FORMATS) as image:
      image.load()
      with contextlib.suppress(*damage, KeyError):  # where EXIF data is damaged: as stored
        image = operations.exif_transpose(image)
      return _rgb(image)
  except image_module.UnidentifiedImageError:
    raise VideoError(f'{path}: not a picture in JPEG, PNG or WebP') from None
  except damage as error:
    raise VideoError(f'{path}: the picture cannot be decoded ({error})') from None


def _rgb(image) -> np.ndarray:
  if image.mode.startswith('I'):  # 16 bits of gray, which Pillow would cut off at 255
    gray = np.clip(np.asarray(image, np.int64) >> 8, 0, 255).astype(np.uint8)
    return np.repeat(gray[:, :, None], 3, 2)
  return np.array(image.convert('RGB'))


class FrameDecoder:
  """Decodes the frames of a video from their files.

  Args:
    av: PyAV.
    frames: the files.
  """

  def __init__(self, av, frames: FrameFiles):
    self._av, self._frames = av, frames
    self._damage: dict[int, str] = {}

  def decode(self, index: int) -> Any:
    """PyAV's frame of a picture; of a damaged one the picture before it, or else after it.

    Raises:
      VideoError: none of the pictures can be decoded.
    """
    files = self._frames.files
    for i in (*range(index, -1, -1), *range(index + 1, len(files))):
      if i in self._damage:
        continue
      try:
        return self._av.VideoFrame.from_ndarray(read_picture(files[i]), format='rgb24')
      except VideoError as error:
        self._damage[i] = str(error)
    if len(files) == 1:
      raise VideoError(self._damage[0])
    raise VideoError(
      f'{self._frames}: none of the {len(files)} pictures can be decoded; {self._damage[index]}'
    )

  def notes(self) -> list[str]:
    """A line on the damaged pictures; none if there are none."""
    if not self._damage:
      return []
    reasons = [self._damage[i] for i in sorted(self._damage)]
    more = f'; and {len(reasons) - _NAMED} more' if len(reasons) > _NAMED else ''
    return [
      f'{self._frames}: damaged: {len(reasons)} pictures, replaced by their neighbours: '
      f'{"; ".join(reasons[:_NAMED])}{more}'
    ]
