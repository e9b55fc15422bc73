"""Scores against those of pycocoevalcap, and refused input."""

import pytest

from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import metrics, ptb_tokenizer
from vidcap_jax.evaluation.constant import constant_baseline
from vidcap_jax.evaluation.metrics import MetricError, score
from vidcap_jax.evaluation.programs import Programs

# As many digits as the values were published with.
TOLERANCE = {'BLEU': 1e-9, 'ROUGE': 1e-9, 'CIDEr': 1e-6, 'METEOR': 1e-6}

REFERENCES = {
  'v1': ['a man plays a guitar', 'someone plays music'],
  'v2': ['a dog runs in the snow', 'a dog is running'],
  'v3': ['a woman cuts an onion'],
}
CAPTIONS = {'v1': 'a man plays music', 'v2': 'a dog runs', 'v3': 'a woman cooks'}


def check(got: dict, published: dict):
  want = {name.replace('Bleu', 'BLEU'): value for name, value in published.items()}
  assert got.keys() == want.keys()
  for name, value in want.items():
    assert got[name] == pytest.approx(value, abs=TOLERANCE[name.split('_')[0]]), name


def test_reproduces_every_golden_corpus_score(golden, golden_scores):
  assert len(golden) == 21
  for name, expected in golden.items():
    check(golden_scores[name][0], expected['scores']['corpus'])


def test_reproduces_every_golden_score_per_video(golden, golden_scores):
  for name, expected in golden.items():
    per_video = golden_scores[name][1]
    assert list(per_video) == list(expected['refs'])
    for video_id, scores in expected['scores']['per_video'].items():
      check(per_video[video_id], scores)


def test_scorers_agree():
  references = {**REFERENCES, 'v2': ['a dog runs', '!']}
  captions = {**CAPTIONS, 'v2': ''}
  names = ['BLEU', 'ROUGE_L', 'CIDEr']
  corpus, per_video = score(captions, references, names)
  other_corpus, other_per_video = score(
    captions, references, names, programs=Programs(scorers='pycocoevalcap')
  )
  assert list(corpus) == list(other_corpus)
  assert corpus == pytest.approx(other_corpus, abs=1e-9)
  for video_id, scores in per_video.items():
    assert scores == pytest.approx(other_per_video[video_id], abs=1e-9)


def test_an_empty_caption_scores_zero_and_is_named(caplog):
  empties = {'v1': '', 'v2': '...', 'v3': CAPTIONS['v3']}
  # Even where a reference has no words either, which ROUGE-L would call a full match.
  references = {**REFERENCES, 'v2': ['a dog runs', '!']}
  corpus, per_video = score(empties, references, ['BLEU', 'ROUGE_L', 'CIDEr'])
  for video_id in ('v1', 'v2'):
    assert all(value == pytest.approx(0, abs=1e-12) for value in per_video[video_id].values())
  assert corpus['ROUGE_L'] == pytest.approx(per_video['v3']['ROUGE_L'] / 3)
  assert '2 videos (v1, v2)' in caplog.text


def test_chinese_by_character():
  references = {'v1': ['一个男人在跑步。', '他跑得“很快”'], 'v2': ['3只猫']}
  prepared = metrics.prepare_references(references, by_character=True)
  assert prepared.captions == {'v1': ['一 个 男 人 在 跑 步', '他 跑 得 很 快'], 'v2': ['3 只 猫']}
  # As a vocabulary's words, or as one text.
  for caption in ('一 个 人 在 跑 步', '一个人在跑步'):
    spoken = {'v1': caption, 'v2': '3 只 狗'}
    corpus, _ = score(spoken, prepared, ['BLEU'])
    assert corpus['BLEU_1'] == pytest.approx(8 / 9)  # 6 of 6 and 2 of 3; none is too short
    assert score(spoken, references, ['BLEU'], by_character=True)[0] == corpus
  assert constant_baseline(prepared, ['一个男人', '狗'])[0] == '一个男人'


