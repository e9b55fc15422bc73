"""The video files of a folder."""

import pathlib

from vidcap_jax.errors import DataError

SUFFIXES = (
  *('.3gp', '.avi', '.flv', '.gif', '.m4v', '.mkv', '.mov'),
  *('.mp4', '.mpeg', '.mpg', '.ts', '.webm', '.wmv'),
)


def find_videos(folder: str | pathlib.Path) -> dict[str, pathlib.Path]:
  """Finds the video files in a folder and its subfolders.

  Returns:
    id (the file's name without extension) -> file, sorted by path.

  Raises:
    DataError: no such folder, no video in it, or two files with one id.
  """
  folder = pathlib.Path(folder)
  if not folder.is_dir():
    problem = 'is a file; give its folder' if folder.is_file() else 'no such folder'
    raise DataError(f'{folder}: {problem}')
  videos: dict[str, pathlib.Path] = {}
  for path in sorted(folder.rglob('*')):
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
      continue
    if path.stem in videos:
      raise DataError(
        f'{path} and {videos[path.stem]}: both would be video {path.stem!r}; rename one'
      )
    videos[path.stem] = path
  if not videos:
    raise DataError(f'{folder}: no video file in it (looked for {" ".join(SUFFIXES)})')
  return videos
