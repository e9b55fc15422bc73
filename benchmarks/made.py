"""Data sets made for a measurement."""

import json
import pathlib
from collections.abc import Iterable

import numpy as np

from data_prep.dataset.builder import Options, build


def data_set(folder: pathlib.Path, videos: Iterable[tuple[str, list[str], np.ndarray]]) -> str:
  """Builds FOLDER/data of videos (split, captions, features (T, D)) named v0, v1, …; its path."""
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
