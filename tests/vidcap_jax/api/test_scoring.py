"""Scores from Python are those of the commands."""

import json

import pytest

import vidcap_jax as vc
from tests import tiny
from vidcap_jax.evaluation import metrics_command

HYPOTHESES = {'v1': 'a dog runs', 'v2': 'a cat sits on a mat', 'v3': 'two men talk'}
REFERENCES = {
  'v1': ['a dog is running', 'the dog runs fast'],
  'v2': ['a cat is on a mat', 'a cat sits'],
  'v3': ['two men are talking', 'people talk'],
}


@pytest.fixture(autouse=True)
def scorers():
  with tiny.unscored_by_java():
    yield


def test_scores_are_those_of_the_command(tmp_path, capsys):
  rows = [{'image_id': v, 'caption': c} for v, c in HYPOTHESES.items()]
  (tmp_path / 'h.json').write_text(json.dumps(rows))
  lines = [{'video_id': v, 'caption': c} for v, each in REFERENCES.items() for c in each]
  (tmp_path / 'r.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
  files = {name: tmp_path / name for name in ('h.json', 'r.jsonl')}
  arguments = [f'--hypotheses={files["h.json"]}', f'--references={files["r.jsonl"]}']
  metrics_command.main([*arguments, f'--json={tmp_path}/all', f'--per_video={tmp_path}/each'])
  corpus = json.loads((tmp_path / 'all').read_text())
  assert corpus.pop('videos') == 3
  signature, intervals = corpus.pop('signature'), corpus.pop('intervals')
  results = [vc.Result(video_id, caption, -1.0) for video_id, caption in HYPOTHESES.items()]
  for hypotheses in (HYPOTHESES, results, files['h.json']):
    for references in (REFERENCES, files['r.jsonl']):
      scores = vc.score(hypotheses, references)
      assert scores == corpus
      assert scores.signature == signature
      assert {name: list(ends) for name, ends in scores.intervals.items()} == intervals
      assert scores.by_video == json.loads((tmp_path / 'each').read_text())
  assert list(vc.score(HYPOTHESES, REFERENCES, metrics=' CIDEr, BLEU,'))[-1] == 'CIDEr'
  made = {video_id: iter(captions) for video_id, captions in REFERENCES.items()}
  assert vc.score(HYPOTHESES, made) == corpus


def test_the_programs_of_scores_are_keywords(monkeypatch):
  monkeypatch.setattr('vidcap_jax.evaluation.meteor.Meteor', None)  # Java's is not started
  names = {'tokenizer': 'python', 'meteor': 'python', 'scorers': 'pycocoevalcap'}
  scores = vc.score(HYPOTHESES, REFERENCES, **names)
  assert '|tok:ptb-3.4.1-python|scorers:meteor-python+pycocoevalcap' in scores.signature
  assert 0 < scores['METEOR'] < 1


def test_options_of_clip_are_those_of_the_command(monkeypatch, tmp_path):
  seen = []

  def score_captions(hypotheses, references, options, log):
    seen.append(options)
    raise vc.UserError('enough')

  monkeypatch.setattr('vidcap_jax.evaluation.scoring.score_captions', score_captions)
  with pytest.raises(vc.UserError, match='enough'):
    vc.score(
      *(HYPOTHESES, REFERENCES),
      metrics='CLIPScore',
      clip_model=tmp_path / 'model',
      videos=tmp_path,
      clip_frames=4,
    )
  (options,) = seen
  assert options.clip_metrics == ['CLIPScore']
  assert (options.clip_model, options.videos) == (f'{tmp_path}/model', str(tmp_path))
  assert options.clip_frames == 4


def test_a_text_is_the_only_reference_of_a_video():
  single = {video_id: captions[0] for video_id, captions in REFERENCES.items()}
  listed = {video_id: [caption] for video_id, caption in single.items()}
  assert vc.score(HYPOTHESES, single) == vc.score(HYPOTHESES, listed)


@pytest.mark.parametrize(
  ('hypotheses', 'references', 'options', 'words'),
  [
    ({'v1': 'a dog'}, REFERENCES, {}, 'v2'),
    (HYPOTHESES, {'v1': 'a dog'}, {}, 'v2'),
    (HYPOTHESES, {'v1': [3]}, {}, 'v1'),
    (HYPOTHESES, {}, {}, 'references'),
    (HYPOTHESES, REFERENCES, {'metrics': ['BLUE']}, 'BLUE'),
    (HYPOTHESES, REFERENCES, {'signature': 'nrefs:9'}, '^[^-]*nrefs: 9 in signature, 2'),
    (HYPOTHESES, REFERENCES, {'tokenizer': 'perl'}, '^tokenizer: .*perl.*auto, java, python'),
    (HYPOTHESES, REFERENCES, {'meteor_time_limit': 0}, '^meteor_time_limit=0: '),
    (HYPOTHESES, REFERENCES, {'metrics': 'CLIPScore'}, ' clip_model=DIR'),
    (HYPOTHESES, REFERENCES, {'scorers': 'nltk'}, '^scorers: .*nltk.*numpy, pycocoevalcap'),
    (
      *(HYPOTHESES, REFERENCES),
      {'metrics': 'RefEmbedding', 'embedding_model': '/gone'},
      '^embedding_model=/gone',
    ),
    (HYPOTHESES, '/nowhere', {}, '/nowhere'),
    ('/nowhere', REFERENCES, {}, '/nowhere'),
    ([vc.Result('v1', error='damaged')], REFERENCES, {}, 'v1.*damaged'),
    ([vc.Result('v1', 'a', -1.0)] * 2, REFERENCES, {}, 'v1.*two'),
  ],
)
def test_what_can_not_be_scored(hypotheses, references, options, words):
  with pytest.raises(vc.UserError, match=words):
    vc.score(hypotheses, references, **options)


@pytest.mark.parametrize(
  ('hypotheses', 'references', 'words'),
  [
    (3, REFERENCES, 'hypotheses.*int'),
    ([{'video_id': 'v1', 'caption': 'a dog'}], REFERENCES, 'hypotheses.*0.*dict.*id'),
    (HYPOTHESES, None, 'references.*None'),
    (HYPOTHESES, [['a dog']] * 1000, '^references.{,19}list.{,99}$'),
  ],
)
def test_arguments_of_another_type(hypotheses, references, words):
  with pytest.raises(TypeError, match=words):
    vc.score(hypotheses, references)


def test_a_folder_of_captions(tmp_path):
  with pytest.raises(vc.UserError, match=f'^hypotheses={tmp_path}: a folder'):
    vc.score(tmp_path, REFERENCES)


def test_a_split_is_evaluated_as_by_the_command(inside, tmp_path, command):
  scores = vc.evaluate('runs/mine', data=inside / 'data' / 'mine', output=tmp_path / 'python')
  code, out, err = command(
    *('--mode=evaluate', '--checkpoint=runs/mine', '--data=data/mine', f'--output={tmp_path}/main')
  )
  assert code == 0, err
  assert 'CIDEr' in out
  for name in ('metrics.json', 'captions.json'):
    assert (tmp_path / 'python' / name).read_text().replace(f'{inside}/', '') == (
      tmp_path / 'main' / name
    ).read_text()
  assert scores == json.loads((tmp_path / 'python' / 'metrics.json').read_text())
  assert [result.to_dict() for result in scores.captions] == json.loads(
    (tmp_path / 'main' / 'captions.json').read_text()
  )
  assert scores.folder == tmp_path / 'python'
  assert scores.signature == scores['signature']
  assert scores.intervals['CIDEr'] == tuple(scores['intervals']['CIDEr'])


def test_a_split_is_evaluated_by_other_programs(inside, tmp_path, command):
  scores = vc.evaluate('runs/mine', output=tmp_path / 'python', meteor='python', scorers='numpy')
  assert '|scorers:numpy+meteor-python+' in scores.signature
  arguments = ('--mode=evaluate', '--checkpoint=runs/mine', f'--output={tmp_path}/main')
  code, out, err = command(*arguments, '--meteor=python', '--tokenizer=python')
  assert code == 0, err
  assert '|tok:ptb-3.4.1-python|scorers:numpy+meteor-python+' in out
  code, _, err = command(*arguments, '--meteor=perl')
  assert code == 1
  assert 'java' in err
  code, _, err = command('--config=configs/quickstart.py', '--workdir=new', '--meteor=python')
  assert code == 1
  assert '--config.eval.meteor' in err
  with pytest.raises(vc.UserError, match='^tokenizer.*perl'):
    vc.evaluate('runs/mine', tokenizer='perl')


def test_a_captioner_is_evaluated_with_other_settings(inside, tmp_path):
  captioner = vc.load('runs/mine')
  scores = vc.evaluate(captioner, split='val', output=tmp_path, beam=3, n_best=2)
  assert scores['decode']['method'] == 'beam'
  assert [len(result.captions) for result in scores.captions] == [2] * scores['videos']
  assert captioner.members[0].config.decode.method == 'greedy'
  both = vc.evaluate(['runs/mine', 'runs/mine'], output=tmp_path, weights=[1, 1])
  assert len(both['ensemble']['checkpoints']) == 2


def test_what_can_not_be_evaluated(inside):
  with pytest.raises(vc.UserError, match='checkpoint=runs/gone'):
    vc.evaluate('runs/gone')
  with pytest.raises(vc.UserError, match='fallback=runs/gone'):
    vc.evaluate('runs/mine', fallback='runs/gone')
  with pytest.raises(vc.UserError, match="data/mine.*'dev'"):
    vc.evaluate('runs/mine', data='data/mine', split='dev')
  with pytest.raises(vc.UserError, match='output'):
    vc.evaluate(['runs/mine', 'runs/mine'])
  with pytest.raises(TypeError, match='bean'):
    vc.evaluate('runs/mine', bean=3)
