"""Captions of video files and of features of them, with some that can't be read."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from data_prep import extract_folder, extractors
from tests import tiny
from tests.data_prep.video_files import gray, write_video
from vidcap_jax import distributed, predict, restore

ROOT = pathlib.Path(__file__).resolve().parents[1]
SAMPLING = {'uniform': 4}


@pytest.fixture(scope='module')
def restored(tmp_path_factory):
  """A model, three steps old, of a stream that can be made of video files."""
  folder = tmp_path_factory.mktemp('predict')
  made_by = extractors.describe('random_sequence', SAMPLING)
  del made_by['kind']
  channels = extractors.get('random_sequence').channels
  data = tiny.build(folder / 'set', channels=channels, **made_by)
  with tiny.without_java():
    workdir = tiny.run(tiny.short_config(data), folder / 'work')
  return restore.restore(restore.find_checkpoint(str(workdir)), distributed.make_mesh())


@pytest.fixture
def clips(tmp_path):
  """Two folders with a good.mp4 each, the first with an empty file too."""
  for name, level in (('first', 40), ('second', 200)):
    (tmp_path / name).mkdir()
    write_video(tmp_path / name / 'good.mp4', [gray(level + i) for i in range(6)])
  (tmp_path / 'first' / 'empty.mp4').touch()
  return tmp_path


def test_what_fails_is_named_and_the_rest_captioned(restored, clips, capsys):
  inputs = [clips / 'first', clips / 'missing.mp4', clips / 'second']
  capsys.readouterr()
  assert predict.predict(restored, ','.join(str(path) for path in inputs)) == 1
  out, err = capsys.readouterr()
  made = [json.loads(line) for line in out.splitlines()]
  assert [one['video_id'] for one in made] == ['good', 'good']
  assert all(one['caption'] for one in made)
  told = err.splitlines()
  assert any(str(clips / 'first' / 'empty.mp4') in line for line in told)
  assert any(str(clips / 'missing.mp4') in line for line in told)
  assert f"{clips / 'second' / 'good.mp4'}: a second video called 'good'" in told
  assert told[-1] == '2 of 4 inputs failed'


def test_a_reader_that_has_enough(restored, clips):
  """As in ``… | head -1``: no traceback."""
  inputs = f'--inputs={clips / "second"},{clips / "second"}'
  argv = [sys.executable, '-m', 'vidcap_jax.main', '--mode=predict', inputs]
  argv.append(f'--checkpoint={restored.path}')
  reading, writing = os.pipe()
  os.close(reading)
  try:
    ended = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT)
  finally:
    os.close(writing)
  assert (ended.returncode, 'Traceback' in ended.stderr) == (0, False), ended.stderr


def test_features_give_the_caption_of_their_video(restored, clips, capsys):
  video = clips / 'second' / 'good.mp4'
  shutil.move(video, clips / 'one.mp4')
  assert predict.predict(restored, str(clips / 'one.mp4')) == 0
  of_video = json.loads(capsys.readouterr().out)
  streams = {'image': extractors.describe('random_sequence', SAMPLING)}
  extract_folder.extract({'one': clips / 'one.mp4'}, streams, clips / 'features', workers=1)
  capsys.readouterr()
  assert predict.predict(restored, f'image={clips / "features" / "image"}') == 0
  of_features = json.loads(capsys.readouterr().out)
  assert of_features['caption'] == of_video['caption']
  np.testing.assert_allclose(of_features['log_prob'], of_video['log_prob'], rtol=1e-5)
