"""Key frames saved by one stage and fixed in the next: the refocused encoder's four phases."""

import json
import shutil

import numpy as np
import pytest
from ml_collections import ConfigDict

from benchmarks import run_results
from tests import tiny
from vidcap_jax.checkpoints import checkpoint, restore
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import evaluate, results
from vidcap_jax.inference import captioning, predict
from vidcap_jax.models.streams import to_inputs
from vidcap_jax.training.metric_log import read_metric_log

VIDEOS = len(tiny.SPLITS)


def phases(data) -> ConfigDict:
  """Step 1, joint training with rewards, choosing, and going on with the key frames fixed."""
  c = tiny.small_config(data, epochs=3.0)
  reward = {'name': 'refocus', 'beta': 0.03, 'reward_loss': 'eq21'}
  with c.unlocked():
    c.model = ConfigDict(
      {
        'name': 'refocus',
        'passes': 2,
        'spatial_stream': '',
        'audio_stream': '',
        'hidden': 8,
        'embed': 8,
        'attention': 8,
        'dropout': 0.5,
      }
    )
    c.order = ('step1', 'joint', 'choose', 'fixed')
    c.stages = ConfigDict(
      {
        'step1': {'model': {'passes': 1}, 'train': {'epochs': 1.0}},
        'joint': {'objective': reward, 'train': {'init_from': 'stage:step1'}},
        'choose': {'task': 'key_frames', 'train': {'init_from': 'stage:joint'}},
        'fixed': {
          'objective': {**reward, 'beta': 0.0},
          'data': {'key_frames': 'stage:choose'},
          'train': {'init_from': 'stage:joint', 'epochs': 1.0},
        },
      }
    )
  c.checkpoint.keep = 9
  return c


@pytest.fixture(scope='module')
def finished(tiny_data, tmp_path_factory):
  """The config, the workdir of a finished run, and its state while ``joint`` was half done."""
  folder = tmp_path_factory.mktemp('phases')
  config, moments = phases(tiny_data), {('train', 5)}
  with tiny.without_java(), tiny.copied_at(folder / 'whole', folder / 'shots', moments):
    return config, tiny.run(config, folder / 'whole'), folder / 'shots'


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


# ---------------------------------------------------------------- the four phases


def test_every_phase_leaves_what_the_next_needs(finished, capsys):
  config, workdir, _ = finished
  stages = json.loads((workdir / 'stages.json').read_text())
  assert list(stages) == ['step1', 'joint', 'choose', 'fixed']
  saved = json.loads((workdir / 'key_frames' / 'choose.json').read_text())
  joint = workdir / 'checkpoints' / 'joint'
  assert saved['checkpoint'] == str(joint / str(checkpoint.best_step(joint)))
  assert stages['choose']['videos'] == VIDEOS
  assert {split: len(frames) for split, frames in saved['splits'].items()} == {
    'train': 7,
    'val': 3,
    'test': 2,
  }
  # A video of 2 + i % 3 frames has no others to choose from.
  for frames in saved['splits'].values():
    assert all(0 <= frame < 2 + int(video[1:]) % 3 for video, frame in frames.items())
  assert len(set(saved['splits']['train'].values())) > 1
  for folder in ('eval/step1/test', 'eval/joint/test', 'eval/test'):
    assert (workdir / folder / 'captions.json').is_file()
  assert not (workdir / 'eval' / 'choose').exists()
  # A workdir stands for its last trained stage.
  assert restore.find_checkpoint(str(workdir)).parent.name == 'fixed'


def test_the_key_frames_are_those_that_the_model_chooses(finished, tiny_data):
  """One video at a time, from the memory itself."""
  _, workdir, _ = finished
  saved = json.loads((workdir / 'key_frames' / 'choose.json').read_text())
  restored = restore.restore(restore.find_checkpoint(saved['checkpoint']), mesh.make_mesh())
  source = open_split(tiny_data, 'val')
  needs = restored.module.config.needs
  batches = captioning.eval_batches(
    source, restored.vocabulary, restored.streams, needs, restored.config, restored.mesh
  )
  _, batch = next(batches)
  inputs = to_inputs(batch, restored.streams, restored.config.data.standardise)
  memory = restored.module.apply({'params': restored.params}, inputs, method='encode')
  chosen = [int(frame) for frame in memory.focus.key_frame[: len(source)]]
  assert chosen == [saved['splits']['val'][video.video_id] for video in source]


