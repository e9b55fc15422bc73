import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.vidcap_jax.decoding import toy
from vidcap_jax.data.vocabulary import BOS, EOS, PAD, UNK
from vidcap_jax.decoding import unroll
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints
from vidcap_jax.decoding.unroll import Sampling, filter_logits
from vidcap_jax.errors import ConfigError
from vidcap_jax.objectives.cross_entropy import token_log_probs

pytestmark = pytest.mark.usefixtures('strict_dtypes')

B, S, L = 6, 4, 6
ALL = Sampling()
uniform_draws = jax.jit(unroll.uniform_draws, static_argnums=(2, 3))
RULES = Constraints(min_length=2, no_repeat_ngram=2)


@pytest.fixture(scope='module')
def greedy():
  run = functools.partial(unroll.greedy, toy.captioner, L=L)
  compiled = functools.cache(lambda constraints: jax.jit(lambda m: run(m, constraints=constraints)))
  return lambda tables, constraints=WORDS_ONLY: jax.device_get(compiled(constraints)(tables))


@pytest.fixture(scope='module')
def sample():
  @functools.cache
  def compiled(sampling, constraints):
    run = functools.partial(unroll.sample, sampling=sampling, constraints=constraints)
    return jax.jit(lambda memory, draws: run(toy.captioner, memory, draws))

  def run(tables, draws, sampling=ALL, constraints=WORDS_ONLY):
    return jax.device_get(compiled(sampling, constraints)(tables, draws))

  return run


@pytest.fixture(scope='module')
def rescore():
  """Log-probability of each token of given captions (B, S, L) by teacher forcing, 0 at PAD."""

  @jax.jit
  def run(tables, tokens):
    unrolled = unroll.teacher_forcing(toy.captioner, tables, tokens)
    logits = jnp.moveaxis(toy.captioner.logits(unrolled.hidden), 0, 2)  # (B, S, L, V)
    return logits, jnp.where(tokens == PAD, 0, token_log_probs(logits, tokens))

  return run


def draws(seed, B=B, S=S):
  return uniform_draws(jax.random.key(seed), jnp.arange(B), S, L)


def well_formed(captions):
  """Words, then one EOS if ended, then PAD."""
  for tokens, ended in zip(captions.tokens.reshape(-1, L), captions.ended.ravel()):
    n = int((tokens != PAD).sum())
    assert (tokens[n:] == PAD).all()
    assert (tokens[: n - ended] > UNK).all()
    assert tokens[n - 1] == EOS if ended else n == L


def test_shift_right():
  targets = jnp.array([[[4, 5, EOS, PAD], [6, EOS, PAD, PAD]]])
  np.testing.assert_array_equal(
    unroll.shift_right(targets)[:, 0], [[BOS, BOS], [4, 6], [5, EOS], [EOS, PAD]]
  )


@pytest.mark.parametrize('constraints', [WORDS_ONLY, RULES])
def test_greedy_takes_the_likeliest_word(greedy, constraints):
  tables = toy.tables(0, B)
  captions = greedy(tables, constraints)
  well_formed(captions)
  for b, table in enumerate(tables):
    words, log_prob = (), 0.0
    while len(words) < L and words[-1:] != (EOS,):
      gains = toy.log_probs(table, words)
      word = max(toy.allowed(words, constraints), key=lambda w: gains[w])
      words, log_prob = (*words, word), log_prob + gains[word]
    assert captions.tokens[b, 0].tolist() == [*words, *[PAD] * (L - len(words))]
    np.testing.assert_allclose(captions.log_prob[b, 0], log_prob, rtol=1e-5)
  np.testing.assert_array_equal(captions.score, captions.log_prob)


def test_greedy_equals_teacher_forcing_on_its_own_output(greedy, rescore):
  tables = toy.tables(1, B)
  captions = greedy(tables)
  logits, log_probs = rescore(tables, captions.tokens)
  best = np.where(np.isin(np.arange(7), [PAD, BOS, UNK]), -np.inf, logits).argmax(axis=-1)
  choice = np.where(captions.tokens == PAD, PAD, best)
  np.testing.assert_array_equal(captions.tokens, choice)
  np.testing.assert_allclose(captions.log_prob, log_probs.sum(axis=-1), rtol=1e-6)


