"""Data sets for benchmarks."""

import json
import pathlib
from collections.abc import Iterable

import numpy as np

from data_prep.dataset.builder import Options, build


def build_dataset(folder: pathlib.Path, videos: Iterable[tuple[str, list[str], np.ndarray]]) -> str:
  """Builds a data set in FOLDER/data and returns its path.

  Args:
    folder: also holds the features and annotations.
    videos: (split, captions, features (T, D)) of each video; their ids are v0, v1, …
  """
  features = folder / 'image'
  features.mkdir(parents=True)
  rows = []
  for i, (split, captions, array) in enumerate(videos):
    np.save(features / f'v{i}.npy', array)
    rows += [{'video_id': f'v{i}', 'split': split, 'caption': caption} for caption in captions]
  annotations = folder / 'captions.jsonl'
  annotations.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  build(
    Options(
      form='jsonl',
      annotations=(str(annotations),),
      features={'image': str(features)},
      out=str(folder / 'data'),
      min_count=1,
    )
  )
  return str(folder / 'data')
