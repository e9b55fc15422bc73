"""The attention command: its files, what it escapes, and what it refuses."""

import json

import numpy as np
import pytest

from tests import tiny
from vidcap_jax.errors import UserError
from vidcap_jax.studies import attention


def call(tiny_run, output, *more):
  attention.main(['--checkpoint', str(tiny_run), '--split=val', '--output', str(output), *more])


@pytest.fixture(scope='module')
def output(tiny_run, tmp_path_factory):
  folder = tmp_path_factory.mktemp('out')
  call(tiny_run, folder, '--ids=v8,v7')
  return folder


def test_files(output):
  entries = json.loads((output / 'attention.json').read_text())['videos']
  assert [entry['video_id'] for entry in entries] == ['v8', 'v7']
  for entry in entries:
    described = entry['attentions']['temporal']
    arrays = np.load(output / entry['weights'])
    assert described['axes'] == ['caption', 'frames']
    assert arrays['temporal'].shape == tuple(described['shape'])
    assert arrays['caption'].tolist() == entry['words']
    assert described['strongest_frame'] == arrays['temporal'].argmax(-1).tolist()
    assert (output / entry['picture']).read_bytes().startswith(b'\x89PNG')
  page = (output / 'index.html').read_text()
  assert page.count('data:image/png') == 2


def test_a_given_caption_is_escaped(tiny_run, tmp_path, capsys):
  call(tiny_run, tmp_path, '--ids=v7', '--caption=<script>alert("red")</script> ball')
  assert '<script>' not in (tmp_path / 'index.html').read_text()
  assert 'ball' in json.loads((tmp_path / 'attention.json').read_text())['videos'][0]['words']
  assert 'script' in capsys.readouterr().err  # not in the vocabulary


@pytest.mark.parametrize(
  ('arguments', 'named'),
  [
    (['--ids=v77'], 'v77.*v7'),
    (['--split=nowhere'], 'nowhere.*val'),
    (['--videos=/nowhere'], '--videos=/nowhere'),
    (['--inputs=a.npy', '--ids=v7'], '--inputs.*--ids'),
    (['--inputs=a.npy', '--boxes=image'], '--inputs.*--boxes'),
    (['--boxes=image'], '--boxes=image.*sequence'),
    (['--caption= '], '--caption'),
    (['--decode=pass=first'], 'pass.*TemporalSpatial'),
  ],
)
def test_what_is_refused(tiny_run, tmp_path, arguments, named):
  with pytest.raises(SystemExit, match=f'(?s)error: .*{named}'):
    call(tiny_run, tmp_path / 'out', *arguments)
  assert not (tmp_path / 'out').exists()


def test_each_head_is_explained_where_asked_for(tiny_run, tmp_path, monkeypatch):
  heads_given = []

  def explain(*_, heads):
    heads_given.append(heads)
    raise UserError('enough')

  monkeypatch.setattr(attention, 'explain', explain)
  for flags in ([], ['--heads']):
    with pytest.raises(SystemExit, match='enough'):
      call(tiny_run, tmp_path, '--ids=v7', *flags)
  assert heads_given == [False, True]


def test_features_as_inputs(tiny_run, tmp_path):
  (tmp_path / 'image').mkdir()
  np.save(tmp_path / 'image' / 'mine.npy', np.ones((3, tiny.CHANNELS), np.float32))
  call(tiny_run, tmp_path / 'out', f'--inputs={tmp_path}/image/mine.npy')
  (entry,) = json.loads((tmp_path / 'out' / 'attention.json').read_text())['videos']
  assert entry['video_id'] == 'mine'
  assert entry['source'] is None


def test_the_exit_code_if_an_input_fails(tiny_run, tmp_path, capsys):
  (tmp_path / 'image').mkdir()
  good, bad = tmp_path / 'image' / 'good.npy', tmp_path / 'image' / 'bad.npy'
  np.save(good, np.ones((3, tiny.CHANNELS), np.float32))
  bad.write_text('no array')
  with pytest.raises(SystemExit) as ended:
    call(tiny_run, tmp_path / 'out', f'--inputs={good},{bad}')
  assert ended.value.code == 1
  entries = json.loads((tmp_path / 'out' / 'attention.json').read_text())['videos']
  assert [entry['video_id'] for entry in entries] == ['good']
  (line,) = [line for line in capsys.readouterr().err.splitlines() if 'bad.npy' in line]
  assert line.count('bad.npy') == 1