def test_a_model_that_never_ends(greedy, sample):
  tables = toy.tables(2, B, eos=-1e4)
  for captions in (greedy(tables), sample(tables, draws(0))):
    assert (captions.tokens > UNK).all()
    assert not captions.ended.any()


@pytest.mark.parametrize(('constraints', 'least'), [(WORDS_ONLY, 0), (RULES, 2)])
def test_a_model_that_ends_at_once(greedy, constraints, least):
  captions = greedy(toy.tables(3, B, eos=1e3), constraints)
  well_formed(captions)
  assert captions.ended.all()
  assert ((captions.tokens > UNK).sum(axis=-1) == least).all()


def test_it_stops_when_all_captions_have_ended():
  steps = []
  counting = toy.counting(steps)
  tables = np.concatenate([toy.tables(3, 2, eos=1e3), toy.tables(4, 1)])
  captions = jax.block_until_ready(jax.jit(lambda m: unroll.greedy(counting, m, 20))(tables))
  jax.effects_barrier()
  assert len(steps) == (captions.tokens != PAD).sum(axis=-1).max() < 20


def test_batch_mates_change_nothing(greedy, sample):
  tables = toy.tables(5, B)
  others = np.concatenate(
    [toy.tables(6, B, eos=-50.0)[:3], tables[3:4], toy.tables(7, 2, eos=50.0)]
  )
  for run in (greedy, lambda t: sample(t, draws(3))):
    one, two = run(tables), run(others)
    assert not np.array_equal(one.tokens[:3], two.tokens[:3])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[3], b[3]), one, two)


def test_draws_depend_on_the_video_alone():
  key = jax.random.key(5)
  some = uniform_draws(key, jnp.array([7, 2, 9, 0, 1, 3]), S, L)  # (L, B, S)
  others = uniform_draws(key, jnp.array([9, -1, 4, 5, 6, 8]), S, L)
  np.testing.assert_array_equal(some[:, 2], others[:, 0])
  assert len(np.unique(some)) == some.size
  assert ((some >= 0) & (some < 1)).all()


@pytest.mark.parametrize(
  'sampling',
  [Sampling(temperature=1e-3), Sampling(temperature=unroll.TEMPERATURES[0]), Sampling(top_k=1)],
)
def test_the_coldest_sample_is_greedy(greedy, sample, sampling):
  tables = toy.tables(8, B)
  captions, best = sample(tables, draws(1), sampling), greedy(tables)
  np.testing.assert_array_equal(captions.tokens, best.tokens.repeat(S, axis=1))
  np.testing.assert_allclose(captions.log_prob, best.log_prob.repeat(S, axis=1), rtol=1e-6)


def test_samples_score_as_teacher_forcing_scores_them(sample, rescore):
  """Log-probabilities are the model's, whatever changed the distribution drawn from."""
  tables = toy.tables(9, B)
  captions = sample(tables, draws(2), Sampling(0.7, top_k=3, top_p=0.9), RULES)
  well_formed(captions)
  assert len(np.unique(captions.tokens.reshape(-1, L), axis=0)) > B
  _, log_probs = rescore(tables, captions.tokens)
  np.testing.assert_allclose(captions.log_prob, log_probs.sum(axis=-1), rtol=1e-5)


@pytest.mark.parametrize('constraints', [WORDS_ONLY, RULES])
def test_samples_obey_the_rules(sample, constraints):
  captions = sample(toy.tables(10, B), draws(4), constraints=constraints)
  for tokens in captions.tokens.reshape(-1, L).tolist():
    for t in range(L if PAD not in tokens else tokens.index(PAD)):
      assert tokens[t] in toy.allowed(tuple(tokens[:t]), constraints)


