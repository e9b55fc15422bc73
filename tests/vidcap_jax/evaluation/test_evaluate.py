"""Evaluation from a checkpoint alone."""

import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from etils import epath
from ml_collections import ConfigDict

from data_prep.dataset.builder import Options, build
from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import (
  evaluate,
  intervals,
  metrics,
  metrics_command,
  results,
  signature,
)
from vidcap_jax.evaluation.programs import Programs
from vidcap_jax.inference import captioning

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def quick():
  """No Java: splitting at spaces, and a METEOR of 1/4."""
  with tiny.unscored_by_java():
    yield


@pytest.fixture(scope='module')
def later(tmp_path_factory):
  """A data set built after training: a test split with references, and no vocabulary."""
  data = tiny.build(tmp_path_factory.mktemp('later') / 'source', ('test',) * 9, refer=('test',))
  manifest = read_manifest(data)
  assert manifest.vocabulary is None
  assert manifest.streams[0].mean == ()
  return data


def read(folder, name):
  return json.loads((folder / name).read_text())


# ---------------------------------------------------------------- results


def test_with_references(restored, later, tiny_data, tmp_path, quick, capsys):
  report = evaluate.evaluate(restored, later, 'test', tmp_path / 'out')
  out, err = capsys.readouterr()
  assert out == ''
  first, second = err.splitlines()
  assert first == 'captioning test: 0/9 videos, compiling'
  assert second.startswith('scoring 9 captions of test')
  assert report == read(tmp_path / 'out', 'metrics.json')
  captions = read(tmp_path / 'out', 'captions.json')
  assert [c['video_id'] for c in captions] == [f'v{i}' for i in range(9)]
  assert [set(c) for c in captions] == [{'video_id', 'caption', 'log_prob'}] * 9
  assert all(c['log_prob'] < 0 for c in captions)

  hypotheses = {c['video_id']: c['caption'] for c in captions}
  references = {v.video_id: list(v.captions) for v in open_split(later, 'test')}
  scores, _ = metrics.score(hypotheses, references)
  assert set(scores) == {'BLEU_1', 'BLEU_2', 'BLEU_3', 'BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr'}
  assert {name: report[name] for name in scores} == scores

  constants = {
    c: metrics.score(dict.fromkeys(references, c), references, ['CIDEr'])[0]['CIDEr']
    for c in restored.meta['top_captions']
  }
  assert report['constant_CIDEr'] == pytest.approx(max(constants.values()))
  assert constants[report['constant_caption']] == pytest.approx(report['constant_CIDEr'])
  assert report['distinct_captions'] == len(set(hypotheses.values()))
  words = [word for caption in hypotheses.values() for word in caption.split()]
  assert (report['vocabulary_used'], report['mean_words']) == (len(set(words)), len(words) / 9)
  trained = {caption for video in open_split(tiny_data, 'train') for caption in video.captions}
  novel = sum(caption not in trained for caption in hypotheses.values()) / 9
  assert report['novel_captions'] == pytest.approx(novel)
  assert f'{novel:.1%} are not in the training captions' in results.summary(report)
  assert (report['split'], report['videos'], report['references']) == ('test', 9, True)
  assert (report['checkpoint'], report['checkpoint_step']) == (
    str(restored.path),
    int(restored.path.name),
  )
  assert report['stage'] == 'xe'
  assert report['decode'] == restored.config.decode.to_dict()
  made = read_manifest(later)
  coverage = {'listed': 9, 'videos': 9, 'missing': 0, 'bad': 0, 'uncaptioned': 0}
  assert report['data'] == {
    'dir': later,
    'hash': made.hash,
    'name': 'data',
    'coverage': {**coverage, 'streams': {'image': 9}},
  }
  expected = signature.of_captions(
    references, split='test', data_hash=made.hash, decode=report['decode']
  )
  assert report['signature'] == str(expected)
  assert f'\nsignature: {expected}\n' in results.summary(report)
  details = metrics.score_details(hypotheses, references)
  ends = intervals.score_intervals(intervals.statistics_of(details))
  assert report['intervals'] == {name: list(interval) for name, interval in ends.items()}
  assert f'  CIDEr {ends["CIDEr"][0]:.4f} to {ends["CIDEr"][1]:.4f}' in results.summary(report)
  assert report['vocabulary_hash'] == restored.vocabulary.hash
  assert {'jax', 'flax', 'pycocoevalcap'} <= set(report['versions'])


