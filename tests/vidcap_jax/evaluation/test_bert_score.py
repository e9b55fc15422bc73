"""BERTScore: the greedy matching of word pieces, and the score by the encoder of the wheel."""

import numpy as np
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import bert_score, embedding_score
from vidcap_jax.evaluation.metrics import score
from vidcap_jax.evaluation.sentence_encoder import SentenceEncoder

WORDS = ('a', 'man', 'dog', 'runs', 'sings', 'fast')


class Encoder:
  """Vectors drawn for each word at each place; counts how often a sentence is encoded."""

  def __init__(self):
    self.encoded: list[str] = []

  def __call__(self, sentences) -> list[np.ndarray]:
    self.encoded += sentences
    return [self.vectors(sentence) for sentence in sentences]

  def vectors(self, sentence: str) -> np.ndarray:
    rows = [(WORDS.index(word), place) for place, word in enumerate(sentence.split())]
    drawn = [np.random.default_rng(row).normal(size=5) for row in rows]
    return np.array([v / np.linalg.norm(v) for v in drawn]).reshape(-1, 5)


def by_hand(caption: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
  """Precision, recall and F1 of section 3 of the paper, a cosine at a time in float64."""
  own, other = caption.astype(float).tolist(), reference.astype(float).tolist()
  cosine = lambda x, y: sum(a * b for a, b in zip(x, y, strict=True))  # noqa: E731
  precision = sum(max(cosine(x, y) for y in other) for x in own) / len(own)
  recall = sum(max(cosine(x, y) for x in own) for y in other) / len(other)
  return precision, recall, 2 * precision * recall / (precision + recall)


def sentences(count: int) -> list[str]:
  rng = np.random.default_rng(0)
  return [' '.join(rng.choice(WORDS, rng.integers(1, 7))) for _ in range(count)]


def test_equals_the_formula_of_the_paper_with_the_best_reference(monkeypatch):
  monkeypatch.setattr(bert_score, 'BLOCK', 3)  # of 8 videos
  captions = sentences(8)
  texts = sentences(40)[8:]
  references = [texts[i : i + 4] for i in range(0, 32, 4)]
  encoder = Encoder()
  found = bert_score.bert_score(captions, references, encoder)
  assert list(found) == ['BERTScore_P', 'BERTScore_R', 'BERTScore_F1']
  expected = np.array(
    [
      np.max([by_hand(encoder.vectors(own), encoder.vectors(r)) for r in others], axis=0)
      for own, others in zip(captions, references, strict=True)
    ]
  )
  for i, (corpus, videos) in enumerate(found.values()):
    np.testing.assert_allclose(videos, expected[:, i], rtol=1e-12)
    assert corpus == pytest.approx(expected[:, i].mean(), rel=1e-12)
  assert len(encoder.encoded) == len(set(encoder.encoded))


def test_sentences_of_several_blocks_are_encoded_once(monkeypatch):
  monkeypatch.setattr(bert_score, 'BLOCK', 1)
  encoder = Encoder()
  bert_score.bert_score(
    ['a dog', 'a man', 'a dog'], [['a man', 'a man'], ['dog runs'], ['a man']], encoder
  )
  assert sorted(encoder.encoded) == ['a dog', 'a man', 'dog runs']


def test_the_ends_of_the_scale():
  encoder = Encoder()
  found = bert_score.bert_score(
    ['a dog runs', '', 'a dog'], [['man sings', 'a dog runs'], ['a dog'], ['']], encoder
  )
  for _, videos in found.values():
    np.testing.assert_allclose(videos, [1, 0, 0], atol=1e-6)
    assert videos.max() <= 1
  opposite = {'x': np.array([[1.0, 0]]), 'y': np.array([[-1.0, 0]]), 'none': np.zeros((0, 2))}
  found = bert_score.bert_score(
    ['x', 'none', 'x'], [['y'], ['x'], ['none']], lambda texts: [opposite[text] for text in texts]
  )
  np.testing.assert_array_equal(found['BERTScore_F1'][1], 0)


def test_captions_without_any_words_need_no_encoder():
  found = bert_score.bert_score([''], [['']], lambda texts: [None for _ in texts])
  assert found['BERTScore_F1'][0] == 0


def test_by_the_encoder_of_the_wheel():
  try:
    assert SentenceEncoder().token_layer == 5  # of 6
  except ConfigError as error:
    pytest.skip(str(error))
  references = {'v1': ['a man is playing a guitar'], 'v2': ['a dog runs'], 'v3': ['a cat sleeps']}
  captions = {'v1': 'a man plays the guitar', 'v2': 'a dog runs', 'v3': 'two cars race'}
  corpus, by_video = score(captions, references, ['BERTScore', 'RefEmbedding'])
  assert list(corpus) == list(embedding_score.SCORES)
  f1 = {video_id: scores['BERTScore_F1'] for video_id, scores in by_video.items()}
  assert f1['v2'] == pytest.approx(1, abs=1e-5)
  assert 0 < f1['v3'] < f1['v1'] < f1['v2']
  shuffled, _ = score({**captions, 'v1': 'guitar the plays man a'}, references, ['BERTScore'])
  assert shuffled['BERTScore_F1'] < corpus['BERTScore_F1'] - 0.01  # by the context