def test_rewards_are_part_of_the_checkpoints(finished):
  """R of every caption after the first joint epoch; the first adds no loss, the second does."""
  config, workdir, _ = finished
  records = [r for r in read_metric_log(workdir) if r['stage'] == 'joint' and r['kind'] == 'train']
  assert [r['step'] for r in records] == [1, 2, 3, 4, 5, 6]
  assert [r['reward_loss'] == 0 for r in records] == [True, True, False, False, False, False]
  assert all('first_pass' in r and 'second_pass' in r and 'reward' in r for r in records)
  found = run_results.read_run(workdir)['checkpoints']
  digests = {name: checkpoint['arrays'] for name, checkpoint in found.items()}
  tables = [digests[f'checkpoints/joint/{s}']["['training']['kept']"] for s in (2, 4, 6)]
  assert len(set(tables)) == 3
  assert all(table.startswith('float32(7, 4)') for table in tables)
  assert not any('kept' in name for name in digests['checkpoints/fixed/2'])


@pytest.mark.slow
def test_killed_while_rewards_are_compared(finished, tmp_path, capsys):
  """Resumed in the third joint epoch, with the rewards of the second: bit for bit the same."""
  config, workdir, shots = finished
  again = tmp_path / 'work'
  shutil.copytree(shots / 'train-5', again)
  assert list(json.loads((again / 'stages.json').read_text())) == ['step1']
  tiny.run(config, again)
  output = capsys.readouterr().out
  assert '[joint] restored step 4 ' in output or '[joint] restored step 2 ' in output
  found, expected = run_results.read_run(again), run_results.read_run(workdir)
  for noted in (found, expected):
    for folder in ('checkpoint', 'key_frames'):
      noted['stages']['choose'].pop(folder)
  assert found == expected
  saved = [json.loads((w / 'key_frames' / 'choose.json').read_text()) for w in (again, workdir)]
  assert saved[0]['splits'] == saved[1]['splits']


def test_finished_stages_are_not_run_again(finished, capsys):
  config, workdir, _ = finished
  times = {p: p.stat().st_mtime_ns for p in workdir.rglob('*') if p.is_file()}
  tiny.run(config, workdir)
  output = capsys.readouterr().out
  assert '[choose] finished before\n' in output
  assert '[fixed] finished before: best CIDEr ' in output
  assert {p: p.stat().st_mtime_ns for p in workdir.rglob('*') if p.is_file()} == times


# ---------------------------------------------------------------- fixed key frames


def restored_of(workdir, **changes):
  """The last stage's checkpoint, with other saved key frames if asked for."""
  restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())
  restored.meta.update(changes)
  return restored


def test_evaluation_goes_by_the_saved_key_frames(finished, tiny_data, tmp_path):
  config, workdir, _ = finished
  saved = json.loads((workdir / 'key_frames' / 'choose.json').read_text())['splits']
  restored = restored_of(workdir)
  assert restored.key_frames == {k: v for frames in saved.values() for k, v in frames.items()}
  report = json.loads((workdir / 'eval' / 'test' / 'metrics.json').read_text())
  assert report['key_frames'] == 'all 2 videos have a saved key frame'
  assert 'all 2 videos have a saved key frame' in results.summary(report)
  assert 'key_frames' not in json.loads((workdir / 'eval/joint/test/metrics.json').read_text())

  # Other frames, other captions' probabilities; unknown ones are the model's own.
  log_probs = lambda table: [  # noqa: E731
    c['log_prob']
    for c in captioning.captioner_of(restored_of(workdir, key_frames=table))(source, ids)
  ]
  source = open_split(tiny_data, 'test')
  ids = [video.video_id for video in source]
  lengths = [len(video.features['image']) for video in source]
  per_frame = [log_probs(dict.fromkeys(ids, frame)) for frame in range(2)]
  assert (np.abs(np.subtract(*per_frame)) > 1e-5).all()
  own = log_probs({})
  assert log_probs({'elsewhere': 0}) == own
  assert log_probs({ids[0]: 1}) == [per_frame[1][0], own[1]]
  assert min(lengths) >= 2


