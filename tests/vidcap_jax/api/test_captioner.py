"""Captions from Python: order, errors as results, threads, and nothing compiled twice."""

import concurrent.futures
import contextlib
import json
import math
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vidcap_jax as vc
from tests.video_files import write_video
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.features import extraction
from vidcap_jax.inference import predict


@pytest.fixture(scope='module')
def captioner(workspace):
  return vc.load(workspace / 'runs' / 'mine')


@pytest.fixture(scope='module')
def array(workspace, captioner):
  """The features of clip.mp4, as a file of them would hold them."""
  stream = captioner.streams['image']
  made = {'extractor': stream.extractor, 'version': stream.version, 'sampling': stream.sampling}
  return extraction.extract_video(workspace / 'clip.mp4', {'image': made})['image']


@contextlib.contextmanager
def compilations():
  """A list that grows with each program that is compiled."""
  events = []

  def listen(name, seconds, **_):
    if name == '/jax/core/compile/backend_compile_duration':
      events.append(seconds)

  jax.monitoring.register_event_duration_secs_listener(listen)
  try:
    yield events
  finally:
    jax.monitoring.unregister_event_duration_listener(listen)


def test_results_are_in_the_order_of_the_inputs(captioner, inside):
  paths = ['photo.png', pathlib.Path('folder'), 'clip.mp4', 'short.mp4']
  results = captioner.caption(iter(paths))
  assert [result.video_id for result in results] == ['photo', 'b', 'c', 'clip', 'short']
  assert [result.source for result in results][1:3] == ['folder/b.mp4', 'folder/c.mp4']
  for result in results:
    assert result.caption
    assert result.error is None
    assert result.captions == (vc.Candidate(result.caption, result.log_prob),)
  assert captioner.caption('clip.mp4') == [results[3]]


def test_captions_are_those_of_the_command(captioner, inside, capsys):
  results = captioner.caption(['clip.mp4', 'folder'])
  restored = restore.restore(restore.find_checkpoint('runs/mine'), mesh.make_mesh())
  capsys.readouterr()
  assert predict.predict(restored, 'clip.mp4,folder') == 0
  printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [result.to_dict() for result in results] == printed


def test_a_bad_input_is_a_result_with_its_error(captioner, inside):
  (inside / 'empty').mkdir(exist_ok=True)
  inputs = [*('gone.mp4', 'clip.mp4', 'damaged.mp4', 'empty', '', 'gone/'), 'short.mp4', 'gone.npy']
  results = captioner.caption(inputs)
  assert [result.error is None for result in results] == [False, True, *[False] * 4, True, False]
  assert [result.video_id for result in results.failed] == [
    *('gone', 'damaged', 'empty', '', 'gone', 'gone')
  ]
  for result, name in zip(results.failed, ('gone.mp4', 'damaged.mp4', 'empty', 'empty path')):
    assert name in result.error
    assert (result.caption, result.log_prob, result.captions) == (None, None, ())
  assert captioner.caption([]) == []
  assert captioner.caption(features=[]) == []


