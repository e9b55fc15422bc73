"""A folder as a user has it: a data set, a run of a few steps on it, clips and pictures."""

import pathlib

import pytest

from tests import tiny
from vidcap_jax import config_files

# A config file of three steps.
CONFIG = """
import pathlib

from tests import tiny


def get_config():
  c = tiny.short_config(str(pathlib.Path(__file__).parent / 'data' / 'mine'))
  c.model.variant = 'temporal'
  c.eval.splits = ()
  return c
"""


def build(folder: pathlib.Path) -> None:
  """Writes data/mine, my_config.py, runs/mine, clips and a photo into a folder."""
  from tests.video_files import gray, write_video
  from vidcap_jax.features import extractors

  image = pytest.importorskip('PIL.Image')
  made_by = extractors.describe('random_sequence', {'uniform': 4})
  del made_by['kind']
  channels = extractors.get('random_sequence').channels
  data = tiny.build(
    folder / 'data' / 'source',
    channels=channels,
    max_frames=3,
    refer=('train', 'val', 'test'),
    **made_by,
  )
  pathlib.Path(data).rename(folder / 'data' / 'mine')
  (folder / 'my_config.py').write_text(CONFIG)
  with tiny.without_java():
    config = config_files.load_config(str(folder / 'my_config.py'))
    tiny.run(config, folder / 'runs' / 'mine')
  (folder / 'folder').mkdir()
  for number, name in enumerate(('clip', 'folder/c', 'folder/b')):
    frames = [gray(40 * number + 7 * i) for i in range(6)]
    write_video(folder / f'{name}.mp4', frames)
  (folder / 'damaged.mp4').write_bytes(b'no video')
  write_video(folder / 'short.mp4', [gray(90)])
  image.fromarray(gray(99)).save(folder / 'photo.png')
