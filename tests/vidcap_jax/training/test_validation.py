"""Early stopping counts validations since the best score."""

import re

import numpy as np

from tests import tiny
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.training.experiment import stage_config
from vidcap_jax.training.stage import set_up
from vidcap_jax.training.validation import (
  make_validation_decoder,
  make_validator,
  update_progress,
  validation_line,
)


def make(config, mesh, lines):
  stage = set_up(config, mesh)
  decoder = make_validation_decoder(config, stage, mesh)
  return make_validator(config, stage, mesh, {}, lines.append, decoder)


def after(scores, patience):
  progress = {'best_score': None, 'best_step': None, 'since_best': 0, 'stopped': False}
  for step, score in enumerate(scores, 1):
    update_progress(progress, step, score, patience)
  return progress


def test_of_equal_scores_the_latest_is_best_but_none_is_better():
  expected = {'best_score': 0.5, 'best_step': 3, 'since_best': 1, 'stopped': False}
  assert after([0.2, 0.5, 0.5], patience=2) == expected


def test_patience():
  assert after([0.5, 0.4, 0.3], patience=2)['stopped']
  assert not after([0.5, 0.4, 0.6], patience=2)['stopped']
  assert not after([0.5, 0.4, 0.3, 0.2], patience=0)['stopped']


def test_nan_is_never_best():
  progress = after([float('nan'), 0.1, float('nan')], patience=3)
  assert (progress['best_score'], progress['best_step'], progress['since_best']) == (0.1, 2, 1)


def test_the_line():
  progress = {'best_score': None, 'best_step': None}
  scores = {'CIDEr': 0.25, 'distinct_captions': 7}
  message = 'step 5 validation: CIDEr 0.2500  7 distinct captions; best CIDEr none yet'
  assert validation_line(5, scores, progress, 'CIDEr') == message


def test_captions_of_the_same_videos_are_kept_each_time(tiny_data, restored):
  config, mesh = tiny.get_config(tiny_data), make_mesh()
  config = stage_config(config, config.order[0])
  with tiny.without_java():
    validate = make(config, mesh, [])
    validation = validate(restored.params)
  references = {video.video_id: video.captions[0] for video in open_split(tiny_data, 'val')}
  assert {s.video_id: s.reference for s in validation.samples} == references
  captions = {sample.caption for sample in validation.samples}
  assert validation.scores['distinct_captions'] == len(captions)
  fields = '|split:val|data:.{12}|refs:.{12}|decode:greedy|beam:1|lp:0|'
  assert re.search(fields.replace('|', r'\|'), validation.signature)
  assert validation.record == {**validation.scores, 'signature': validation.signature}


def test_scores_are_those_of_the_programs_of_the_config(tiny_data, restored, monkeypatch):
  config, mesh = tiny.get_config(tiny_data), make_mesh()
  config = stage_config(config, config.order[0])
  config.eval.metrics, asked = ('BLEU', 'METEOR', 'RefEmbedding'), []
  config.eval.metric = 'RefEmbedding'

  class Encoder:
    name, weights_hash = '', '0123456789abcdef'

    def __call__(self, sentences):
      return np.eye(len(sentences), dtype=np.float32)

  load = lambda folder: asked.append(folder) or Encoder()  # noqa: E731
  monkeypatch.setattr('vidcap_jax.evaluation.embedding_score.load_encoder', load)
  monkeypatch.setattr('vidcap_jax.evaluation.meteor.Meteor', None)  # Java's is not started
  config.eval.tokenizer, config.eval.meteor, config.eval.embedding_model = 'python', 'python', 'dir'
  scores = make(config, mesh, [])(restored.params).scores
  assert {'BLEU_4', 'METEOR', 'RefEmbedding'} <= scores.keys()
  assert {*asked} == {'dir'}


def test_a_metric_that_cannot_choose_the_best_checkpoint_is_named(tmp_path):
  data = tiny.build(tmp_path / 'one', ('train', 'train', 'train', 'val'))
  config, mesh = tiny.get_config(data), make_mesh()
  config = stage_config(config, config.order[0])
  lines = []
  make(config, mesh, lines)
  (line,) = lines
  assert all(text in line for text in ('eval.metric=CIDEr', "'val'", 'one video'))
  config.eval.update(metrics=('ROUGE_L',), metric='ROUGE_L')
  make(config, mesh, lines)
  assert lines == [line]