def test_words_come_as_often_as_their_probability(sample):
  """First words of 3,000 draws against temperature and constraints by hand, chi-square at 1e-6."""
  tables = toy.tables(11, 1)
  n, sampling = 3000, Sampling(temperature=1.5)
  tokens = sample(tables, draws(6, 1, n), sampling).tokens[0, :, 0]
  hidden = toy.captioner.step(toy.captioner.start(tables, 1, 1), jnp.full((1, 1), 1.0), tables)[1]
  odds = np.exp(np.asarray(hidden[0, 0], np.float64) / 1.5)
  odds[[PAD, BOS, UNK]] = 0
  expected = n * odds / odds.sum()
  counts = np.bincount(tokens, minlength=7)
  assert counts[[PAD, BOS, UNK]].sum() == 0
  kept = expected > 0
  chi_square = (np.square(counts - expected)[kept] / expected[kept]).sum()
  assert chi_square < 31.0  # 3 degrees of freedom


@pytest.mark.parametrize(
  ('sampling', 'kept'),
  [
    (Sampling(), [0, 1, 2, 3, 4]),
    (Sampling(top_p=0.45), [1]),
    (Sampling(top_p=0.55), [1, 3]),
    (Sampling(top_p=0.83), [0, 1, 3]),
    (Sampling(top_p=0.93), [0, 1, 2, 3]),
    (Sampling(top_k=2), [1, 3]),
    (Sampling(top_k=9), [0, 1, 2, 3, 4]),
    # After top-k the rest is 5/7 and 2/7; after temperature 1/2 the odds are squared: .7735.
    (Sampling(top_k=2, top_p=0.7), [1]),
    (Sampling(top_k=2, top_p=0.72), [1, 3]),
    (Sampling(temperature=0.5, top_p=0.77), [1]),
    (Sampling(temperature=0.5, top_p=0.78), [1, 3]),
  ],
)
def test_cuts_keep_exactly_the_right_words(sampling, kept):
  probabilities = np.array([0.14, 0.5, 0.1, 0.2, 0.06])
  logits = jnp.asarray(np.log(probabilities) + 3.0, jnp.float32)
  out = filter_logits(logits[None, None], sampling)[0, 0]
  assert np.flatnonzero(np.isfinite(out)).tolist() == kept
  at = jnp.asarray(kept)
  np.testing.assert_allclose(out[at], logits[at] / sampling.temperature, rtol=1e-6)


@pytest.mark.parametrize(
  ('sampling', 'kept'),
  [(Sampling(top_k=2), [1, 2]), (Sampling(top_p=0.6), [1, 2]), (Sampling(top_k=1), [1])],
)
def test_cuts_among_equals_keep_no_more_than_asked(sampling, kept):
  """bfloat16 logits are often equal; the first of them stay, as in an argmax."""
  logits = jnp.array([-2.0, 3.0, 3.0, 3.0], jnp.bfloat16)
  out = filter_logits(logits, sampling)
  assert out.dtype == jnp.float32
  assert np.flatnonzero(np.isfinite(out)).tolist() == kept


def test_a_word_without_probability_is_never_drawn():
  """Sums over a large vocabulary rise by rounding errors between the words that are kept."""
  rng, V, n = np.random.default_rng(0), 5000, 64
  draw, sums = jax.jit(unroll.inverse_cdf), jax.jit(lambda x: jnp.cumsum(jax.nn.softmax(x)))
  for _ in range(3):
    logits = np.where(rng.random(V) < 0.02, rng.normal(size=V), -np.inf).astype(np.float32)
    cdf = np.asarray(sums(logits))
    rises = cdf[1:][(np.diff(cdf) > 0) & np.isneginf(logits[1:])]
    # Numbers that fall on just these rises, and one below and above, and both ends.
    numbers = np.concatenate([rises, np.nextafter(rises, 0), np.nextafter(rises, 1)]) / cdf[-1]
    numbers = np.resize([0.0, 1 - 2.0**-24, *numbers], n).astype(np.float32)
    words = draw(np.broadcast_to(logits, (n, V)), numbers)
    assert np.isfinite(logits[words]).all()


