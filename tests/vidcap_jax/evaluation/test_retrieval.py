"""Ranks and recalls against brute force."""

import numpy as np
import pytest

from vidcap_jax.evaluation import retrieval


def brute_force(videos, captions, owner):
  similarity = videos @ captions.T
  video_to_text = []
  for v in range(len(videos)):
    own = similarity[v, owner == v]
    if len(own):
      video_to_text.append(1 + (similarity[v, owner != v] >= own.max()).sum())
  text_to_video = [
    1 + (np.delete(similarity[:, c], owner[c]) >= similarity[owner[c], c]).sum()
    for c in range(len(captions))
  ]
  return np.array(video_to_text), np.array(text_to_video)


def made_up(videos=40, captions=100, seed=0):
  """Captions near their videos; of videos 3 and 7 there are none."""
  rng = np.random.default_rng(seed)
  v = rng.normal(size=(videos, 6)).astype(np.float32)
  owner = rng.choice(np.delete(np.arange(videos), [3, 7]), captions)
  c = v[owner] + 1.5 * rng.normal(size=(captions, 6)).astype(np.float32)
  return *(x / np.linalg.norm(x, axis=1, keepdims=True) for x in (v, c)), owner


@pytest.mark.parametrize('rows', [256, 40, 7])
def test_ranks(rows, monkeypatch):
  monkeypatch.setattr(retrieval, '_ROWS', rows)
  for seed in range(3):
    data = made_up(seed=seed)
    for found, expected in zip(retrieval.ranks(*data)[:2], brute_force(*data), strict=True):
      np.testing.assert_array_equal(found, expected)
      assert len(np.unique(found)) > 3


def test_ties_count_as_mistakes():
  """A model that maps everything to one point ranks last, rounding or not; so does NaN."""
  owner = np.array([0, 0, 1, 2])
  for value in (1.0, np.nan):
    same = np.full((4, 2), value, np.float32) / np.float32(2**0.5)
    jitter = same * np.array([[1], [1 + 1e-7], [1], [1 - 1e-7]], np.float32)
    video_to_text, text_to_video, _ = retrieval.ranks(same[:3], jitter, owner)
    np.testing.assert_array_equal(video_to_text, [3, 4, 4])
    np.testing.assert_array_equal(text_to_video, 3)


def test_scores():
  found = retrieval.scores(np.array([1, 2, 6, 30]), np.array([1, 1, 1, 7, 11]))
  assert found['video_to_text_R@1'] == 0.25
  assert found['video_to_text_R@5'] == 0.5
  assert found['video_to_text_R@10'] == 0.75
  assert found['video_to_text_median_rank'] == 4.0
  assert found['text_to_video_R@1'] == found['text_to_video_R@5'] == 0.6
  assert found['text_to_video_R@10'] == 0.8
  assert found['text_to_video_median_rank'] == 1.0
  assert found['R@1'] == pytest.approx((0.25 + 0.6) / 2)
  assert found['rsum'] == pytest.approx(0.25 + 0.5 + 0.75 + 0.6 + 0.6 + 0.8)
  assert set(found) == {*retrieval.SCORES, *(f'{d}_median_rank' for d in retrieval.DIRECTIONS)}
  output = retrieval.summary(found)
  assert 'video to text: R@1 0.2500  R@5 0.5000  R@10 0.7500  median rank 4' in output
  assert 'text to video: R@1 0.6000  R@5 0.6000  R@10 0.8000  median rank 1' in output
  assert 'rsum 3.5000' in output
