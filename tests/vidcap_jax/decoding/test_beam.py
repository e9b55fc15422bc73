import functools

import jax
import numpy as np
import pytest

from tests.vidcap_jax.decoding import toy
from vidcap_jax.data.vocabulary import EOS, PAD, UNK
from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints
from vidcap_jax.decoding.unroll import greedy
from vidcap_jax.errors import ConfigError

pytestmark = pytest.mark.usefixtures('strict_dtypes')

B, L = 24, 6
BIGRAMS = Constraints(min_length=1, no_repeat_ngram=2)
UNIGRAMS = Constraints(min_length=2, no_repeat_ngram=1)
# What a search may be asked for: (length penalty, constraints).
SETTINGS = {
  'plain': (0.0, WORDS_ONLY),
  'length penalty': (1.0, WORDS_ONLY),
  'bigrams': (2.0, BIGRAMS),
  'unigrams': (0.7, UNIGRAMS),
}


@pytest.fixture(scope='module')
def search():
  """``search(tables, beam, …)``; the length penalty is an argument, to compile less."""

  @functools.cache
  def compiled(beam, n_best, constraints, L):
    def run(memory, length_penalty):
      return beam_search(
        toy.captioner,
        memory,
        L,
        beam,
        n_best=n_best,
        length_penalty=length_penalty,
        constraints=constraints,
      )

    return jax.jit(run)

  def run(memory, beam=3, n_best=3, length_penalty=0.0, constraints=WORDS_ONLY, L=L):
    captions = compiled(beam, n_best, constraints, L)(memory, np.float32(length_penalty))
    return jax.device_get(captions)

  return run


def video(captions, b):
  return jax.tree.map(lambda x: x[b], captions)


def check(captions, expected, length_penalty):
  """One video's captions (n_best, …) against hypotheses, best first; further rows are empty."""
  L = captions.tokens.shape[-1]
  rows, captions = captions, jax.tree.map(lambda x: x[: len(expected)], captions)
  np.testing.assert_array_equal(captions.tokens, [h.tokens(L) for h in expected])
  np.testing.assert_array_equal(captions.ended, [h.ended for h in expected])
  log_prob = [h.log_prob for h in expected]
  np.testing.assert_allclose(captions.log_prob, log_prob, rtol=1e-5, atol=1e-6)
  score = [h.score(length_penalty) for h in expected]
  np.testing.assert_allclose(captions.score, score, rtol=1e-5, atol=1e-6)
  assert (np.diff(captions.score) <= 0).all()
  assert np.isneginf(rows.score[len(expected) :]).all()
  assert not rows.ended[len(expected) :].any()
  assert (rows.tokens[len(expected) :] == PAD).all()


@pytest.mark.parametrize('setting', ['plain', 'length penalty', 'bigrams'])
def test_a_wide_beam_is_exhaustive_search(search, setting):
  length_penalty, constraints = SETTINGS[setting]
  tables = toy.tables(1, B=6)
  captions = search(tables, 160, 6, length_penalty, constraints, 4)
  for b, table in enumerate(tables):
    best = toy.exhaustive(table, 4, length_penalty, constraints)
    check(video(captions, b), best[:6], length_penalty)


@pytest.mark.parametrize('setting', SETTINGS)
def test_a_narrow_beam_is_beam_search_run_to_the_end(search, setting):
  """Nothing is lost by stopping early, nor by normalising only the likeliest words."""
  length_penalty, constraints = SETTINGS[setting]
  tables = toy.tables(2, B, eos=1.0)
  # The fewer captions are asked for, the earlier it stops.
  n_best = {'bigrams': 1}.get(setting, 3)
  captions = search(tables, 3, n_best, length_penalty, constraints)
  for b, table in enumerate(tables):
    best = toy.plain_beam(table, L, 3, length_penalty, constraints)
    check(video(captions, b), best[:n_best], length_penalty)


