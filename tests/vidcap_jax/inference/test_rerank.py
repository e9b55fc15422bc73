"""Several checkpoints together: late fusion as a stage, ensembles, several captions of a video."""

import json

import numpy as np
import pytest

from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import find_checkpoint
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import evaluate, results
from vidcap_jax.inference import captioning, predict, rerank
from vidcap_jax.training.experiment import stage_config


@pytest.fixture(scope='module')
def workdir(tiny_data, tmp_path_factory):
  with tiny.unscored_by_java():
    yield tiny.run(tiny.fused_config(tiny_data), tmp_path_factory.mktemp('fusion') / 'work')


def restored(workdir, stage, *decode):
  path = find_checkpoint(str(workdir / 'checkpoints' / stage))
  return restore.restore(path, mesh.make_mesh(), decode)


def captions_of(caption, data, split='val'):
  source = open_split(data, split)
  return caption(source, [video.video_id for video in pipeline.read_texts(source)])


# ---------------------------------------------------------------- late fusion


def test_the_nearest_candidate_wins(workdir, tiny_data):
  made = json.loads((workdir / 'eval' / 'val' / 'captions.json').read_text())
  each = [
    captions_of(captioning.captioner_of(restored(workdir, name, 'n_best=2')), tiny_data)
    for name in ('one', 'two')
  ]
  embedding = restored(workdir, 'embedding')
  for i, video in enumerate(made):
    several = [c for run in each for c in run[i]['captions']]
    assert [c['caption'] for c in video['captions']] == [c['caption'] for c in several]
    assert video['caption'] == several[video['chosen']]['caption']
    assert video['run'] == video['chosen'] // 2
  # Each candidate against the first alone, by the same embedding: none is nearer than the chosen.
  source = open_split(tiny_data, 'val')
  for k in range(4):
    pairs = [[v['captions'][k]['caption'], v['caption']] for v in made]
    for pair, first in zip(pairs, rerank.choose(embedding, source, pairs)):
      assert first == 1 or pair[0] == pair[1] or made[pairs.index(pair)]['chosen'] == k


def test_the_first_of_equally_near_candidates_wins(workdir, tiny_data):
  embedding, source = restored(workdir, 'embedding'), open_split(tiny_data, 'val')
  texts = [['red ball'] * 3, ['a ball'], ['blue ball', 'blue ball']]
  assert rerank.choose(embedding, source, texts) == [0, 0, 0]


def test_fusion_reports_oracle_and_random_scores(workdir, capsys):
  report = json.loads((workdir / 'eval' / 'val' / 'metrics.json').read_text())
  assert report['candidates'] == 4
  assert report['oracle_CIDEr'] >= max(report['CIDEr'], report['random_CIDEr'])
  assert report['fusion']['embedding'].endswith(f'embedding/{_step(workdir, "embedding")}')
  assert len(report['fusion']['runs']) == 2
  assert '4 candidates' in results.summary(report)


def _step(workdir, stage):
  return find_checkpoint(str(workdir / 'checkpoints' / stage)).name


def test_results_of_a_finished_fusion_are_reused(workdir, tiny_data, monkeypatch):
  def fail(*_):
    raise AssertionError('made again')

  monkeypatch.setattr(evaluate, 'evaluate', fail)
  monkeypatch.setattr(restore, 'restore', fail)
  tiny.run(tiny.fused_config(tiny_data), workdir)


def test_the_checkpoint_of_a_workdir_is_its_last_captioner(workdir):
  assert find_checkpoint(str(workdir)).parent.name == 'two'


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'embedding': 'stage:one'}, 'ranks no captions'),
    ({'runs': ('stage:embedding',)}, 'compares captions'),
    ({'runs': ('stage:none',)}, "fuse.runs 'stage:none' of stage 'fusion' is no stage"),
    ({'runs': ()}, 'needs fuse.embedding and fuse.runs'),
  ],
)
def test_checkpoints_that_cannot_be_fused(workdir, tiny_data, tmp_path, change, message):
  config = tiny.fused_config(tiny_data)
  config.stages.fusion.fuse.update(change)
  work = tmp_path / 'work'
  if 'stage:none' in change.get('runs', ()):
    with pytest.raises(ConfigError, match=message):
      tiny.run(config, work)
    return
  stage = stage_config(config, 'fusion')
  with pytest.raises(ConfigError, match=message):
    rerank.restore_group(rerank.sources(stage, workdir), 2, mesh.make_mesh())