def test_videos_without_a_saved_key_frame_are_counted(finished, tiny_data, tmp_path, capsys):
  _, workdir, _ = finished
  restored = restored_of(workdir)
  kept = {k: v for k, v in restored.key_frames.items() if k != 'v10'}
  restored = restored_of(workdir, key_frames=kept)
  report = evaluate.evaluate(restored, tiny_data, 'test', tmp_path / 'eval')
  output = "1 of 2 videos have no saved key frame: the model's own is used"
  assert report['key_frames'] == output
  assert output in results.summary(report)

  np.save(tmp_path / 'new.npy', np.ones((3, tiny.CHANNELS), np.float32))
  capsys.readouterr()
  assert predict.predict(restored, f'image={tmp_path / "new.npy"}') == 0
  captured = capsys.readouterr()
  assert json.loads(captured.out)['video_id'] == 'new'
  assert captured.err == "1 of 1 videos have no saved key frame: the model's own is used\n"


def test_training_says_which_videos_have_one(finished, tmp_path, capsys):
  """A file may be given by its path, and need not name every video."""
  config, workdir, _ = finished
  saved = json.loads((workdir / 'key_frames' / 'choose.json').read_text())
  del saved['splits']['train']['v0']
  file = tmp_path / 'some.json'
  file.write_text(json.dumps(saved))
  other = config.copy_and_resolve_references()
  with other.unlocked():
    other.order = ('fixed',)
    other.stages.fixed.data.key_frames = str(file)
    other.stages.fixed.train.init_from = str(workdir)
    other.eval.splits = ()
  tiny.run(other, tmp_path / 'work')
  output = capsys.readouterr().out
  assert f"key frames of {file}: 1 of 7 videos have no saved key frame: the model's own" in output


# ---------------------------------------------------------------- errors


def changed(config, stage, changes) -> ConfigDict:
  """The config with that stage alone and changes to it."""
  other = config.copy_and_resolve_references()
  with other.unlocked():
    other.order = (stage,)
    other.stages[stage] = ConfigDict(changes)
  return other


@pytest.mark.parametrize(
  ('stage', 'changes', 'error', 'message'),
  [
    ('choose', {'task': 'choosing'}, ConfigError, "task 'choosing'; known: train, key_frames"),
    (
      'choose',
      {'task': 'key_frames'},
      ConfigError,
      "stage 'choose' has task .* no train.init_from",
    ),
    (
      'choose',
      {'task': 'key_frames', 'train': {'init_from': 'stage:joint'}},
      ConfigError,
      "init_from 'stage:joint' of stage 'choose' is no stage with task 'train' that runs before",
    ),
    (
      'fixed',
      {'data': {'key_frames': 'stage:choose'}},
      ConfigError,
      "key_frames 'stage:choose' of stage 'fixed' is no stage with task 'key_frames' that",
    ),
    (
      'fixed',
      {'data': {'key_frames': 'x.json'}},
      DataError,
      r"x.json: no such file; a stage with task 'key_frames' writes one",
    ),
    (
      'fixed',
      {'data': {'key_frames': 'x.json'}, 'model': {'passes': 0}},
      ConfigError,
      r"data.key_frames=x.json: model 'refocus' takes none; set it to ''",
    ),
  ],
)
def test_found_before_anything_is_computed(stage, changes, error, message, finished, tmp_path):
  config, _, _ = finished
  with pytest.raises(error, match=message):
    tiny.run(changed(config, stage, changes), tmp_path / 'work')
  assert read_metric_log(tmp_path / 'work') == []


def test_models_that_choose_none(finished, tmp_path):
  config, workdir, _ = finished
  source = str(workdir / 'checkpoints' / 'step1')
  other = changed(config, 'choose', {'task': 'key_frames', 'train': {'init_from': source}})
  with pytest.raises(ConfigError, match="no attention 'keyframe', only: temporal"):
    tiny.run(other, tmp_path / 'work')
  assert not (tmp_path / 'work' / 'key_frames').exists()


def test_frames_counted_otherwise(finished, tmp_path):
  config, workdir, _ = finished
  file = str(workdir / 'key_frames' / 'choose.json')
  other = changed(config, 'fixed', {'data': {'key_frames': file, 'max_frames': 3}})
  with pytest.raises(DataError, match=r'counted with data.max_frames 0, now it is 3'):
    tiny.run(other, tmp_path / 'work')