def test_line_separators_do_not_move_captions():
  plain = score(CAPTIONS, REFERENCES, ['BLEU', 'CIDEr'])
  separators = ['\n', '\r', '\r\n', '\v', '\f', '\x1c', '\x85', '\u2028', '\u2029', '\t', '\u00a0']
  for start in range(0, len(separators), 3):
    broken = {
      video_id: caption.replace(' ', separator) + separator
      for (video_id, caption), separator in zip(
        CAPTIONS.items(), (separators * 2)[start : start + 3], strict=True
      )
    }
    assert score(broken, REFERENCES, ['BLEU', 'CIDEr']) == plain


def test_order_of_the_hypotheses_does_not_matter():
  backwards = dict(reversed(CAPTIONS.items()))
  assert score(backwards, REFERENCES, ['CIDEr']) == score(CAPTIONS, REFERENCES, ['CIDEr'])


def test_prepared_references_score_the_same():
  prepared = metrics.prepare_references(REFERENCES)
  assert score(CAPTIONS, prepared, ['CIDEr']) == score(CAPTIONS, REFERENCES, ['CIDEr'])


@pytest.mark.parametrize(
  ('hypotheses', 'references', 'message'),
  [
    ({'v1': 'x', 'v9': 'x'}, REFERENCES, r'no hypothesis for 2 videos \(v2, v3\)'),
    ({**CAPTIONS, 'v8': 'x'}, REFERENCES, r'no references for 1 video \(v8\)'),
    (CAPTIONS, {**REFERENCES, 'v1': []}, r'without references: 1 video \(v1\)'),
    (CAPTIONS, {**REFERENCES, 'v3': ['a', ' ']}, r'empty reference caption: 1 video \(v3\)'),
    (CAPTIONS, {**REFERENCES, 'v3': ['.', '!']}, r'only punctuation: 1 video \(v3\)'),
    (CAPTIONS, {**REFERENCES, 'v3': 'a dog'}, r'list of strings; not so: 1 video \(v3\)'),
    ({**CAPTIONS, 'v1': ['a man']}, REFERENCES, r'one string per video; not so: 1 video \(v1\)'),
    ({1: 'a', 2: 'b'}, {'1': ['a'], '2': ['b']}, 'numbers.*text'),
    ({'a': 'x'}, {'a.jpg': ['x']}, r'\.jpg: rename'),
    ({}, {}, 'no videos'),
    ({}, REFERENCES, r'no hypothesis for 3 videos \(v1, v2, v3\)'),
    ({f'v{i}': '' for i in range(9)}, {'v1': ['a']}, r'8 videos \(v0, v2, v3, and 5 more\)'),
  ],
)
def test_ids_and_references_that_do_not_fit_are_refused(hypotheses, references, message):
  with pytest.raises(DataError, match=message):
    score(hypotheses, references, ['BLEU'])


@pytest.mark.parametrize('names', [['SPICE'], []])
def test_unknown_metrics_are_refused(names):
  with pytest.raises(ConfigError, match='known: BLEU, METEOR, ROUGE_L, CIDEr'):
    score(CAPTIONS, REFERENCES, names)


def test_java_that_is_asked_for_and_missing_is_an_error(no_java):
  with pytest.raises(MetricError, match=r'pip install "vidcap_jax\[metrics\]"'):
    score(CAPTIONS, REFERENCES, ['BLEU'], programs=Programs(tokenizer='java'))
  with pytest.raises(MetricError, match=r'pip install "vidcap_jax\[metrics\]"'):
    metrics.start_meteor(Programs(meteor='java'))
  assert len(metrics.java_notes()) == 1


def test_programs_agree():
  corpus, _ = score(CAPTIONS, REFERENCES, ['BLEU'], programs=Programs(tokenizer='java'))
  in_python = Programs(tokenizer='python')
  assert score(CAPTIONS, REFERENCES, ['BLEU'], programs=in_python)[0] == corpus
  assert metrics.java_notes() == []


def test_tokens_equal_the_golden_ones(golden):
  captions, tokens = [], []
  for expected in golden.values():
    captions += [c for refs in expected['refs'].values() for c in refs]
    tokens += [c for refs in expected['tokenised']['refs'].values() for c in refs]
    captions += expected['hyps'].values()
    tokens += expected['tokenised']['hyps'].values()
  assert ptb_tokenizer.tokenize(captions) == tokens
