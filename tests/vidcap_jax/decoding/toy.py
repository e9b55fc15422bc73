"""A captioner of a few plain functions, small enough to enumerate all of its captions.

Logits are looked up by a hash of all words read, in a table of each video's own, which is also the
memory (B, SLOTS, V). A step's ``aux`` is the word it read.
"""

import collections
import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from vidcap_jax.data.vocabulary import BOS, EOS, PAD
from vidcap_jax.models.captioner import Captioner, Extras, Noise

V = 7  # PAD, BOS, EOS, UNK and three words
SLOTS = 4096


@struct.dataclass
class Carry:
  history: jax.Array  # (B, S) uint32, a hash of all words read
  position: jax.Array  # (B, S)


def tables(seed, B=3, *, scale=1.5, eos=0.0, vocab=V):
  """Random logits, the toy's memory; ``eos`` is added to those of the caption's end."""
  table = np.random.default_rng(seed).normal(scale=scale, size=(B, SLOTS, vocab))
  table[..., EOS] += eos
  return table.astype(np.float32)


def _start(memory, S, L):
  zeros = jnp.zeros((memory.shape[0], S), jnp.uint32)
  return Carry(zeros, zeros.astype(jnp.int32))


def _step(carry, x, memory, noise=None, *, train=False):
  history = carry.history * jnp.uint32(31) + x.astype(jnp.uint32) + jnp.uint32(1)
  slot = ((history * jnp.uint32(2654435761)) >> 20).astype(jnp.int32)  # 12 bits
  hidden = jnp.take_along_axis(memory, slot[..., None], axis=1)  # (B, S, V)
  return Carry(history, carry.position + 1), hidden, Extras({}, x)


captioner = Captioner(
  encode=lambda inputs, noise=None, *, train=False: inputs,
  start=_start,
  embed=lambda words, noise=None: words.astype(jnp.float32),
  step=_step,
  logits=lambda hidden: hidden,
  noise=lambda key, inputs, S, L: Noise(),
)


def counting(steps):
  """The toy that appends to a list at each step that it takes."""

  def step(*args, **kwargs):
    jax.debug.callback(lambda: steps.append(1))
    return _step(*args, **kwargs)

  return dataclasses.replace(captioner, step=step)


def log_probs(table, words):
  """Log-probabilities (V,) of the word after these, float64."""
  history = 0
  for word in (BOS, *words):
    history = (history * 31 + word + 1) % 2**32
  logits = table[(history * 2654435761) % 2**32 >> 20].astype(np.float64)
  return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def allowed(words, constraints, vocab=V):
  """The words that may follow: the rules once more, as plainly as possible."""
  n = constraints.no_repeat_ngram
  grams = {tuple(words[i : i + n]) for i in range(len(words) - n + 1)} if n else set()

  def fine(word):
    if word in constraints.forbidden:
      return False
    if word == EOS:
      return len(words) >= constraints.min_length
    return not n or len(words) < n - 1 or (*words[len(words) - n + 1 :], word) not in grams

  return [word for word in range(vocab) if fine(word)] or [EOS]


@dataclasses.dataclass(frozen=True)
class Hypothesis:
  words: tuple
  log_prob: float

  @property
  def ended(self):
    return self.words[-1:] == (EOS,)

  def score(self, length_penalty):
    return self.log_prob / len(self.words) ** length_penalty

  def tokens(self, L):
    return [*self.words, *[PAD] * (L - len(self.words))]


def _continuations(table, hypothesis, constraints):
  gains = log_probs(table, hypothesis.words)
  for word in allowed(hypothesis.words, constraints, len(gains)):
    yield Hypothesis((*hypothesis.words, word), hypothesis.log_prob + gains[word])


def exhaustive(table, L, length_penalty, constraints):
  """Every caption there is, best first."""
  live, done = [Hypothesis((), 0.0)], []
  for _ in range(L):
    new = [c for h in live for c in _continuations(table, h, constraints)]
    done += [h for h in new if h.ended]
    live = [h for h in new if not h.ended]
  return sorted(done + live, key=lambda h: -h.score(length_penalty))


def plain_beam(table, L, K, length_penalty, constraints):
  """Beam search with lists, and without stopping before L words."""
  live, done = [Hypothesis((), 0.0)], []
  for _ in range(L):
    new = itertools.chain(*(_continuations(table, h, constraints) for h in live))
    best = sorted(new, key=lambda h: -h.log_prob)[:K]
    done += [h for h in best if h.ended]
    live = [h for h in best if not h.ended]
  return sorted(done + live, key=lambda h: -h.score(length_penalty))[:K]


def plain_groups(table, L, K, G, diversity, length_penalty, constraints):
  """Diverse beam search with lists: each group's captions, best first."""
  live, done = [[Hypothesis((), 0.0)] for _ in range(G)], [[] for _ in range(G)]
  for _ in range(L):
    output = collections.Counter()  # at this step, by the groups before
    for g in range(G):
      new = itertools.chain(*(_continuations(table, h, constraints) for h in live[g]))
      penalised = [(h.log_prob - diversity * output[h.words[-1]], h) for h in new]
      best = [h for _, h in sorted(penalised, key=lambda pair: -pair[0])[: K // G]]
      done[g] += [h for h in best if h.ended]
      live[g] = [h for h in best if not h.ended]
      output.update(h.words[-1] for h in live[g])
  by_score = lambda h: -h.score(length_penalty)  # noqa: E731
  return [sorted(d + a, key=by_score)[: K // G] for d, a in zip(done, live)]


def plain_banks(table, L, K, words, length_penalty, constraints):
  """Constrained beam search with lists: a beam for each set of forced words that is met."""
  words = frozenset(words)
  live, done = [Hypothesis((), 0.0)], []
  for _ in range(L):
    banks = collections.defaultdict(list)
    for h in itertools.chain(*(_continuations(table, h, constraints) for h in live)):
      met = words & {*h.words}
      if met == words or not h.ended:
        banks[met].append(h)
    best = [h for bank in banks.values() for h in sorted(bank, key=lambda h: -h.log_prob)[:K]]
    done += [h for h in best if h.ended]
    live = [h for h in best if not h.ended]
  whole = [h for h in live if words <= {*h.words}]
  return sorted(done + whole, key=lambda h: -h.score(length_penalty))[:K]