# ---------------------------------------------------------------- ensembles


def test_an_ensemble_of_one_model_is_that_model(workdir, tiny_data, capsys):
  one = restored(workdir, 'one')
  alone = captions_of(captioning.captioner_of(one), tiny_data)
  capsys.readouterr()
  ensemble = captioning.ensemble_of([one, one], [1.0, 3.0], label='captioning')
  together = captions_of(ensemble.caption, tiny_data)
  assert capsys.readouterr().err == 'captioning: 0/3 videos, compiling\n'
  assert [c['caption'] for c in together] == [c['caption'] for c in alone]
  np.testing.assert_allclose(
    [c['log_prob'] for c in together], [c['log_prob'] for c in alone], rtol=1e-4
  )


def test_weights_of_an_ensemble(workdir, tiny_data):
  one, two = restored(workdir, 'one'), restored(workdir, 'two')
  for first, weights in ((one, [1e6, 1.0]), (two, [1.0, 1e6])):
    alone = captions_of(captioning.captioner_of(first), tiny_data)
    together = captions_of(captioning.ensemble_of([one, two], weights).caption, tiny_data)
    assert [c['caption'] for c in together] == [c['caption'] for c in alone]


def test_an_ensemble_needs_one_vocabulary(workdir, tmp_path):
  other = tiny.build(tmp_path / 'source', ('train',) * 4 + ('val',) * 2)
  with tiny.without_java():
    run = tiny.run(tiny.small_config(other, epochs=1.0), tmp_path / 'work')
  one, two = restored(workdir, 'one'), restored(run, 'xe')
  with pytest.raises(ConfigError, match=f'{one.vocabulary.hash}.*{two.vocabulary.hash}'):
    captioning.ensemble_of([one, two])


def test_predicting_with_an_ensemble(workdir, tiny_data, tmp_path, capsys):
  one, two = restored(workdir, 'one'), restored(workdir, 'two')
  np.save(tmp_path / 'clip.npy', np.ones((3, tiny.CHANNELS), np.float32))
  assert predict.predict(one, str(tmp_path / 'clip.npy'), [two], [1e6, 1.0]) == 0
  together = json.loads(capsys.readouterr().out)
  assert predict.predict(one, str(tmp_path / 'clip.npy')) == 0
  assert json.loads(capsys.readouterr().out)['caption'] == together['caption']


def test_predicting_from_features_with_channels_first(workdir, tmp_path, capsys):
  one, frames = restored(workdir, 'one'), np.linspace(-1, 1, 3 * tiny.CHANNELS, dtype=np.float32)
  frames = frames.reshape(3, tiny.CHANNELS)
  for folder, array, made in (('tc', frames, {}), ('ct', frames.T, {'layout': 'CT'})):
    (tmp_path / folder).mkdir()
    np.save(tmp_path / folder / 'clip.npy', array)
    (tmp_path / folder / 'stream.json').write_text(json.dumps(made))
  outputs = []
  for inputs in ('tc/clip.npy', 'ct/clip.npy', 'ct'):
    assert predict.predict(one, f'image={tmp_path / inputs}') == 0
    outputs.append(capsys.readouterr().out)
  assert len(set(outputs)) == 1


# ---------------------------------------------------------------- several captions of a video


def test_n_best_and_samples(workdir, tiny_data):
  best = captions_of(captioning.captioner_of(restored(workdir, 'one')), tiny_data)
  two = captions_of(captioning.captioner_of(restored(workdir, 'one', 'n_best=2')), tiny_data)
  for alone, several in zip(best, two):
    assert several['caption'] == several['captions'][0]['caption'] == alone['caption']
    assert len({c['caption'] for c in several['captions']}) == 2
    assert several['captions'][0]['log_prob'] >= several['captions'][1]['log_prob']
  drawn = captions_of(
    captioning.captioner_of(restored(workdir, 'one', 'method=sample', 'n_best=5')), tiny_data
  )
  assert all(len(video['captions']) == 5 for video in drawn)
  with pytest.raises(ConfigError, match='n_best=3: method .beam. makes 2 of a video at most'):
    restored(workdir, 'one', 'n_best=3')
