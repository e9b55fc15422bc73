"""N-grams counted and looked up on the device against plain counting."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vidcap_jax.data.vocabulary import EOS, PAD
from vidcap_jax.rewards import ngrams

words = st.lists(st.integers(4, 7), max_size=7)  # few words, so that n-grams come again


def padded(sentences, length=8):
  return np.array([s + [PAD] * (length - len(s)) for s in sentences], np.int32)


def grams(sentence, n):
  return [tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1)]


@given(words, words)
def test_counts(one, other):
  a, b = padded([one, other])
  counts, distinct = jax.jit(ngrams.own_counts)(a)
  elsewhere = jax.jit(ngrams.counts_in)(a, b)
  for n in range(1, ngrams.ORDERS + 1):
    here, there = collections.Counter(grams(one, n)), collections.Counter(grams(other, n))
    places = grams(one, n)
    none = [0] * (len(a) - len(places))
    assert counts[n - 1].tolist() == [here[g] for g in places] + none
    assert elsewhere[n - 1].tolist() == [there[g] for g in places] + none
    first = [g not in places[:i] for i, g in enumerate(places)]
    assert distinct[n - 1].tolist() == first + [False] * len(none)


@given(st.lists(st.lists(words, max_size=3), min_size=1, max_size=4), words)
def test_document_frequencies(videos, sentence):
  """Of n-grams in the references, and of those that are in none."""
  R = max(map(len, videos)) or 1
  longest = max([1, *(len(sentence) for video in videos for sentence in video)])
  references = np.stack([padded(v + [[]] * (R - len(v)), longest) for v in videos])
  with jax.disable_jit():  # every example has shapes of its own
    found = ngrams.idf(ngrams.count(references), jnp.asarray(padded([sentence])[0]))
  for n in range(1, ngrams.ORDERS + 1):
    for i, gram in enumerate(grams(sentence, n)):
      seen = sum(any(gram in grams(s, n) for s in video) for video in videos)
      expected = np.log(len(videos)) - np.log(max(1, seen))
      np.testing.assert_allclose(found[n - 1, i], expected, atol=1e-6)


def test_n_grams_that_a_hash_would_take_for_the_same():
  """Of 10,000 words: two pairs that w1 * 31 + w2 and many such hashes map to one number."""
  V = 10_000
  one, other = (7_000, 5_231), (7_007, 5_014)
  assert one[0] * 31 + one[1] == other[0] * 31 + other[1]
  a, b = (np.array([*pair, PAD, PAD], np.int32) for pair in (one, other))
  assert not ngrams.counts_in(jnp.asarray(a), jnp.asarray(b)).any()
  frequencies = ngrams.count(np.stack([a, a, b])[:, None])
  found = [ngrams.idf(frequencies, jnp.asarray(x))[1, 0] for x in (a, b, a[[1, 0, 2, 3]])]
  np.testing.assert_allclose(found, np.log([3 / 2, 3, 3]), rtol=1e-6)

  rng = np.random.default_rng(0)
  references = rng.integers(4, V, (50, 3, 12)).astype(np.int32)
  found = ngrams.idf(ngrams.count(references), jnp.asarray(references))
  np.testing.assert_allclose(found[:, :, 3, :9], np.log(50), rtol=1e-6)  # each in one video


def test_what_counts_of_a_caption():
  tokens = jnp.array([[5, 6, EOS, 7, EOS], [EOS, 5, 5, PAD, PAD], [5, 5, 5, 5, 5]], jnp.int32)
  with_end = ngrams.sentence_of(tokens, count_eos=True)
  assert with_end.tolist() == [[5, 6, EOS, 0, 0], [EOS, 0, 0, 0, 0], [5] * 5]
  without = ngrams.sentence_of(tokens, count_eos=False)
  assert without.tolist() == [[5, 6, 0, 0, 0], [0] * 5, [5] * 5]
  assert ngrams.length(without).tolist() == [2, 0, 5]
