"""Pictures at the end of a run."""

import os
import shutil

import pytest

from tests import tiny
from tests.vidcap_jax.training.test_metric_log import events
from vidcap_jax.errors import UserError
from vidcap_jax.studies import run_pictures

pytest.importorskip('matplotlib')


@pytest.fixture
def workdir(tiny_run, tmp_path):
  return shutil.copytree(tiny_run, tmp_path / 'work')


@pytest.fixture
def config(tiny_data):
  config = tiny.get_config(tiny_data)
  config.log.tensorboard = config.log.pictures = True
  return config


def test_pictures_are_drawn_once(workdir, config):
  lines = []
  run_pictures.draw(config, workdir, lines.append)
  assert (workdir / 'curves.png').read_bytes().startswith(b'\x89PNG')
  (picture,) = (workdir / 'attention').glob('*.png')
  assert picture.stem in (workdir / 'attention' / 'attention.json').read_text()
  assert any('curves.png' in line for line in lines)
  shown = events(workdir / 'tensorboard' / 'xe')
  assert [value.tag for event in shown for value in event.summary.value] == ['attention']
  assert shown[-1].step > 0 < shown[-1].summary.value[0].image.width

  lines.clear()
  run_pictures.draw(config, workdir, lines.append)
  assert not lines
  os.utime(workdir / 'metrics.jsonl')  # the run went on
  config.log.tensorboard = False
  run_pictures.draw(config, workdir, lines.append)
  assert len(lines) == 2


def test_a_failure_does_not_fail_the_run(workdir, config, monkeypatch):
  def fail(*_):
    raise UserError('no such split')

  monkeypatch.setattr(run_pictures.curves, 'draw', fail)
  monkeypatch.setattr(run_pictures, 'draw_attention', fail)
  lines = []
  run_pictures.draw(config, workdir, lines.append)
  assert len(lines) == 2
  assert all('no such split' in line for line in lines)


def test_seeds_have_curves_but_no_attention(tiny_run, tmp_path, config):
  for seed in (0, 1):
    (tmp_path / f'seed_{seed}').mkdir()
    shutil.copy(tiny_run / 'metrics.jsonl', tmp_path / f'seed_{seed}')
  config.seeds = (0, 1)
  lines = []
  run_pictures.draw(config, tmp_path, lines.append)
  assert (tmp_path / 'curves.png').is_file()
  assert len(lines) == 1


def test_a_run_that_wants_no_pictures(workdir, config):
  config.log.pictures = False
  run_pictures.draw(config, workdir, pytest.fail)
  assert not (workdir / 'curves.png').exists()


def test_without_matplotlib_nothing_is_drawn(workdir, config, monkeypatch):
  def figure():
    raise ModuleNotFoundError('matplotlib')

  monkeypatch.setattr(run_pictures, 'figure', figure)
  run_pictures.draw(config, workdir, pytest.fail)
  assert not (workdir / 'curves.png').exists()
