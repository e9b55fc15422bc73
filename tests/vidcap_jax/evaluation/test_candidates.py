"""The best and the mean of several captions, by hand."""

import numpy as np
import pytest

from vidcap_jax.evaluation import candidates, metrics


def test_oracle_and_random_scores_by_hand():
  texts = {'v1': ['a red ball rises'], 'v2': ['the dog sleeps', 'a dog sleeps']}
  references = metrics.References({k: list(v) for k, v in texts.items()})
  captions = [
    {'video_id': 'v1', 'captions': [{'caption': 'a red ball'}, {'caption': 'a red ball rises'}]},
    {'video_id': 'v2', 'captions': [{'caption': 'a dog sleeps'}]},
  ]
  found = candidates.score(captions, references)
  scores = [
    metrics.score({'v1': first, 'v2': 'a dog sleeps'}, references, metrics=('CIDEr',))[1]
    for first in ('a red ball', 'a red ball rises')
  ]
  v1, v2 = [s['v1']['CIDEr'] for s in scores], scores[0]['v2']['CIDEr']
  assert found['oracle_CIDEr'] == pytest.approx((max(v1) + v2) / 2)
  assert found['random_CIDEr'] == pytest.approx((np.mean(v1) + v2) / 2)
  assert candidates.score([{'video_id': 'v1', 'caption': 'a'}], references) == {}