def test_an_imported_checkpoint_has_no_constant_caption(restored, later, tmp_path, quick):
  """It holds no training captions, which the constant one is chosen among."""
  meta = {name: value for name, value in restored.meta.items() if name != 'captions'}
  imported = dataclasses.replace(restored, meta={**meta, 'top_captions': []})
  report = evaluate.evaluate(imported, later, 'test', tmp_path / 'out')
  assert 'CIDEr' in report
  assert not [name for name in report if name.startswith('constant')]
  summary = results.summary(report)
  assert 'CIDEr' in summary
  assert 'constant' not in summary
  assert 'imported' in summary


def test_without_references(restored, tiny_data, tmp_path):
  report = evaluate.evaluate(restored, tiny_data, 'test', tmp_path / 'out')
  assert report['references'] is False
  assert not {'signature', 'intervals'} & set(report)
  assert not {'CIDEr', 'METEOR', 'constant_CIDEr'} & set(report)
  captions = {c['video_id']: c['caption'] for c in read(tmp_path / 'out', 'captions.json')}
  assert list(captions) == ['v10', 'v11']
  assert read(tmp_path / 'out', 'submission_vatex.json') == captions
  server = read(tmp_path / 'out', 'submission_msrvtt.json')
  assert {r['video_id']: r['caption'] for r in server['result']} == captions
  assert server['external_data'] == {'used': 'true', 'details': 'tiny'}


def test_networks_and_word_vectors_of_all_members_are_declared(restored, tiny_data, tmp_path):
  config = ConfigDict(restored.config.to_dict())
  config.train.word_vectors = '/x/glove.txt'
  unknown = tuple(dataclasses.replace(s, extractor=None) for s in restored.streams)
  other = dataclasses.replace(restored, config=config, streams=unknown)

  def caption_nothing(source, ids):
    return [{'video_id': video, 'caption': '', 'log_prob': 0.0} for video in ids]

  for members, details in (
    ([other], "network of stream 'image': not recorded, word vectors glove.txt"),
    ([restored, other], "network of stream 'image': not recorded, tiny, word vectors glove.txt"),
  ):
    group = captioning.CaptionerGroup(members, caption_nothing, {})
    evaluate.evaluate(members[0], tiny_data, 'test', epath.Path(tmp_path), None, group)
    server = read(tmp_path, 'submission_msrvtt.json')
    assert server['external_data'] == {'used': 'true', 'details': details}


def test_only_some_videos_have_references(restored, tmp_path, quick):
  tiny.build(tmp_path / 'source', ('a',) * 2 + ('b',) * 2, refer=('a',))
  splits = tmp_path / 'splits.json'
  splits.write_text(json.dumps({'test': ['v0', 'v1', 'v2', 'v3']}))
  build(
    Options(
      form='jsonl',
      annotations=(str(tmp_path / 'source' / 'captions.jsonl'),),
      features={'image': str(tmp_path / 'source' / 'image')},
      splits=str(splits),
      out=str(tmp_path / 'mixed'),
    )
  )
  with pytest.raises(UserError, match='videos without references: 2 videos .v2, v3'):
    evaluate.evaluate(restored, str(tmp_path / 'mixed'), 'test', tmp_path / 'out')
  assert not (tmp_path / 'out').exists()


