"""Captions of video files and of features, including files that can't be read."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests import tiny
from tests.video_files import gray, write_video
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import Video
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import DataError
from vidcap_jax.features import extract_folder, extraction, extractors
from vidcap_jax.inference import captioning, predict
from vidcap_jax.inference.inputs import videos_of
from vidcap_jax.inference.members import joint_provenance

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAMPLING = {'uniform': 4}


@pytest.fixture(scope='module')
def restored(tmp_path_factory):
  """A model, three steps old, of a stream that can be made of video files."""
  folder = tmp_path_factory.mktemp('predict')
  made_by = extractors.describe('random_sequence', SAMPLING)
  del made_by['kind']
  channels = extractors.get('random_sequence').channels
  data = tiny.build(folder / 'set', channels=channels, max_frames=3, **made_by)
  with tiny.without_java():
    workdir = tiny.run(tiny.short_config(data), folder / 'work')
  return restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())


@pytest.fixture
def clips(tmp_path):
  """Two folders with a good.mp4 each, the first with an empty file too."""
  for name, level in (('first', 40), ('second', 200)):
    (tmp_path / name).mkdir()
    write_video(tmp_path / name / 'good.mp4', [gray(level + i) for i in range(6)])
  (tmp_path / 'first' / 'empty.mp4').touch()
  return tmp_path


def test_a_bad_video_does_not_stop_the_others(restored, clips, capsys):
  inputs = [clips / 'first', clips / 'missing.mp4', clips / 'second']
  capsys.readouterr()
  assert predict.predict(restored, ','.join(str(path) for path in inputs)) == 1
  out, err = capsys.readouterr()
  made = [json.loads(line) for line in out.splitlines()]
  assert [one['video_id'] for one in made] == ['good', 'good']
  assert all(one['caption'] for one in made)
  reported = err.splitlines()
  assert any(str(clips / 'first' / 'empty.mp4') in line for line in reported)
  assert any(str(clips / 'missing.mp4') in line for line in reported)
  assert f"{clips / 'second' / 'good.mp4'}: a second video called 'good'" in reported
  assert reported[-1] == '2 of 4 inputs failed'


def test_an_unexpected_error_stops_only_its_file(restored, clips, capsys, monkeypatch):
  names = ('no_memory', 'too_large', 'good')
  for name in names:
    shutil.copy(clips / 'second' / 'good.mp4', clips / f'{name}.mp4')
  extract = extraction.extract_video

  def extract_video(path, *rest):
    if path.stem == 'no_memory':
      raise MemoryError('4 GiB')
    arrays = extract(path, *rest)
    return {n: a * 1e6 for n, a in arrays.items()} if path.stem == 'too_large' else arrays

  monkeypatch.setattr(extraction, 'extract_video', extract_video)
  assert predict.predict(restored, ','.join(str(clips / f'{name}.mp4') for name in names)) == 1
  out, err = capsys.readouterr()
  assert json.loads(out)['video_id'] == 'good'
  no_memory, too_large, summary = err.splitlines()
  assert no_memory == f'{clips / "no_memory.mp4"}: MemoryError: 4 GiB'
  assert too_large.startswith(f"{clips / 'too_large.mp4'}: stream 'image': values that float16")
  assert summary == '2 of 3 inputs failed'


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


def test_a_checkpoint_stores_the_provenance_of_its_streams(restored, clips, capsys):
  limits = {'max_frames': {'image': 3}}
  assert restored.meta['making'] == {'beside': [], 'options': limits}
  video = str(clips / 'second' / 'good.mp4')
  extract_folder.extract(
    {'good': clips / 'second' / 'good.mp4'},
    {'image': extractors.describe('random_sequence', SAMPLING)},
    clips / 'features',
    workers=1,
  )
  whole = np.load(clips / 'features' / 'image' / 'good.npy')
  for inputs in (video, str(clips / 'features' / 'image')):
    ((_, made),) = videos_of(joint_provenance([restored]), inputs)
    np.testing.assert_array_equal(made.features['image'], whole[[0, 2, 3]], strict=True)
  # One that was made before they did.
  meta = {k: v for k, v in restored.meta.items() if k != 'making'}
  old = dataclasses.replace(restored, meta=meta)
  ((_, made),) = videos_of(joint_provenance([old]), video)
  np.testing.assert_array_equal(made.features['image'], whole, strict=True)
  for members in ((old, restored), (restored, old)):
    assert joint_provenance(members).options == limits
  capsys.readouterr()
  assert predict.predict(old, video) == 0
  assert json.loads(capsys.readouterr().out)['video_id'] == 'good'


def test_models_whose_streams_were_made_differently(restored):
  def other(options=None, name='image', **changes):
    streams = (dataclasses.replace(restored.streams[0], name=name, **changes),)
    made = {'options': options or restored.meta['making']['options']}
    return dataclasses.replace(restored, meta={**restored.meta, 'making': made}, streams=streams)

  clock = [{'max_frames': {n: 9}, 'blocks': {n: 3}} for n in ('one', 'two')]
  for members, message in (
    ([restored, other(dtype='float32')], "'image': .* trained on dtype 'float32', .* 'float16'"),
    ([restored, other({'max_frames': {'image': 2}})], "'image': .* on --max_frames .*2.*3"),
    ([other(c, n) for c, n in zip(clock, ('one', 'two'))], 'on blocks .*two.*one'),
  ):
    with pytest.raises(DataError, match=f'{message}.*separately'):
      joint_provenance(members)
  beside = other({'max_regions': {'objects': 2}}, 'objects')
  assert joint_provenance([restored, beside]).options == {
    'max_frames': {'image': 3},
    'max_regions': {'objects': 2},
  }


def test_sampling_depends_on_the_place_as_in_evaluation(restored, tmp_path, capsys):
  again = restore.restore(restored.path, restored.mesh, ['method=sample'])
  array = np.ones((3, restored.streams[0].channels), np.float16)
  ids = [f'v{i}' for i in range(predict.BATCH + 2)]
  for name in ids:
    np.save(tmp_path / f'{name}.npy', array)
  assert predict.predict(again, str(tmp_path)) == 0
  made = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  videos = [Video(name, (), {'image': array}) for name in ids]
  assert made == captioning.captioner_of(again, predict.BATCH)(videos, ids)
  assert len({video['log_prob'] for video in made}) == len(ids)


def test_pictures_and_folders_of_frames(restored, tmp_path, capsys):
  image = pytest.importorskip('PIL.Image')
  images = [gray(20 * i) for i in range(1, 12)]
  (tmp_path / 'frames').mkdir()
  (tmp_path / 'photos').mkdir()
  for i, frame in enumerate(images):
    image.fromarray(frame).save(tmp_path / 'frames' / f'f{i}.png')
  for name in ('cat.jpg', 'dog.webp'):
    image.fromarray(gray(99)).save(tmp_path / 'photos' / name)
  (tmp_path / 'photos' / 'bird.png').write_text('no picture')
  image.fromarray(images[0]).save(tmp_path / 'one.png')
  write_video(tmp_path / 'frames.mp4', images)
  inputs = ','.join(str(tmp_path / n) for n in ('one.png', 'frames/', 'photos', 'frames.mp4'))
  capsys.readouterr()
  assert predict.predict(restored, inputs) == 1
  out, err = capsys.readouterr()
  captions = [json.loads(line) for line in out.splitlines()]
  ids = ['one', 'frames', 'cat', 'dog', 'frames']
  assert [caption['video_id'] for caption in captions] == ids
  assert 'bird.png: ' in err
  np.testing.assert_allclose(captions[1]['log_prob'], captions[4]['log_prob'], rtol=0.01)

  single = [where for where, _ in videos_of(restored_provenance(restored), inputs, 'single')]
  assert len(single) == 1 + 11 + 3 + 1
  with pytest.raises(DataError, match='--frame_rate=fast'):
    videos_of(restored_provenance(restored), inputs, frame_rate='fast')


def restored_provenance(restored):
  return joint_provenance([restored])
