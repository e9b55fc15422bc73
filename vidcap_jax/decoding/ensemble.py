"""Joins several captioners to one, which averages their probabilities word by word."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner, Extras, Noise
from vidcap_jax.models.layers.attention import at_least_float32

Array = jax.Array


def check_weights(weights: Sequence[float], members: int) -> None:
  """Raises ConfigError unless there is a positive, finite weight for each member."""
  if len(weights) != members or not all(0 < weight < math.inf for weight in weights):
    raise ConfigError(
      f'an ensemble of {members} needs as many weights, all above 0; got {list(weights)}'
    )


def join(members: Sequence[Captioner], weights: Sequence[float] | None = None) -> Captioner:
  """Returns a captioner whose next-word distribution is the weighted mean of its members'.

  Every way to unroll a captioner works on it: greedy, sampling, beam search, teacher forcing. Its
  inputs, memory and carry are tuples with an entry for each member. Its ``hidden`` (B, S, V) is the
  logarithm of the mean, which ``logits`` returns unchanged.

  Args:
    members: captioners with the same vocabulary; models, streams and sizes may differ.
    weights: one for each member, of any sum; None for equal weights.

  Raises:
    ConfigError: there is not a positive weight for each member.
  """
  given = [1.0] * len(members) if weights is None else list(weights)
  check_weights(given, len(members))
  log_weights = [math.log(w / sum(given)) for w in given]

  def encode(inputs: Sequence[Any], noise: Noise | None, *, train: bool) -> tuple:
    return tuple(m.encode(x, None, train=train) for m, x in zip(members, inputs, strict=True))

  def start(memory: tuple, S: int, L: int) -> tuple:
    return tuple(m.start(x, S, L) for m, x in zip(members, memory))

  def embed(words: Array, noise: Any) -> tuple:
    return tuple(m.embed(words, None) for m in members)

  def step(carry: tuple, x: tuple, memory: tuple, noise: Any, *, train: bool):
    carries, logs, aux = [], [], None
    attention: dict[str, Array] = {}
    for i, member in enumerate(members):
      moved, hidden, extras = member.step(carry[i], x[i], memory[i], None, train=train)
      carries.append(moved)
      logs.append(jax.nn.log_softmax(at_least_float32(member.logits(hidden))) + log_weights[i])
      attention |= {f'{name} of {i}': weights for name, weights in extras.attention.items()}
      aux = extras.aux if aux is None else aux + extras.aux
    return tuple(carries), jax.nn.logsumexp(jnp.stack(logs), axis=0), Extras(attention, aux)

  def noise(*_) -> Noise:
    return Noise()  # an ensemble is not trained

  return Captioner(encode, start, embed, step, lambda hidden: hidden, noise)