def test_captions_are_kept_when_scoring_fails(
  restored, later, tmp_path, quick, monkeypatch, capsys
):
  def late(*_):
    raise metrics.MetricError('METEOR did not finish')

  (tmp_path / 'my out').mkdir()
  (tmp_path / 'my out' / 'metrics.json').write_text('{}')
  programs = Programs(tokenizer='python', embedding_model='/model')
  out = epath.Path(tmp_path / 'my out')
  with monkeypatch.context() as patch:
    patch.setattr(metrics.meteor.Meteor, 'score_with_statistics', late)
    with pytest.raises(metrics.MetricError, match='did not finish\n.*captions.json') as error:
      evaluate.evaluate(restored, later, 'test', out, programs=programs)
  assert [c['video_id'] for c in read(tmp_path / 'my out', 'captions.json')] == [
    f'v{i}' for i in range(9)
  ]
  assert not (tmp_path / 'my out' / 'metrics.json').exists()
  python, _, module, *arguments = shlex.split(str(error.value).splitlines()[-1])
  assert (python, module) == ('python', metrics.__spec__.name)
  assert arguments[-1] == '--tokenizer=python'
  metrics_command.main([*arguments, '--metrics=CIDEr', '--meteor_time_limit=9'])
  scored = capsys.readouterr().out
  report = evaluate.evaluate(restored, later, 'test', epath.Path(tmp_path / 'my out'))
  assert f'{report["CIDEr"]:.4f}' in scored


def test_from_the_command_line_on_one_device(tiny_run, restored, later, tmp_path):
  """A checkpoint of eight devices, read by a process that has one; real PTB and METEOR."""
  workdir = tmp_path / 'moved'
  shutil.copytree(tiny_run, workdir)
  flags = ['--xla_force_host_platform_device_count=1', '--xla_backend_optimization_level=0']
  argv = ['-m', 'vidcap_jax.main', '--mode=evaluate', '--checkpoint=moved', f'--data={later}']
  done = subprocess.run(
    [sys.executable, *argv, '--split=test'],
    cwd=tmp_path,
    env={**os.environ, 'PYTHONPATH': str(ROOT), 'XLA_FLAGS': ' '.join(flags)},
    capture_output=True,
    text=True,
    timeout=200,
  )
  assert done.returncode == 0, done.stderr
  report = read(workdir / 'eval' / 'test', 'metrics.json')
  for name in ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr', 'constant_CIDEr'):
    assert f'{name} {report[name]:.4f}' in done.stdout
  assert 0 < report['METEOR'] < 1
  source = open_split(later, 'test')
  here = captioning.captioner_of(restored)(source, [source[i].video_id for i in range(9)])
  there = read(workdir / 'eval' / 'test', 'captions.json')
  assert [c['caption'] for c in there] == [c['caption'] for c in here]


def test_programs_are_those_of_the_checkpoint_or_those_that_are_given(
  restored, later, tmp_path, capsys
):
  config = restored.config.copy_and_resolve_references()
  with config.unlocked():
    config.eval.tokenizer, config.eval.meteor = 'python', 'python'
  own = evaluate.evaluate(
    dataclasses.replace(restored, config=config), later, 'test', tmp_path / 'a'
  )
  assert '|tok:ptb-3.4.1-python|scorers:numpy+meteor-python+' in own['signature']
  assert 'METEOR' not in capsys.readouterr().err  # only Java's takes long to start
  with config.unlocked():
    del config.eval.tokenizer, config.eval.meteor, config.eval.scorers, config.eval.embedding_model
  older = dataclasses.replace(restored, config=config)
  options = {'tokenizer': 'python', 'meteor': 'python', 'scorers': 'pycocoevalcap'}
  given, _ = evaluate.evaluate_command(
    older, later, 'test', str(tmp_path / 'b'), programs={**options, 'embedding_model': None}
  )
  assert '|tok:ptb-3.4.1-python|scorers:meteor-python+' in given['signature']
  for name in ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr'):
    assert given[name] == pytest.approx(own[name], abs=1e-9)


def test_missing_programs_are_an_error_before_captions_are_made(
  restored, later, tmp_path, monkeypatch
):
  monkeypatch.setattr('vidcap_jax.evaluation.java.find_java', lambda: None)
  with pytest.raises(metrics.MetricError, match='--meteor=java'):
    evaluate.evaluate_command(restored, later, 'test', str(tmp_path), programs={'meteor': 'java'})
  with pytest.raises(UserError, match='--embedding_model=/model.*eval.metrics'):
    evaluate.evaluate_command(
      restored, later, 'test', str(tmp_path), programs={'embedding_model': '/model'}
    )
  assert not (tmp_path / 'captions.json').exists()


