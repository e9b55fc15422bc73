"""An embedding as a stage: training, validation, the best checkpoint, evaluation of it."""

import json

import jax
import numpy as np
import pytest

from configs import vatex_fusion
from tests import tiny
from tests.vidcap_jax.evaluation.test_retrieval import brute_force
from vidcap_jax.checkpoints import checkpoint, restore
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import evaluate, results, retrieval
from vidcap_jax.inference import captioning, predict
from vidcap_jax.models.streams import to_inputs
from vidcap_jax.training.metric_log import read_metric_log


def embedding_config(data, **eval_settings):
  """16 steps of an embedding of the tiny data, validated twice."""
  config = tiny.get_config(data)
  with config.unlocked():
    stage = vatex_fusion.embedding(small=True)
    stage.model.streams = ('image',)
    stage.train.batch_size = 8
    stage.optimizer.learning_rate = 0.02
    config.order, config.stages = ('embedding',), {'embedding': stage}
  config.eval.splits = ('val', 'test')
  config.eval.metrics = ('no such metric',)  # of captions: there are none
  stage.eval.update(eval_settings)
  return config


@pytest.fixture(scope='module')
def workdir(tiny_data, tmp_path_factory):
  return tiny.run(embedding_config(tiny_data), tmp_path_factory.mktemp('embedding') / 'work')


@pytest.fixture(scope='module')
def restored(workdir):
  return restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())


def test_training_and_validation(workdir):
  records = read_metric_log(workdir)
  losses = [r['loss'] for r in records if r['kind'] == 'train']
  assert len(losses) == 16
  assert np.mean(losses[-4:]) < np.mean(losses[:4]) / 2
  validations = [r for r in records if r['kind'] == 'val']
  assert [r['step'] for r in validations] == [8, 16]
  evaluated = json.loads((workdir / 'eval' / 'val' / 'metrics.json').read_text())
  assert [r['signature'] for r in validations] == [evaluated['signature']] * 2
  assert set(validations[0]) - {'stage', 'step', 'kind', 'signature'} == {
    *retrieval.SCORES,
    'video_to_text_median_rank',
    'text_to_video_median_rank',
  }
  stage = json.loads((workdir / 'stages.json').read_text())['embedding']
  assert stage['best_score'] == max(r['rsum'] for r in validations)
  best = [r['step'] for r in validations if r['rsum'] == stage['best_score']][-1]
  assert stage['best_step'] == best
  assert checkpoint.best_step(workdir / 'checkpoints' / 'embedding') == best


def test_evaluation(workdir, restored, tiny_data):
  """Against all captions embedded at once and ranked one by one."""
  report = json.loads((workdir / 'eval' / 'val' / 'metrics.json').read_text())
  videos = list(open_split(tiny_data, 'val'))
  captions = [c for video in videos for c in video.captions]
  owner = np.repeat(np.arange(3), [len(video.captions) for video in videos])
  words = np.stack([restored.vocabulary.encode(c, restored.length) for c in captions])
  apply = jax.jit(restored.module.apply, static_argnames='method')
  texts = apply({'params': restored.params}, words[None], words[None] > 0, method='embed_captions')
  batches = captioning.eval_batches(
    videos,
    restored.vocabulary,
    restored.streams,
    restored.module.config.needs,
    restored.config,
    restored.mesh,
  )
  ((_, batch),) = batches
  inputs = to_inputs(batch, restored.streams, restored.config.data.standardise)
  seen = apply({'params': restored.params}, inputs, method='embed_videos')[:3]
  ranks = brute_force(np.asarray(seen), np.asarray(texts)[0], owner)
  expected = retrieval.scores(*ranks)
  assert {name: report[name] for name in expected} == expected
  assert list(report['intervals']) == list(expected)
  assert all(low <= high for low, high in report['intervals'].values())
  assert (report['videos'], report['captions'], report['references']) == (3, len(captions), True)
  assert (report['stage'], report['checkpoint']) == ('embedding', str(restored.path))
  assert not (workdir / 'eval' / 'val' / 'captions.json').exists()
  records = [r for r in read_metric_log(workdir) if r['kind'] == 'val']
  assert report['rsum'] == max(r['rsum'] for r in records)


def test_from_the_command_line(workdir, restored, tmp_path, capsys):
  found, folder = evaluate.evaluate_command(restored, None, 'val', str(tmp_path))
  report = json.loads((folder / 'metrics.json').read_text())
  whole = json.loads((workdir / 'eval' / 'val' / 'metrics.json').read_text())
  assert report == whole
  output = results.summary(found)
  assert '3 videos, ' in output
  assert output.endswith(f'\nsignature: {report["signature"]}')
  assert '|scorers:retrieval|split:val|' in report['signature']
  assert capsys.readouterr().err.splitlines() == [
    'embedding videos of val: 0/3 videos, compiling',
    f'embedding captions of val: 0/{report["captions"]} captions, compiling',
  ]
  ends = '({:.4f} to {:.4f})'.format(*report['intervals']['text_to_video_R@1'])
  assert f'text to video: R@1 {report["text_to_video_R@1"]:.4f} {ends}' in output


def test_a_split_without_captions(workdir):
  report = json.loads((workdir / 'eval' / 'test' / 'metrics.json').read_text())
  assert (report['videos'], report['captions'], report['references']) == (2, 0, False)
  assert not {'rsum', 'signature'} & set(report)
  assert results.summary(report) == '2 videos, no captions to retrieve'


def test_a_finished_run_is_not_trained_again(workdir, tiny_data, capsys):
  tiny.run(embedding_config(tiny_data), workdir)
  output = capsys.readouterr().out
  assert '[embedding] finished before: best rsum ' in output
  assert 'loss' not in output


def test_an_embedding_makes_no_captions(restored, tiny_run, tiny_data, tmp_path):
  message = "is of model 'embedding', which compares captions with videos and makes none; give the"
  with pytest.raises(ConfigError, match=message):
    predict.predict(restored, 'image=/nowhere')
  captioner = restore.restore(restore.find_checkpoint(str(tiny_run)), restored.mesh)
  for pair in ((captioner, restored), (restored, captioner)):
    with pytest.raises(ConfigError, match=message):
      evaluate.evaluate(pair[0], tiny_data, 'test', tmp_path / 'out', fallback=pair[1])


@pytest.mark.parametrize(
  ('metric', 'split', 'error', 'message'),
  [
    ('CIDEr', 'val', ConfigError, "eval.metric 'CIDEr'.*: R@1, R@5, R@10, rsum, video_to"),
    ('text_to_video_median_rank', 'val', ConfigError, 'eval.metric .*median_rank'),
    ('R@1', 'test', DataError, "no video of split 'test' has a caption to retrieve"),
  ],
)
def test_errors_are_raised_before_training(metric, split, error, message, tiny_data, tmp_path):
  config = embedding_config(tiny_data, metric=metric)
  config.data.val_split = split
  with pytest.raises(error, match=message):
    tiny.run(config, tmp_path / 'work')
  assert read_metric_log(tmp_path / 'work') == []
