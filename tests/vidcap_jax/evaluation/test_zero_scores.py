"""Scores that are the same whatever a model says."""

import pytest

from vidcap_jax.evaluation import metrics, metrics_command, retrieval
from vidcap_jax.evaluation.zero_scores import zero_scores

BLEU = {f'BLEU_{n}' for n in (1, 2, 3, 4)}


@pytest.mark.parametrize(
  ('videos', 'zero'),
  [
    ([['a man sings a song', 'a man']], {'CIDEr'}),
    ([['a man sings a song'], ['a man sings a song']], {'CIDEr'}),
    ([['a man sings a song'], ['a dog']], set()),
    ([['a man'], ['a dog runs']], {'BLEU_4'}),
    ([['a'], ['b']], BLEU - {'BLEU_1'}),
  ],
)
def test_scores_that_can_only_be_0(videos, zero):
  assert set(zero_scores(videos)) == zero


def test_scores_that_can_only_be_0_are_0():
  references = {'v1': ['a man sings'], 'v2': ['man sings', 'a man sings']}
  assert set(zero_scores(list(references.values()))) == {'CIDEr', 'BLEU_4'}
  corpus, _ = metrics.score({'v1': 'a man sings', 'v2': 'sings'}, references, ['BLEU', 'CIDEr'])
  assert corpus['CIDEr'] == 0
  assert corpus['BLEU_4'] < 0.05 < corpus['BLEU_3']


def test_the_command_names_them(tmp_path, capsys):
  (tmp_path / 'h.json').write_text('{"v1": "a man sings a song"}')
  (tmp_path / 'r.json').write_text('{"v1": ["a man sings a song"]}')
  files = [f'--hypotheses={tmp_path}/h.json', f'--references={tmp_path}/r.json']
  metrics_command.main([*files, '--metrics=BLEU,CIDEr'])
  error = capsys.readouterr().err
  assert 'CIDEr' in error
  assert 'one video' in error
  metrics_command.main([*files, '--metrics=BLEU'])
  assert capsys.readouterr().err == ''


@pytest.mark.parametrize(
  ('score', 'captions', 'perfect'),
  [
    ('rsum', [3], True),
    ('rsum', [3, 1], False),
    ('R@5', [2, 2], True),
    ('R@5', [5, 1], False),
    ('text_to_video_R@5', [5, 1], True),
    ('video_to_text_R@1', [2, 0], True),
    ('text_to_video_R@1', [2, 0], False),
  ],
)
def test_retrieval_that_is_right_for_any_embedding(score, captions, perfect):
  assert bool(retrieval.perfect_score(score, captions)) == perfect