def test_embeddings_are_scored_where_the_config_has_them(
  restored, later, tmp_path, quick, monkeypatch
):
  class Encoder:
    name, weights_hash = 'wheel-1.2', '0123456789abcdef'

    def __call__(self, sentences):
      return np.eye(len(sentences), dtype=np.float32)

  monkeypatch.setattr('vidcap_jax.evaluation.embedding_score.load_encoder', lambda _: Encoder())
  config = restored.config.copy_and_resolve_references()
  with config.unlocked():
    config.eval.metrics = ('CIDEr', 'RefEmbedding')
  checkpoint = dataclasses.replace(restored, config=config)
  report = evaluate.evaluate(checkpoint, later, 'test', tmp_path / 'out')
  assert {'BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr', 'RefEmbedding'} <= report.keys()
  assert 'RefEmbedding' in report['intervals']
  assert '|encoder:wheel-1.2|emb:0123456789ab|' in report['signature']
  assert f'RefEmbedding {report["RefEmbedding"]:.4f}' in results.summary(report)


def test_a_checkpoint_made_before_some_settings(restored, tiny_data, tmp_path):
  old = tmp_path / restored.path.name
  shutil.copytree(restored.path, old)
  meta = json.loads((old / 'meta' / 'metadata').read_text())
  for name in ('n_best', 'groups', 'diversity', 'force'):
    del meta['config']['decode'][name]
  del meta['captions']
  (old / 'meta' / 'metadata').write_text(json.dumps(meta))
  again = restore.restore(old, restored.mesh)
  assert again.config.decode.to_dict() == restored.config.decode.to_dict() | {'force': ()}
  report = evaluate.evaluate(again, tiny_data, 'test', tmp_path / 'out')
  assert 'novel_captions' not in report
  assert 'too old' in results.summary(report)
  changed = restore.restore(old, restored.mesh, ['method=beam', 'force=ball,red'])
  assert list(changed.config.decode.force) == ['ball', 'red']


# ---------------------------------------------------------------- data that does not fit


def test_no_such_split(restored, tiny_data, tmp_path):
  with pytest.raises(DataError, match="no split 'testing'; it has: train, val, test"):
    evaluate.evaluate(restored, tiny_data, 'testing', tmp_path / 'out')
  with pytest.raises(DataError, match='not a data set built by data_prep.build'):
    evaluate.evaluate(restored, str(tmp_path), 'test', tmp_path / 'out')


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'channels': 9}, r"stream 'image': .* channels 8, .* has 9"),
    ({'extractor': 'resnet'}, r"stream 'image': .* extractor 'tiny', .* has 'resnet'"),
  ],
)
def test_another_stream(changes, message, restored, tmp_path):
  data = tiny.build(tmp_path / 'source', ('test',) * 3, **changes)
  with pytest.raises(DataError, match=message):
    evaluate.evaluate(restored, data, 'test', tmp_path / 'out')


def test_missing_stream(restored, tmp_path):
  tiny.build(tmp_path / 'source', ('test',) * 3)
  build(
    Options(
      form='jsonl',
      annotations=(str(tmp_path / 'source' / 'captions.jsonl'),),
      features={'motion': str(tmp_path / 'source' / 'image')},
      out=str(tmp_path / 'motion'),
    )
  )
  with pytest.raises(DataError, match=r"needs a stream 'image' .* has: motion: sequence \(T, 8\)"):
    evaluate.evaluate(restored, str(tmp_path / 'motion'), 'test', tmp_path / 'out')


def test_results_in_a_bucket(restored, tiny_data, bucket, quick):
  report = evaluate.evaluate(restored, tiny_data, 'test', epath.Path('gs://runs/eval/test'))
  folder = epath.Path('gs://runs/eval/test')
  assert read(folder, 'metrics.json') == json.loads(json.dumps(report))
  assert [caption['video_id'] for caption in read(folder, 'captions.json')] == ['v10', 'v11']
  assert {name.rpartition('/')[2] for name in bucket.names()} == {
    'captions.json',
    'metrics.json',
    'submission_msrvtt.json',
    'submission_vatex.json',
  }
