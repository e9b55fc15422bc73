"""METEOR's alignment of two captions, given their possible matches."""

from vidcap_jax.evaluation.meteor_alignment import Alignment, align

EXACT, STEM, PARAPHRASE = 0, 1, 3


def test_matches_without_a_choice():
  matches = (((1, 0, 1, EXACT),), (), ((1, 1, 1, STEM),))
  assert align(matches) == Alignment(((0, (1, 0, 1, EXACT)), (2, (1, 1, 1, STEM))), 2)
  assert align(((), ())) == Alignment((), 0)


def test_a_repeated_word_is_matched_in_the_fewest_chunks():
  # 'a b' against 'a a b': the second 'a' is next to 'b'.
  matches = (((1, 0, 1, EXACT), (1, 1, 1, EXACT)), ((1, 2, 1, EXACT),))
  assert align(matches) == Alignment(((0, (1, 1, 1, EXACT)), (1, (1, 2, 1, EXACT))), 1)


def test_more_exact_matches_come_before_fewer_chunks():
  # A paraphrase of both words in one chunk counts half, two exact matches in two chunks whole.
  matches = (
    ((1, 1, 1, EXACT), (2, 0, 2, PARAPHRASE)),
    ((1, 0, 1, EXACT),),
  )
  found = align(matches)
  assert [match for _, match in found.matches] == [(1, 1, 1, EXACT), (1, 0, 1, EXACT)]
  assert found.chunks == 2


def test_no_word_is_matched_twice():
  matches = tuple(((1, 0, 1, EXACT), (1, 1, 1, EXACT)) for _ in range(3))
  found = align(matches)
  assert len(found.matches) == 2
  assert len({match[1] for _, match in found.matches}) == 2
