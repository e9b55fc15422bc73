"""The statistics of captions and their best references."""

import random

import numpy as np

from vidcap_jax.evaluation import meteor_statistics
from vidcap_jax.evaluation.meteor import score_of_statistics
from vidcap_jax.evaluation.meteor_paraphrases import Paraphrases
from vidcap_jax.evaluation.meteor_statistics import Videos, best_statistics, split_videos


def test_the_best_reference_counts_and_paraphrases_of_other_videos_do_not():
  videos = split_videos(['a man ran', 'it'], [['the boy', 'one man runs off'], ['a dog']])
  entries = {'man': {'boy': [(0, 1)]}, 'a man': {'one man': [(1, 2)], 'dog': [(0, 3)]}}
  table = best_statistics(videos, Paraphrases(entries))
  words, functions, chunks_and_matched = table[0, :2], table[0, 2:4], table[0, 20:]
  assert words.tolist() == [3, 4]  # of the second reference
  assert functions.tolist() == [1, 1]
  assert chunks_and_matched.tolist() == [1, 3, 3]  # 'one man' as a phrase, and 'runs'
  np.testing.assert_array_equal(table[1, 20:], 0)


def test_a_part_of_the_videos_has_the_statistics_of_all():
  videos = split_videos(['a man ran', 'the dogs'], [['one man runs'], ['a dog', 'the dog']])
  nothing = Paraphrases({})
  all_rows = best_statistics(videos, nothing)
  np.testing.assert_array_equal(best_statistics(videos.from_video(1), nothing), all_rows[1:])


def test_the_best_of_many_references_is_that_of_all_alignments(monkeypatch):
  rng = random.Random(0)
  words = ['a', 'the', 'man', 'men', 'boy', 'runs', 'running', 'down', 'road', 'street', 'in']
  caption = lambda: ' '.join(rng.choices(words, k=rng.randint(0, 9)))  # noqa: E731
  videos = split_videos([caption() for _ in range(200)], [[caption() for _ in range(12)]] * 200)
  entries = {'man': {'boy': [(0, 1)]}, 'runs down': {'running in': [(1, 2)], 'in': [(0, 3)]}}
  paraphrases = Paraphrases(entries)
  aligned = []
  align = meteor_statistics.align
  monkeypatch.setattr(meteor_statistics, 'align', lambda pairs: aligned.append(1) or align(pairs))
  table = best_statistics(videos, paraphrases)
  assert len(aligned) < 0.6 * 200 * 12  # the bounds of the others are too low
  for i, row in enumerate(table):
    one_by_one = [
      best_statistics(Videos(videos.captions[i : i + 1], [[reference]]), paraphrases)[0]
      for reference in videos.references[i]
    ]
    np.testing.assert_array_equal(
      row, one_by_one[score_of_statistics(np.stack(one_by_one)).argmax()]
    )
