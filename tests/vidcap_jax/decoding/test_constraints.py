import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vidcap_jax.decoding import toy
from vidcap_jax.data.vocabulary import BOS, EOS, PAD, UNK
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints, constrain

V, ROWS, L = 7, 3, 8
WORDS = st.lists(
  st.lists(st.integers(UNK + 1, V - 1), min_size=L, max_size=L), min_size=ROWS, max_size=ROWS
)


@functools.cache
def compiled(constraints):
  return jax.jit(functools.partial(constrain, constraints))


def permitted(constraints, words, t):
  """Row by row the words that may follow words[:, :t]; what stands after them must not matter."""
  tokens = np.asarray(words, np.int32)
  logits = np.zeros((len(words), V), np.float32)
  out = np.asarray(compiled(constraints)(logits, tokens, np.int32(t)))
  assert set(np.unique(out)) <= {0.0, -np.inf}
  return [np.flatnonzero(row == 0).tolist() for row in out]


@pytest.mark.parametrize('n', [1, 2, 3])
@settings(max_examples=150, deadline=None)
@given(words=WORDS, t=st.integers(0, L - 1))
def test_no_ngram_comes_twice(n, words, t):
  constraints = Constraints(no_repeat_ngram=n)
  expected = [toy.allowed(row[:t], constraints) for row in words]
  assert permitted(constraints, words, t) == expected


@settings(max_examples=60, deadline=None)
@given(words=WORDS, t=st.integers(0, L - 1))
def test_all_rules_together(words, t):
  """With five words demanded, of three that may not repeat, the only way out is to end."""
  constraints = Constraints(min_length=5, no_repeat_ngram=1)
  expected = [toy.allowed(row[:t], constraints) for row in words]
  assert permitted(constraints, words, t) == expected


def test_a_caption_that_used_every_word_ends():
  constraints = Constraints(min_length=5, no_repeat_ngram=1)
  words = [[4, 5, 6, 0, 0, 0, 0, 0], [4, 5, 5, 0, 0, 0, 0, 0]]
  assert permitted(constraints, words, 3) == [[EOS], [6]]


@pytest.mark.parametrize('n', [L, L + 1, L + 5])
def test_ngrams_longer_than_the_caption_never_repeat(n):
  for t in range(L):
    assert permitted(Constraints(no_repeat_ngram=n), [[4] * L], t) == [[EOS, 4, 5, 6]]


def test_forbidden_words_and_minimum_length():
  logits = jnp.asarray(np.random.default_rng(0).normal(size=(2, V)), jnp.float32)
  out = constrain(WORDS_ONLY, logits)
  assert np.isneginf(out[:, [PAD, BOS, UNK]]).all()
  np.testing.assert_array_equal(out[:, [EOS, 4, 5, 6]], logits[:, jnp.array([EOS, 4, 5, 6])])
  constraints = Constraints(forbidden=(5,), min_length=2)
  for t, banned in ((0, [EOS, 5]), (1, [EOS, 5]), (2, [5])):
    out = constrain(constraints, logits, t=t)
    np.testing.assert_array_equal(
      np.isneginf(out), np.isin(np.arange(V), banned)[None].repeat(2, 0)
    )


@pytest.mark.parametrize('n', [0, 2])
@pytest.mark.parametrize('length', [0, 3])
def test_a_caption_ends_where_all_words_are_forbidden(length, n):
  for forbidden in ({*range(V)}, {*range(V)} - {EOS}):
    constraints = Constraints(tuple(forbidden), min_length=length, no_repeat_ngram=n)
    assert permitted(constraints, [[4] * L], 1) == [[EOS]]


def test_masks_of_forbidden_words_are_constants():
  """Nothing as long as the vocabulary is computed, so that no loop over words repeats it."""
  constraints = Constraints(min_length=2)
  apply = lambda logits, t: constrain(constraints, logits, None, t)  # noqa: E731
  program = jax.make_jaxpr(apply)(jnp.zeros((2, V)), jnp.int32(0))
  names = {equation.primitive.name for equation in program.eqns}
  assert not names & {'iota', 'eq', 'reduce_and', 'reduce_or', 'or'}, names
