"""Scores by a sentence encoder: RefEmbedding, the cosine of whole captions, and BERTScore."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from vidcap_jax.evaluation import bert_score
from vidcap_jax.evaluation.sentence_encoder import SentenceEncoder

METRICS = ('RefEmbedding', 'BERTScore')
SCORES = ('RefEmbedding', *bert_score.SCORES)

Encoder = Callable[[Sequence[str]], np.ndarray]

load_encoder = functools.lru_cache(maxsize=1)(SentenceEncoder)


def embedding_scores(
  hypotheses: Sequence[str],
  references: Sequence[Sequence[str]],
  metrics: Sequence[str],
  encoder: SentenceEncoder,
) -> dict[str, tuple[float, np.ndarray]]:
  """{name: (corpus score, scores per video)} of those of ``METRICS`` that are asked for."""
  scored: dict[str, tuple[float, np.ndarray]] = {}
  if 'RefEmbedding' in metrics:
    scored['RefEmbedding'] = ref_embedding(hypotheses, references, encoder)
  if 'BERTScore' in metrics:
    scored |= bert_score.bert_score(hypotheses, references, encoder.token_embeddings)
  return scored


def ref_embedding(
  hypotheses: Sequence[str], references: Sequence[Sequence[str]], encoder: Encoder
) -> tuple[float, np.ndarray]:
  """The score of the corpus, the mean over videos, and of each video, (N,), 0 to 1.

  It is the largest cosine of the caption's embedding and a reference's, as BERTScore takes the best
  reference; negative ones count as 0, and so does a caption without words.

  Args:
    hypotheses: tokens joined by spaces, one caption a video.
    references: the same of each video, one or more.
    encoder: sentences -> unit vectors (N, D).
  """
  texts = {*hypotheses, *(text for captions in references for text in captions)}
  numbers = {text: number for number, text in enumerate(sorted(texts))}
  embeddings = encoder(list(numbers))
  videos = np.zeros(len(hypotheses))
  for number, (hypothesis, captions) in enumerate(zip(hypotheses, references, strict=True)):
    if hypothesis:
      cosines = embeddings[[numbers[text] for text in captions]] @ embeddings[numbers[hypothesis]]
      videos[number] = np.clip(cosines.max(), 0, 1)
  return float(np.mean(videos)), videos