@pytest.mark.parametrize(
  ('name', 'value'),
  [
    ('temperature', 0.0),
    ('temperature', 1e-38),
    ('temperature', 1e38),
    ('temperature', np.nan),
    ('top_k', -1),
    ('top_p', 0.0),
    ('top_p', 1.5),
  ],
)
def test_impossible_sampling(name, value):
  with pytest.raises(ConfigError, match=f'^decode.{name}={re.escape(str(value))}: '):
    Sampling(**{name: value})


@pytest.fixture(scope='module')
def scheduled():
  @jax.jit
  def run(tables, targets, ratio, key):
    return unroll.scheduled_sampling(toy.captioner, tables, targets, None, ratio=ratio, key=key)

  return lambda tables, targets, ratio, seed=0: jax.device_get(
    run(tables, targets, np.float32(ratio), jax.random.key(seed))
  )


@pytest.fixture
def targets():
  words = np.random.default_rng(0).integers(UNK + 1, 7, (B, S, L)).astype(np.int32)
  words[..., -1] = EOS
  words[0, 0, 2:] = [EOS, PAD, PAD, PAD]
  return words


def test_scheduled_sampling_with_ratio_0_is_teacher_forcing(scheduled, targets):
  tables = toy.tables(12, B)
  found = scheduled(tables, targets, 0.0)
  expected = unroll.teacher_forcing(toy.captioner, tables, targets)
  np.testing.assert_array_equal(found.aux, unroll.shift_right(targets))
  np.testing.assert_array_equal(found.hidden, expected.hidden)


def test_scheduled_sampling_with_ratio_1_reads_own_words_alone(scheduled, greedy, targets):
  """A model that is sure of each word draws what greedy decoding chooses."""
  tables = toy.tables(13, B, scale=1e3, eos=-1e6)
  read = scheduled(tables, targets, 1.0).aux  # (L, B, S)
  expected = unroll.shift_right(greedy(tables).tokens.repeat(S, axis=1))
  np.testing.assert_array_equal(read, expected)
  assert not np.array_equal(read, unroll.shift_right(targets))


def test_scheduled_sampling_chooses_word_by_word(scheduled, targets):
  """At ratio 0.3 about a third of the words of each position is the model's own."""
  tables = toy.tables(14, B, eos=-1e6)
  given = np.asarray(unroll.shift_right(targets))
  other = np.mean(
    [scheduled(tables, targets, 0.3, seed).aux != given for seed in range(40)], axis=(0, 2, 3)
  )
  assert other[0] == 0  # BOS
  # Own words equal the given ones about a third of the time.
  assert (np.abs(other[1:] - 0.2) < 0.08).all()
  sample = scheduled(tables, targets, 1.0, 1).aux
  assert (sample[1:] > UNK).all()
  assert (scheduled(tables, targets, 1.0, 2).aux != sample).any()


def test_the_likeliest_word_is_the_first_of_equals():
  logits = np.random.default_rng(0).integers(0, 5, (4, 3, 50)).astype(np.float32)
  logits[0, 0] = -np.inf
  logits[1, 1, 20:] = -np.inf
  np.testing.assert_array_equal(unroll._likeliest(jnp.asarray(logits)), logits.argmax(axis=-1))
  broken = unroll._likeliest(jnp.full((1, 50), jnp.nan))
  assert 0 <= broken[0] < 50


def test_log_probabilities_of_words_are_those_of_the_softmax():
  logits = 30 * jax.random.normal(jax.random.key(0), (4, 3, 50))
  words = jnp.arange(12).reshape(4, 3)
  expected = jnp.take_along_axis(jax.nn.log_softmax(logits), words[..., None], axis=-1)[..., 0]
  np.testing.assert_allclose(unroll._log_prob_of(logits, words), expected, rtol=1e-6)
