"""RefEmbedding."""

import numpy as np
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import embedding_score, metrics

VECTORS = {'a': (1, 0), 'b': (0, 1), 'c': (0.6, 0.8), 'd': (-1, 0), '': (1, 0)}


def encoder(sentences) -> np.ndarray:
  assert len(set(sentences)) == len(sentences)  # each is encoded once
  return np.array([VECTORS[sentence] for sentence in sentences], float)


def test_the_best_reference_counts():
  corpus, videos = embedding_score.ref_embedding(
    ['a', 'a', 'c', ''], [['b', 'c'], ['d'], ['c', 'a'], ['a']], encoder
  )
  np.testing.assert_allclose(videos, [0.6, 0, 1, 0])
  assert corpus == pytest.approx(0.4)


def test_it_is_a_metric_that_is_asked_for(monkeypatch):
  monkeypatch.setattr(embedding_score, 'load_encoder', lambda folder: encoder)
  scores = metrics.score(
    {'v1': 'a', 'v2': 'c'}, {'v1': ['b', 'c'], 'v2': ['c']}, ['CIDEr', 'RefEmbedding']
  )
  assert list(scores[0]) == ['CIDEr', 'RefEmbedding']
  assert scores[0]['RefEmbedding'] == pytest.approx(0.8)
  assert scores[1]['v1']['RefEmbedding'] == pytest.approx(0.6)
  assert 'RefEmbedding' not in metrics.METRICS
  with pytest.raises(ConfigError, match='RefEmbedding'):
    metrics.check_metrics(['Embedding'])