@pytest.mark.parametrize('setting', ['plain', 'length penalty', 'bigrams'])
def test_a_beam_of_one_is_greedy(search, setting):
  length_penalty, constraints = SETTINGS[setting]
  run_greedy = jax.jit(lambda m: greedy(toy.captioner, m, L, constraints=constraints))
  for seed in range(3):
    tables = toy.tables(seed, B)
    found, expected = search(tables, 1, 1, length_penalty, constraints), run_greedy(tables)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.ended, expected.ended)
    np.testing.assert_allclose(found.log_prob, expected.log_prob, rtol=1e-6)


def test_batch_mates_change_nothing(search):
  """A mate that ends at once, or never, does not end or lengthen a video's search."""
  table, early, late = toy.tables(4, 1), toy.tables(5, B - 1, eos=50.0), toy.tables(6, B, eos=-50.0)
  alone = video(search(table, length_penalty=1.0), 0)
  for row, mates in ((0, early), (7, late[1:])):
    together = search(np.insert(mates, row, table, axis=0), length_penalty=1.0)
    jax.tree.map(np.testing.assert_array_equal, alone, video(together, row))


def test_accelerators_have_no_first_step_of_its_own(monkeypatch):
  tables = toy.tables(12, 4)
  decode = lambda memory: beam_search(toy.captioner, memory, L, 3, n_best=2)  # noqa: E731
  apart = jax.jit(decode)(tables)
  monkeypatch.setattr('vidcap_jax.decoding.beam.batch_platform', lambda: 'tpu')
  jax.tree.map(np.testing.assert_array_equal, apart, jax.jit(lambda m: decode(m))(tables))


def test_a_model_that_never_ends(search):
  captions = search(toy.tables(7, B, eos=-1e4))
  assert (captions.tokens > UNK).all()
  assert not captions.ended.any()
  assert np.isfinite(captions.score).all()


@pytest.mark.parametrize(('constraints', 'least'), [(WORDS_ONLY, 0), (BIGRAMS, 1)])
def test_a_model_that_ends_at_once(search, constraints, least):
  captions = search(toy.tables(8, B, eos=1e3), 3, 3 - 2 * least, constraints=constraints)
  words = captions.tokens[:, 0]
  assert captions.ended[:, 0].all()
  assert (words[:, :least] > UNK).all()
  assert (words[:, least] == EOS).all()
  assert (words[:, least + 1 :] == PAD).all()
  if not least:
    np.testing.assert_allclose(captions.log_prob[:, 0], 0, atol=1e-6)


def test_more_beams_than_there_are_captions(search):
  """A vocabulary of one word: 4 captions of at most 3 tokens, the other rows stay empty."""
  tables = toy.tables(10, 2, vocab=5)
  captions = search(tables, 9, 6, L=3)
  for b, table in enumerate(tables):
    best = toy.exhaustive(table, 3, 0.0, WORDS_ONLY)
    assert len(best) == 4
    check(video(captions, b), best, 0.0)


def test_it_stops_when_nothing_can_improve():
  """A model that ends at once takes no more steps than can change the best, not L."""
  steps = []
  counting = toy.counting(steps)
  run = jax.jit(lambda m, penalty: beam_search(counting, m, 20, 3, length_penalty=penalty))
  for length_penalty, most in ((0.0, 1), (1.0, 3)):
    steps.clear()
    captions = jax.block_until_ready(run(toy.tables(11, 1, eos=12.0), np.float32(length_penalty)))
    jax.effects_barrier()
    assert captions.tokens[0, 0, 0] == EOS
    assert 1 <= len(steps) <= most


@pytest.mark.parametrize('n_best', [0, 4])
def test_n_best_outside_the_beam(n_best):
  with pytest.raises(ConfigError, match=f'n_best .*3.*{n_best}'):
    beam_search(toy.captioner, toy.tables(0), L, 3, n_best=n_best)
