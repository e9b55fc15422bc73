import pathlib

import numpy as np
import pytest

from data_prep.synthetic import render, shapes
from tests.data_prep.building import ROWS, values
from vidcap_jax.features import video_folder


@pytest.fixture
def source(tmp_path):
  """Annotations and one stream of five videos, with (n, 4) frames for video n."""
  lines = ['video_id,caption,split'] + [','.join(row) for row in ROWS]
  (tmp_path / 'clips.csv').write_text('\n'.join(lines))
  (tmp_path / 'image').mkdir()
  for n in range(1, 6):
    np.save(tmp_path / 'image' / f'v{n}.npy', values(f'v{n}', (n, 4)))
  return tmp_path


@pytest.fixture(scope='session')
def clips(tmp_path_factory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp('clips')
  for clip in shapes.plan(10, seed=3)[:4]:
    render.write(clip, folder / f'{clip.video_id}.mp4')
  return folder


@pytest.fixture
def paths(clips):
  return video_folder.find_videos(clips)
