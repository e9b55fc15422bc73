"""Diverse groups and forced words, against both written with lists, and against all captions."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.vidcap_jax.decoding import toy
from tests.vidcap_jax.decoding.test_beam import BIGRAMS, UNIGRAMS, check, video
from vidcap_jax.data.vocabulary import BOS, UNK
from vidcap_jax.decoding import beam, beam_banks
from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints
from vidcap_jax.errors import ConfigError

pytestmark = pytest.mark.usefixtures('strict_dtypes')

B, L = 16, 6
A, Z = UNK + 1, UNK + 3  # the toy's words are 4, 5 and 6


@pytest.fixture(scope='module')
def search():
  @functools.cache
  def compiled(beam, L, **options):
    return jax.jit(functools.partial(beam_search, toy.captioner, L=L, beam=beam, **options))

  return lambda memory, beam=6, L=L, **options: jax.device_get(compiled(beam, L, **options)(memory))


def in_turn(groups, length_penalty):
  """The groups' captions in rounds: the best of each, best first; then the second best; …"""
  rounds = ([h for h in turn if h] for turn in itertools.zip_longest(*groups))
  return [h for turn in rounds for h in sorted(turn, key=lambda h: -h.score(length_penalty))]


# ---------------------------------------------------------------- diverse groups


@pytest.mark.parametrize(
  ('groups', 'diversity', 'length_penalty', 'constraints', 'n_best'),
  [
    (3, 0.8, 0.0, WORDS_ONLY, 6),
    (2, 2.0, 1.0, BIGRAMS, 1),
    (6, 0.3, 0.7, UNIGRAMS, 6),
  ],
)
def test_groups_are_diverse_beam_search(
  search, groups, diversity, length_penalty, constraints, n_best
):
  tables = toy.tables(1, B, eos=0.5)
  captions = search(
    tables,
    groups=groups,
    diversity=diversity,
    length_penalty=length_penalty,
    constraints=constraints,
    n_best=n_best,
  )
  for b, table in enumerate(tables):
    each = toy.plain_groups(table, L, 6, groups, diversity, length_penalty, constraints)
    expected = in_turn(each, length_penalty)[:n_best]
    found = video(captions, b)
    assert found.tokens[: len(expected)].tolist() == [h.tokens(L) for h in expected]
    log_prob = [h.log_prob for h in expected]  # the model's own, without the penalty
    np.testing.assert_allclose(found.log_prob[: len(expected)], log_prob, rtol=1e-5, atol=1e-6)
    assert np.isneginf(found.score[len(expected) :]).all()


def test_groups_without_diversity_are_all_the_beam_of_their_size(search):
  tables = toy.tables(2, B)
  together, alone = search(tables, groups=3, n_best=6), search(tables, beam=2, n_best=2)
  jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b.repeat(3, axis=1)), together, alone)


def test_one_group_is_plain_whatever_the_diversity(search):
  tables = toy.tables(3, B)
  jax.tree.map(
    np.testing.assert_array_equal,
    search(tables, n_best=6, groups=1, diversity=9.0),
    search(tables, n_best=6),
  )


def test_diversity_makes_captions_differ(search):
  """With 16 words; a strong one makes every group begin with words of its own."""
  tables, captions, words = toy.tables(4, B, vocab=20), {}, {}
  for diversity in (0.5, 100.0):
    made = search(
      tables, L=4, groups=3, n_best=3, diversity=diversity, constraints=Constraints(min_length=3)
    )
    captions[diversity] = sum(len({tuple(t) for t in rows}) for rows in made.tokens.tolist())
    words[diversity] = sum(len(set(rows[:, 0])) for rows in made.tokens)
  assert B < captions[0.5] < captions[100.0] == words[100.0] == 3 * B


def test_the_mates_of_a_batch_change_no_groups(search):
  options = {'groups': 3, 'diversity': 1.0, 'n_best': 6, 'length_penalty': 1.0}
  table, mates = toy.tables(5, 1), toy.tables(6, B - 1, eos=20.0)
  alone = search(np.concatenate([table, toy.tables(7, B - 1, eos=-20.0)]), **options)
  together = search(np.concatenate([mates, table]), **options)
  jax.tree.map(np.testing.assert_array_equal, video(alone, 0), video(together, B - 1))


@pytest.mark.parametrize('groups', [0, 4])
def test_groups_that_do_not_divide_the_beam(groups):
  with pytest.raises(ConfigError, match=f'{groups} groups .*6'):
    beam_search(toy.captioner, toy.tables(0), L, 6, groups=groups)


def test_diversity_below_0():
  with pytest.raises(ConfigError, match=r'diversity -0\.5'):
    beam_banks.in_groups(6, 2, -0.5)