def test_a_partly_damaged_video_is_captioned_with_a_note(captioner, tmp_path, capsys):
  images = np.random.default_rng(0).integers(0, 255, (40, 48, 64, 3), dtype=np.uint8)
  path = write_video(tmp_path / 'cut.mp4', list(images), options={'movflags': 'faststart'})
  data = path.read_bytes()
  path.write_bytes(data[: len(data) // 2])
  (result,) = captioner.caption(path)
  assert result.caption
  assert str(path) in result.notes[0]
  assert predict.predict(captioner.members[0], str(path)) == 0
  printed = capsys.readouterr().err.splitlines()
  assert printed[-len(result.notes) :] == list(result.notes)


def test_features_are_arrays_of_any_kind(captioner, array, inside):
  (of_file,) = captioner.caption('clip.mp4')
  np.save('features.npy', array)
  forms = [array, jnp.asarray(array), array.tolist(), array.astype(np.float64)]
  results = captioner.caption(features=[{'image': form} for form in forms], ids=list('abcd'))
  results += captioner.caption(features={'image': pathlib.Path('features.npy')})
  results += captioner.caption('features.npy')
  assert [result.video_id for result in results] == [*'abcd', 'features', 'features']
  for result in results:
    assert result.caption == of_file.caption
    assert math.isclose(result.log_prob, of_file.log_prob, rel_tol=1e-4)
  (whole,) = captioner.caption(features={'image': jnp.ones((5, 128), jnp.bfloat16)})
  assert (whole.video_id, whole.error) == ('0', None)


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    (lambda x: {'imag': x}, ['missing: image', 'unknown: imag', 'did you mean image']),
    (lambda x: {}, ['0: ', 'missing: image']),
    (lambda x: {'image': None}, ['missing: image']),
    (lambda x: {'image': x, 'motion': x}, ['unknown: motion']),
    (lambda x: {'image': x[:, :5]}, ["'image'", r'(6, 5)', '(any, 128)']),
    (lambda x: {'image': x[0]}, ["'image'", '(128,)']),
    (lambda x: {'image': x[None]}, ["'image'", '(1, 6, 128)']),
    (lambda x: {'image': np.float32(3)}, ["'image'", '()']),
    (lambda x: {'image': x[:0]}, ["'image'", 'no frames']),
    (lambda x: {'image': np.where(x == x.max(), np.nan, x)}, ["'image'", 'NaN']),
    (lambda x: {'image': x + 1e6}, ["'image'", 'float16']),
    (lambda x: {'image': [[1.0], [1.0, 2.0]]}, ["0: stream 'image'", 'not an array']),
    (lambda x: {'image': np.array(['a', 'b'])}, ["'image'", 'not real numbers']),
    (lambda x: {'image': 'gone.npy'}, ["'image'", 'gone.npy']),
    (lambda x: {'motion': 'gone.npy'}, ['missing: image', 'unknown: motion']),
  ],
)
def test_features_that_do_not_fit(captioner, change, words):
  features = np.ones((6, 128), np.float32)
  bad, good = captioner.caption(features=[change(features), {'image': features}])
  assert good.error is None
  assert all(word in bad.error for word in words), bad.error


def test_the_second_call_compiles_nothing(captioner, inside):
  def calls():
    captioner.caption('clip.mp4', captions=2, attention=True)
    captioner.caption(['folder', 'photo.png'], captions=2, attention=True)
    captioner.caption(features=[{'image': np.ones((n, 128))} for n in range(1, 12)])

  calls()
  with compilations() as compiled:
    calls()
    assert not compiled
    captioner.caption('clip.mp4', min_length=3)  # the count counts
    assert compiled


def test_threads_share_a_captioner(workspace, captioner):
  inputs = [workspace / name for name in ('clip.mp4', 'folder', 'photo.png', 'damaged.mp4')]
  alone = [captioner.caption(each) for each in inputs]
  new = vc.load(workspace / 'runs' / 'mine')
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    together = list(pool.map(new.caption, inputs * 3))
  assert together == alone * 3


def test_several_captions_with_attention(captioner, inside):
  settings = {'captions': 3, 'beam': 4, 'attention': True}
  results = captioner.caption('clip.mp4', **settings)
  results += captioner.caption(features={'image': np.ones((2, 128))}, **settings)
  for result, frames in zip(results, (3, 2), strict=True):
    assert len({candidate.caption for candidate in result.captions}) == 3
    scores = [candidate.log_prob for candidate in result.captions]
    assert scores == sorted(scores, reverse=True)
    assert result.captions[0] == vc.Candidate(result.caption, result.log_prob)
    attention = result.attention['temporal']
    assert attention.axes.axes == ('frames',)
    assert attention.axes.stream == 'image'
    assert attention.weights.shape == (len(result.words), frames)
    np.testing.assert_allclose(attention.weights.sum(-1), 1, rtol=1e-5)
  (plain,) = captioner.caption('clip.mp4')
  assert plain.attention == {}


