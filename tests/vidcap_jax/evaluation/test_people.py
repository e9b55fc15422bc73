"""Each round scores one caption of a video by all its others."""

from vidcap_jax.evaluation import people


def test_each_caption_is_scored_by_the_others():
  captions = {'a': ['a1', 'a2', 'a3'], 'b': ('b1', 'b2'), 'lone': ['c1']}
  assert list(people.rounds(captions)) == [
    ({'a': 'a1', 'b': 'b1'}, {'a': ['a2', 'a3'], 'b': ['b2']}),
    ({'a': 'a2', 'b': 'b2'}, {'a': ['a1', 'a3'], 'b': ['b1']}),
  ]


def test_there_are_no_more_rounds_than_any_video_has_captions():
  assert people.count_rounds({'a': ['x'] * 20, 'b': ['x'] * 7}) == people.MOST_ROUNDS
  assert people.count_rounds({'a': ['x'] * 20, 'b': ['x'] * 4, 'c': ['x']}) == 4
  assert people.count_rounds({'a': ['x']}) == 0
  assert not list(people.rounds({'a': ['x']}))