# ---------------------------------------------------------------- forced words


def holding(hypotheses, words):
  return [h for h in hypotheses if {*words} <= {*h.words}]


@pytest.mark.parametrize(
  ('words', 'length_penalty', 'constraints'),
  [((Z,), 0.0, WORDS_ONLY), ((Z, A), 1.0, BIGRAMS), ((A, 5, Z), 0.0, WORDS_ONLY)],
)
def test_a_wide_beam_is_exhaustive_among_captions_that_hold_the_words(
  search, words, length_penalty, constraints
):
  tables = toy.tables(8, 4)
  options = {'length_penalty': length_penalty, 'constraints': constraints, 'n_best': 5}
  captions = search(tables, 100, 4, forced=words, **options)
  for b, table in enumerate(tables):
    best = holding(toy.exhaustive(table, 4, length_penalty, constraints), words)
    check(video(captions, b), best[:5], length_penalty)


@pytest.mark.parametrize(
  ('words', 'length_penalty', 'constraints', 'n_best'),
  [((A,), 0.0, WORDS_ONLY, 2), ((Z, A), 1.0, WORDS_ONLY, 1), ((5, Z, A), 0.7, UNIGRAMS, 2)],
)
def test_a_narrow_beam_for_each_set_of_words(search, words, length_penalty, constraints, n_best):
  tables = toy.tables(9, B, eos=1.0)
  options = {'length_penalty': length_penalty, 'constraints': constraints, 'n_best': n_best}
  captions = search(tables, 2, forced=words, **options)
  for b, table in enumerate(tables):
    best = toy.plain_banks(table, L, 2, words, length_penalty, constraints)
    check(video(captions, b), best[:n_best], length_penalty)


@pytest.mark.parametrize('eos', [-1e4, 1e3])
def test_every_caption_holds_the_words(search, eos):
  """A model that never ends, and one that would end at once."""
  captions = search(toy.tables(10, B, eos=eos), 2, 4, forced=(Z, A, 5), n_best=2)
  assert np.isfinite(captions.score).all()
  for word in (Z, A, 5):
    assert (captions.tokens == word).any(axis=-1).all()
  assert (captions.tokens > BOS).all()
  assert captions.ended.all() == (eos > 0)


def test_no_words_is_plain_beam_search(search, monkeypatch):
  tables = toy.tables(11, B)
  plain = search(tables, 3, n_best=3)
  monkeypatch.setattr(beam, 'in_groups', lambda size, *_: beam_banks.by_words(size, (), L))
  jax.tree.map(
    np.testing.assert_array_equal,
    plain,
    jax.jit(lambda m: beam_search(toy.captioner, m, L, 3, n_best=3))(tables),
  )


def test_the_mates_of_a_batch_change_no_forced_words(search):
  options = {'forced': (Z, A), 'n_best': 2, 'length_penalty': 1.0}
  table, mates = toy.tables(5, 1), toy.tables(6, B - 1, eos=20.0)
  alone = search(np.concatenate([table, toy.tables(7, B - 1, eos=-20.0)]), 2, **options)
  together = search(np.concatenate([mates, table]), 2, **options)
  jax.tree.map(np.testing.assert_array_equal, video(alone, 0), video(together, B - 1))


def test_it_stops_when_nothing_can_improve():
  steps = []
  run = jax.jit(lambda m: beam_search(toy.counting(steps), m, 20, 3, forced=(A,)))
  captions = jax.block_until_ready(run(toy.tables(12, 1, eos=12.0)))
  jax.effects_barrier()
  assert captions.ended[0, 0]
  assert len(steps) == (captions.tokens[0, 0] > BOS).sum() == 2


@pytest.mark.parametrize(('words', 'L'), [((4, 5, 6, 7, 8), 20), ((4, 5), 2)])
def test_too_many_words(words, L):
  with pytest.raises(ConfigError, match=rf'force: {len(words)} .*{L - 1}'):
    beam_search(toy.captioner, toy.tables(0), L, 3, forced=words)


@pytest.mark.parametrize('V', [7, 100, 1000, 1003])
def test_the_largest_are_those_of_top_k(V):
  rng = np.random.default_rng(V)
  x = rng.integers(0, 40, (6, V)).astype(np.float32)  # many are equal
  x[1, 5:] = -np.inf
  x[2] = -np.inf
  for k in (1, 5):
    values, at = jax.lax.top_k(x, k)
    found, where = beam_banks._largest(jnp.asarray(x), k)
    np.testing.assert_array_equal(found, values)
    assert (np.asarray(where) < V).all()
    there = np.isfinite(values)
    np.testing.assert_array_equal(np.asarray(where)[there], np.asarray(at)[there])
