"""Several toys as one, against averages taken by hand."""

import jax
import numpy as np
import pytest

from tests.vidcap_jax.decoding import toy
from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.constraints import WORDS_ONLY
from vidcap_jax.decoding.ensemble import join
from vidcap_jax.decoding.unroll import greedy, sample, uniform_draws
from vidcap_jax.errors import ConfigError

pytestmark = pytest.mark.usefixtures('strict_dtypes')

B, L = 3, 5
WEIGHTS = (3.0, 1.0)
MEMORY = (toy.tables(1, B), toy.tables(2, B))
ONE, TWO = join([toy.captioner]), join([toy.captioner] * 2, WEIGHTS)


def exhaustive(b, monkeypatch, length_penalty=0.0):
  """Every caption of video b under the mean of both tables, best first."""
  log_probs = toy.log_probs

  def mean(tables, words):
    logs = [log_probs(table, words) for table in tables]
    return np.log(sum(w * np.exp(x) for w, x in zip(WEIGHTS, logs)) / sum(WEIGHTS))

  with monkeypatch.context() as patch:
    patch.setattr(toy, 'log_probs', mean)
    return toy.exhaustive([table[b] for table in MEMORY], L, length_penalty, WORDS_ONLY)


@pytest.mark.parametrize('length_penalty', [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_the_mean(monkeypatch, length_penalty):
  made = jax.jit(
    lambda memory: beam_search(TWO, memory, L, 200, n_best=3, length_penalty=length_penalty)
  )(MEMORY)
  for b in range(B):
    best = exhaustive(b, monkeypatch, length_penalty)
    for k in range(3):
      assert made.tokens[b, k].tolist() == best[k].tokens(L)
      np.testing.assert_allclose(made.log_prob[b, k], best[k].log_prob, rtol=1e-5)


def test_greedy_and_sampling_by_the_mean(monkeypatch):
  """The likeliest word at each step; samples as often as their probability says."""
  made = jax.jit(lambda memory: greedy(TWO, memory, L))(MEMORY)
  np.testing.assert_array_equal(
    made.tokens, jax.jit(lambda memory: beam_search(TWO, memory, L, 1))(MEMORY).tokens
  )
  S = 20_000
  draws = uniform_draws(jax.random.key(0), np.arange(B), S, L)
  sampled = jax.jit(lambda memory: sample(TWO, memory, draws))(MEMORY)
  best = exhaustive(0, monkeypatch)[0]
  drawn = np.asarray(sampled.tokens[0])
  share = (drawn == np.array(best.tokens(L))).all(axis=-1).mean()
  # The sampler draws among words and EOS alone: their probabilities there sum to 1.
  assert share > 0.8 * np.exp(best.log_prob)


def test_of_one_and_of_equals():
  alone = jax.jit(lambda memory: beam_search(toy.captioner, memory, L, 3, n_best=3))(MEMORY[0])
  for captioner, memory in ((ONE, MEMORY[:1]), (TWO, (MEMORY[0], MEMORY[0]))):
    made = jax.jit(lambda m, c=captioner: beam_search(c, m, L, 3, n_best=3))(memory)
    np.testing.assert_array_equal(made.tokens, alone.tokens)
    np.testing.assert_allclose(made.log_prob, alone.log_prob, rtol=1e-5)


@pytest.mark.parametrize('options', [{'groups': 2, 'diversity': 1.0}, {'forced': (4, 6)}])
def test_groups_and_forced_words_of_equals(options):
  run = lambda captioner: jax.jit(  # noqa: E731
    lambda memory: beam_search(captioner, memory, L, 4, n_best=3, **options)
  )
  made, alone = run(TWO)((MEMORY[0], MEMORY[0])), run(toy.captioner)(MEMORY[0])
  np.testing.assert_array_equal(made.tokens, alone.tokens)
  np.testing.assert_allclose(made.log_prob, alone.log_prob, rtol=1e-5)


@pytest.mark.parametrize(
  'weights', [(1.0,), (1.0, 0.0), (1.0, 1.0, 1.0), (1.0, np.nan), (np.inf, 1.0)]
)
def test_weights_that_make_no_sense(weights):
  with pytest.raises(ConfigError, match='ensemble of 2 .*weights'):
    join([toy.captioner] * 2, weights)