def test_an_ensemble(captioner, workspace, inside):
  both = vc.load(['runs/mine', pathlib.Path('runs/mine/checkpoints/xe/3')], weights=[2, 1])
  (of_both,) = both.caption('clip.mp4', attention=True)
  (single,) = captioner.caption('clip.mp4', attention=True)
  assert of_both.caption == single.caption
  assert math.isclose(of_both.log_prob, single.log_prob, rel_tol=1e-4)
  assert list(of_both.attention) == ['temporal of 0', 'temporal of 1']
  np.testing.assert_allclose(
    of_both.attention['temporal of 1'].weights, single.attention['temporal'].weights, rtol=1e-5
  )
  assert repr(both).count('checkpoint: ') == 2


def test_a_captioner_shows_what_it_is(captioner):
  shown = repr(captioner)
  for words in ('temporal_spatial', 'image, sequence (T, 128)', 'random_sequence', 'step 3'):
    assert words in shown
  assert f'{len(captioner.words)} words' in shown
  assert "method='greedy'" in shown


def test_faults_of_the_caller_are_exceptions(captioner):
  with pytest.raises(TypeError, match='bean.*beam'):
    captioner.caption('clip.mp4', bean=3)
  with pytest.raises(TypeError, match='inputs.*features'):
    captioner.caption()
  with pytest.raises(TypeError, match='inputs.*features'):
    captioner.caption('clip.mp4', features={})
  with pytest.raises(TypeError, match='ids'):
    captioner.caption('clip.mp4', ids=['a'])
  with pytest.raises(ConfigError, match='ids.*1'):
    captioner.caption(features={'image': np.ones((2, 128))}, ids=['a', 'b'])
  with pytest.raises(ConfigError, match='ids.*files'):
    captioner.caption(features={'image': 'features.npy'}, ids=['a'])
  with pytest.raises(TypeError, match='ndarray'):
    captioner.caption(features=np.ones((2, 128)))
  with pytest.raises(TypeError):
    captioner.caption([3])
  with pytest.raises(ConfigError, match='pictures'):
    captioner.caption('clip.mp4', pictures='all')
  with pytest.raises(DataError, match='frame_rate'):
    captioner.caption('clip.mp4', frame_rate=0)
  with pytest.raises(ConfigError, match='beam.*two'):
    captioner.caption('clip.mp4', beam='two')


def test_checkpoints_that_are_not_there(workspace, inside, tmp_path):
  for path in ('runs/gone', 'data/mine', ''):
    with pytest.raises(vc.UserError, match=f'checkpoint={path}'):
      vc.load(path)
  for path in (None, 3):
    with pytest.raises(TypeError, match=f'path.*{path}'):
      vc.load(path)
  with pytest.raises(vc.UserError, match='checkpoint'):
    vc.load([])
  with pytest.raises(vc.UserError, match='weights'):
    vc.load('runs/mine', weights=[1])
  with pytest.raises(vc.UserError, match='2.*weights'):
    vc.load(['runs/mine', 'runs/mine'], weights=[1])
  with pytest.raises(ConfigError, match='batch_size=0'):
    vc.load('runs/mine', batch_size=0)
  # A step that is deleted after loading is not read again; one that is half deleted is an error.
  shutil.copytree('runs/mine', tmp_path / 'run')
  step = tmp_path / 'run' / 'checkpoints' / 'xe' / '3'
  loaded = vc.load(tmp_path / 'run')
  shutil.rmtree(step / 'params')
  assert loaded.caption('clip.mp4')[0].caption
  assert 'step 3' in repr(loaded)
  with pytest.raises(vc.UserError, match=str(step)):
    vc.load(tmp_path / 'run')


def test_only_a_call_that_compiles_says_so(workspace, inside, capsys):
  new = vc.load('runs/mine')
  capsys.readouterr()
  for settings, compiles in (
    ({}, True),
    ({}, False),
    ({'attention': True}, True),
    ({'attention': True}, False),
    ({'beam': 2, 'attention': True}, True),
    ({'beam': 2}, False),
    ({'min_length': 2, 'progress': False}, False),
  ):
    new.caption('clip.mp4', **settings)
    assert ('compiling' in capsys.readouterr().err) == compiles
