"""Options and flags to build a small data set, its captions and features, and streams."""

import pathlib

import numpy as np

from data_prep.dataset.builder import Options
from vidcap_jax.data.records import open_split
from vidcap_jax.features import extractors

ROWS = [
  ('v3', 'a dog runs', 'train'),
  ('v1', 'a man sings a song', 'train'),
  ('v3', 'the dog', 'train'),
  ('v2', 'a cat', 'val'),
  ('v4', '', 'test'),
  ('v5', 'a man', 'train'),
]


def values(video_id: str, shape) -> np.ndarray:
  rng = np.random.default_rng(int(video_id.removeprefix('v')))
  return rng.normal(size=shape).astype(np.float32)


def options(source, **changes) -> Options:
  fields = {
    'form': 'csv',
    'annotations': (str(source / 'clips.csv'),),
    'features': {'image': str(source / 'image')},
    'out': str(source / 'out'),
    'min_count': 1,
    **changes,
  }
  return Options(**fields)


def contents(directory) -> dict[str, bytes]:
  return {p.name: p.read_bytes() for p in sorted(pathlib.Path(directory).iterdir()) if p.is_file()}


def arguments(source) -> list[str]:
  return [
    *('--format=csv', f'--annotations={source}/clips.csv', '--min_count=1'),
    *(f'--features=image={source}/image', f'--output={source}/out'),
  ]


def described(*names, how=None):
  """Descriptions of streams that have the names of their extractors."""
  return {name: extractors.describe(name, how) for name in names}


def read_features(source, split='train') -> dict[str, dict[str, np.ndarray]]:
  """Video id -> the features by stream of a built split."""
  return {v.video_id: v.features for v in open_split(source / 'out', split)}


def write_stream(source, stream, array_of) -> str:
  """Writes features of v1 to v5; returns their folder.

  Args:
    array_of: number of the video -> its array.
  """
  (source / stream).mkdir(exist_ok=True)
  for n in range(1, 6):
    np.save(source / stream / f'v{n}.npy', array_of(n))
  return str(source / stream)


def files_below(folder: pathlib.Path) -> dict[str, bytes]:
  """The files below a folder by their path there."""
  paths = sorted(path for path in folder.rglob('*') if path.is_file())
  return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
