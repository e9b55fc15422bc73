"""The video files of a folder."""

import pathlib

from vidcap_jax.errors import DataError

SUFFIXES = (
  *('.3gp', '.avi', '.flv', '.gif', '.m4v', '.mkv', '.mov'),
  *('.mp4', '.mpeg', '.mpg', '.ts', '.webm', '.wmv'),
)


def find_videos(folder: str | pathlib.Path) -> dict[str, pathlib.Path]:
  """Video files below a folder by id, the file's name without its ending; sorted.

  Raises:
    DataError: no such folder, no video in it, or two files with one id.
  """
  folder = pathlib.Path(folder)
  if not folder.is_dir():
    problem = 'is a file; give the folder it lies in' if folder.is_file() else 'no such folder'
    raise DataError(f'{folder}: {problem}')
  found: dict[str, pathlib.Path] = {}
  for path in sorted(folder.rglob('*')):
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
      continue
    if path.stem in found:
      raise DataError(f'{path} and {found[path.stem]}: both would be video {path.stem!r}')
    found[path.stem] = path
  if not found:
    raise DataError(f'{folder}: no video file in it (looked for {" ".join(SUFFIXES)})')
  return found
