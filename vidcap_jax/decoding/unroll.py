"""Unrolls a captioner: teacher forcing, scheduled sampling, greedy decoding and sampling."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from vidcap_jax.data.vocabulary import BOS, EOS, PAD
from vidcap_jax.decoding import compaction, scan, traced_sampling
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints, constrain
from vidcap_jax.decoding.traced_sampling import TracedSampling
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner
from vidcap_jax.models.layers import draws as random_choice
from vidcap_jax.models.layers.attention import at_least_float32

Array = jax.Array


@struct.dataclass
class Unrolled:
  """The results of all L steps: hidden (L, B, S, H), aux (L, B, S), attention (L, B, S, N),
  draw_log_prob (L, B, S) or None; see ``Extras``."""

  hidden: Array
  aux: Array
  attention: Mapping[str, Array]
  draw_log_prob: Array | None = None


@struct.dataclass
class Captions:
  """Generated captions.

  Attributes:
    tokens: (B, S, L) int32: words, EOS, PAD.
    log_prob: (B, S) sum of the model's log-probabilities of the tokens, EOS included, before
      temperature and constraints.
    ended: (B, S) bool, False where the caption was truncated at L tokens.
    score: (B, S) by which captions of a video are ranked, best first: log_prob, divided by the
      length penalty in beam search. Groups of diverse beam search take turns.
  """

  tokens: Array
  log_prob: Array
  ended: Array
  score: Array


def shift_right(targets: Array) -> Array:
  """Targets (B, S, L) to the input words of each step, time first: (L, B, S)."""
  words = jnp.concatenate([jnp.full_like(targets[..., :1], BOS), targets[..., :-1]], axis=-1)
  return jnp.moveaxis(words, -1, 0)


def teacher_forcing(
  captioner: Captioner,
  memory: Any,
  targets: Array,
  noise: Any = None,
  *,
  train: bool = False,
  attention: bool = False,
) -> Unrolled:
  """Feeds the given captions (B, S, L), whose words are embedded in one product.

  A captioner with ``teacher_force`` reads them in one pass, others are scanned.

  Args:
    noise: ``Noise.steps``, leaves (L, …), or None.
    attention: whether to return every step's attention weights.
  """
  words = shift_right(targets)
  x = captioner.embed(words, noise)  # (L, B, S, E)
  if captioner.teacher_force is not None:
    hidden, extras = captioner.teacher_force(x, memory, noise, train=train)
    weights = extras.attention if attention else {}
    return Unrolled(hidden, extras.aux, weights, extras.draw_log_prob)

  def body(captioner, memory, carry, step):
    x, noise_t = step
    carry, hidden, extras = captioner.step(carry, x, memory, noise_t, train=train)
    weights = extras.attention if attention else {}
    return carry, Unrolled(hidden, extras.aux, weights, extras.draw_log_prob)

  _, S, L = targets.shape
  return scan.scan(captioner, body, memory, captioner.start(memory, S, L), (x, noise))[1]


def scheduled_sampling(
  captioner: Captioner,
  memory: Any,
  targets: Array,
  noise: Any,
  *,
  ratio: Array | float,
  key: Array,
  train: bool = True,
) -> Unrolled:
  """``teacher_forcing`` where each input word is, with probability ``ratio``, one that is sampled.

  Words are sampled from the model's distribution; no gradient flows through the sampling.
  """
  words = shift_right(targets)  # (L, B, S)
  coin, draws = jax.random.uniform(key, (2, *words.shape))
  return _sampled_steps(captioner, memory, words, coin < ratio, draws, noise, train=train)[1]


def sample_on_tape(
  captioner: Captioner, memory: Any, draws: Array, noise: Any = None, *, train: bool = True
) -> tuple[Array, Unrolled]:
  """Samples the words that ``sample`` does, and returns every step's results for gradients.

  A captioner with ``teacher_force`` samples as ``sample`` does, without gradients, and reads its
  samples in one pass: that costs less than the gradient of L steps. Others run all L steps, even if
  captions end earlier. What is read after a caption's end differs.

  Args:
    draws, noise: as in ``sample``.

  Returns:
    tokens (B, S, L): words, EOS, PAD; the results of all steps.
  """
  if captioner.teacher_force is not None and captioner.rebind is not None:
    fixed = captioner.rebind(jax.lax.stop_gradient(captioner.params))
    fixed_memory = jax.lax.stop_gradient(memory)
    tokens = sample(fixed, fixed_memory, draws, noise=noise, train=train).tokens
    return tokens, teacher_forcing(captioner, memory, tokens, noise, train=train)
  words = jnp.full(draws.shape, BOS, jnp.int32)
  use_sampled = jnp.broadcast_to((jnp.arange(len(draws)) > 0)[:, None, None], draws.shape)
  drawn, unrolled = _sampled_steps(captioner, memory, words, use_sampled, draws, noise, train=train)
  is_eos = drawn == EOS
  ended_before = jnp.cumsum(is_eos, axis=0, dtype=jnp.int32) - is_eos.astype(jnp.int32) > 0
  return jnp.moveaxis(jnp.where(ended_before, PAD, drawn), 0, -1), unrolled


def _sampled_steps(
  captioner: Captioner,
  memory: Any,
  words: Array,
  use_sampled: Array,
  draws: Array,
  noise: Any,
  *,
  train: bool,
) -> tuple[Array, Unrolled]:
  """Feeds ``words`` (L, B, S), or the last sampled ones where ``use_sampled``, and samples.

  Returns:
    The sampled words (L, B, S) and the results of all steps.
  """

  def body(captioner, memory, state, step):
    carry, drawn = state
    word, use_sampled, draw, noise_t = step
    word = jnp.where(use_sampled, drawn, word)
    x = captioner.embed(word, noise_t)
    carry, hidden, extras = captioner.step(carry, x, memory, noise_t, train=train)
    logits = captioner.logits(jax.lax.stop_gradient(hidden))
    drawn = inverse_cdf(constrain(WORDS_ONLY, logits), draw)
    return (carry, drawn), (drawn, Unrolled(hidden, extras.aux, {}, extras.draw_log_prob))

  L, _, S = words.shape
  state = (captioner.start(memory, S, L), words[0])
  return scan.scan(captioner, body, memory, state, (words, use_sampled, draws, noise))[1]


def inverse_cdf(logits: Array, draw: Array) -> Array:
  """Samples words (…,) from logits (…, V), by uniform numbers (…,)."""
  return random_choice.inverse_cdf(jax.nn.softmax(at_least_float32(logits), axis=-1), draw)


# Logits of up to 1e8 divided by these are finite float32 numbers, and not all 0.
TEMPERATURES = (1e-30, 1e30)


@dataclasses.dataclass(frozen=True)
class Sampling:
  """How words are sampled: from logits / temperature, of the top_k words and of the smallest set of
  words whose probabilities reach top_p. Top_k 0 and top_p 1.0 include all words."""

  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0

  def __post_init__(self):
    least, most = TEMPERATURES
    for name, fits, range_text in (
      (
        'temperature',
        least <= self.temperature <= most,
        f"from {least:g} to {most:g} (method 'greedy' takes the likeliest word)",
      ),
      ('top_k', self.top_k >= 0, 'at least 0'),
      ('top_p', 0 < self.top_p <= 1, 'above 0 and at most 1'),
    ):
      if not fits:
        raise ConfigError(f'decode.{name}={getattr(self, name)}: must be {range_text}')


def filter_logits(logits: Array, sampling: Sampling | TracedSampling) -> Array:
  """Applies temperature, top-k and top-p to logits (…, V); excluded words get -inf."""
  if isinstance(sampling, TracedSampling):
    return traced_sampling.filter_logits(logits, sampling)
  logits = at_least_float32(logits) / sampling.temperature
  V = logits.shape[-1]
  if 0 < sampling.top_k < V:
    logits = _keep_only(logits, jax.lax.top_k(logits, sampling.top_k)[1])
  if sampling.top_p < 1:
    order = jnp.argsort(-logits, axis=-1)
    prob = jax.nn.softmax(jnp.take_along_axis(logits, order, axis=-1), axis=-1)
    # Words up to and including the first at which the cumulative probability reaches top_p.
    included = jnp.cumsum(prob, axis=-1) - prob < sampling.top_p
    logits = _keep_only(logits, jnp.where(included, order, V))
  return logits


def _keep_only(logits: Array, words: Array) -> Array:
  """Sets logits (…, V) to -inf for all but the given words (…, K); index V means no word."""
  included = jnp.zeros(logits.shape, jnp.bool_)
  included = jnp.put_along_axis(included, words, True, axis=-1, inplace=False, mode='drop')
  return jnp.where(included, logits, -jnp.inf)


def greedy(
  captioner: Captioner,
  memory: Any,
  L: int,
  *,
  constraints: Constraints = WORDS_ONLY,
  train: bool = False,
) -> Captions:
  """Takes the likeliest word at each step, without noise; one caption per video: (B, 1, L)."""
  choose = lambda logits, _: _likeliest(logits)  # noqa: E731
  return _generate(captioner, memory, 1, L, choose, None, None, constraints, train=train)


def _likeliest(logits: Array) -> Array:
  """``argmax`` of (…, V), as int32; seven times as fast on a CPU, where argmax takes no vectors."""
  V = logits.shape[-1]
  index = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
  is_largest = logits == logits.max(axis=-1, keepdims=True)  # nowhere if there is a NaN
  return jnp.minimum(jnp.where(is_largest, index, V).min(axis=-1), V - 1)


def _log_prob_of(logits: Array, words: Array) -> Array:
  """The log-probabilities (…,) of words (…,) by logits (…, V), without those of other words."""
  top = logits.max(axis=-1, keepdims=True)
  total = jnp.exp(logits - top).sum(axis=-1)
  picked = jnp.take_along_axis(logits, words[..., None], axis=-1)
  return (picked - top)[..., 0] - jnp.log(total)


def sample(
  captioner: Captioner,
  memory: Any,
  draws: Array,
  *,
  sampling: Sampling | TracedSampling = Sampling(),
  constraints: Constraints = WORDS_ONLY,
  noise: Any = None,
  train: bool = False,
) -> Captions:
  """Samples S captions per video, of at most L tokens.

  Args:
    draws: (L, B, S) uniform in [0, 1), one number per word; see ``uniform_draws``.
    noise: ``Noise.steps`` for sampling under dropout, or None.
  """
  choose = lambda logits, draw: inverse_cdf(filter_logits(logits, sampling), draw)  # noqa: E731
  L, _, S = draws.shape
  return _generate(captioner, memory, S, L, choose, draws, noise, constraints, train=train)


def uniform_draws(key: Array, rows: Array, S: int, L: int) -> Array:
  """Random numbers (L, B, S) for ``sample``, seeded by ``rows`` (B,), the videos' indices.

  So a video's samples don't depend on the other videos of its batch.
  """
  draw_row = lambda row: jax.random.uniform(jax.random.fold_in(key, row), (L, S))  # noqa: E731
  return jnp.moveaxis(jax.vmap(draw_row)(rows), 0, 1)


def _generate(
  captioner: Captioner,
  memory: Any,
  S: int,
  L: int,
  choose: Callable[[Array, Array | None], Array],
  draws: Array | None,
  noise: Any,
  constraints: Constraints,
  *,
  train: bool,
) -> Captions:
  """Generates word by word until every row has ended or has L tokens.

  ``choose(logits (B, S, V), draws_t (B, S))`` picks the words (B, S).
  """
  carry = captioner.start(memory, S, L)
  B = jax.tree.leaves(carry)[0].shape[0]
  draws = None if draws is None else jnp.moveaxis(draws, 1, 0)  # (B, L, S)

  def step(t, videos, state):
    memory, draws = videos
    carry, word, captions = state
    noise_t = jax.tree.map(lambda x: x[t], noise)
    x = captioner.embed(word, noise_t)
    carry, hidden, _ = captioner.step(carry, x, memory, noise_t, train=train)
    logits = at_least_float32(captioner.logits(hidden))  # (B, S, V)
    draws_t = None if draws is None else draws[:, t]
    word = choose(constrain(constraints, logits, captions.tokens, t), draws_t)
    word = jnp.where(captions.ended, PAD, word)
    gain = _log_prob_of(logits, word)
    log_prob = captions.log_prob + jnp.where(captions.ended, jnp.zeros_like(gain), gain)
    tokens = captions.tokens.at[..., t].set(word)
    ended = captions.ended | (word == EOS)
    return carry, word, Captions(tokens, log_prob, ended, log_prob)

  zeros = jnp.zeros((B, S), _score_dtype(captioner, carry, memory, train))
  empty = Captions(jnp.full((B, S, L), PAD, jnp.int32), zeros, jnp.zeros((B, S), bool), zeros)
  state = (carry, jnp.full((B, S), BOS, jnp.int32), empty)
  is_running = lambda t, state: (t < L) & ~state[2].ended.all(axis=-1)  # noqa: E731
  return compaction.run_until_ended(
    step, is_running, 0, (memory, draws), state, can_shrink=noise is None
  )[2]


def _score_dtype(captioner: Captioner, carry: Any, memory: Any, train: bool) -> jnp.dtype:
  """The dtype in which log-probabilities are summed: that of the logits, at least float32."""

  def logits(carry, memory):
    words = jnp.zeros(jax.tree.leaves(carry)[0].shape[:2], jnp.int32)
    x = captioner.embed(words, None)
    return at_least_float32(
      captioner.logits(captioner.step(carry, x, memory, None, train=train)[1])
    )

  return jax.eval_shape(logits, carry, memory).dtype
