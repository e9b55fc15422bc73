"""The folders that evaluations write their results to."""

import dataclasses
import pathlib

import pytest
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import evaluate


@pytest.fixture
def written_to(monkeypatch):
  """Calls evaluate_command with the given arguments and returns the folder of its results."""

  def command(*arguments, **others):
    folders = []

    def evaluate_into(restored, directory, split, output, *_):
      folders.append(str(output))
      return {'captions': 0, 'videos': 1}

    with monkeypatch.context() as patch:
      patch.setattr(evaluate, 'evaluate', evaluate_into)
      patch.setattr(evaluate, 'check_output', lambda *_, **__: None)
      patch.setattr(evaluate, 'ensemble_of', lambda *_, **__: None)
      evaluate.evaluate_command(*arguments, **others)
    return folders.pop()

  return command


def moved(restored, path, order=('xe',), **stages):
  """A checkpoint elsewhere, of a run of other stages."""
  config = ConfigDict(restored.config.to_dict())
  config.order, config.stages = order, ConfigDict(dict.fromkeys(order, {}) | stages)
  stage = pathlib.Path(path).parent.name
  meta = {**restored.meta, 'stage': stage if stage in order else order[-1]}
  return dataclasses.replace(restored, path=epath.Path(path), config=config, meta=meta)


@pytest.mark.parametrize(
  ('path', 'order', 'stages', 'folder'),
  [
    ('/w/checkpoints/b/8', ('a', 'b'), {}, '/w/eval/test'),
    ('/w/checkpoints/a/8', ('a', 'b'), {}, '/w/eval/a/test'),
    ('/w/checkpoints/b/8', ('b', 'f'), {'f': {'task': 'fuse'}}, '/w/eval/b/test'),
    ('/w/checkpoints/b/8', ('b', 'k'), {'k': {'task': 'key_frames'}}, '/w/eval/test'),
    ('w/checkpoints/b/8', ('a', 'b'), {}, f'{pathlib.Path.cwd()}/w/eval/test'),
  ],
)
def test_no_stage_replaces_the_results_of_another(
  path, order, stages, folder, restored, written_to
):
  checkpoint = moved(restored, path, order, **stages)
  assert written_to(checkpoint, 'data', 'test', None) == folder
  assert written_to(checkpoint, 'data', 'test', '/out') == '/out'


@pytest.mark.parametrize('path', ['/tmp/x/8', '/a/8', '/8'])
def test_a_checkpoint_outside_a_workdir_needs_an_output(path, restored, written_to):
  checkpoint = moved(restored, path)
  with pytest.raises(UserError, match=f'^{path} .*WORKDIR/checkpoints/xe.*--output=DIR'):
    written_to(checkpoint, 'data', 'test', None)
  assert written_to(checkpoint, 'data', 'test', '/out') == '/out'


def test_a_workdir_that_cannot_be_written_to(restored, tiny_data, tmp_path):
  """This is checked before the data set is opened."""
  (tmp_path / 'eval').write_text('')  # where a folder should be
  checkpoint = moved(restored, f'{tmp_path}/checkpoints/xe/8')
  with pytest.raises(UserError, match=f'^--output={tmp_path}/eval/test: .*Not a directory'):
    evaluate.evaluate_command(checkpoint, '/nowhere', 'test', None)
