"""Options and flags to build a small data set, its captions and features, and streams."""

import pathlib

import numpy as np

from data_prep.dataset.builder import Options
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
    *(f'--features=image={source}/image', f'--out={source}/out'),
  ]


def described(*names, how=None):
  """Descriptions of streams that have the names of their extractors."""
  return {name: extractors.describe(name, how) for name in names}
