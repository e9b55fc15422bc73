"""Attention weights and additive attention, shared by all models."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.layers.dense import Dense, StepDense, add_bias, product

Array = jax.Array
Edit = Callable[[str, Array, Array], Array]


def wide(dtype: jnp.dtype) -> jnp.dtype:
  """The dtype of sums over words or frames: float32, or float64 for float64."""
  return dtype if jnp.finfo(dtype).bits > 32 else jnp.dtype(jnp.float32)


def at_least_float32(x: Array) -> Array:
  """Casts to float32 unless x is wider, for softmaxes and losses under any compute dtype."""
  return x.astype(wide(x.dtype))


def weigh(name: str, scores: Array, mask: Array, edit: Edit | None = None) -> Array:
  """Turns attention scores into weights; every attention of every model goes through here.

  Args:
    name: of the attention ('temporal', 'spatial', …), passed on to ``edit``.
    scores: (…, N).
    mask: bool, broadcastable to ``scores``; the weights of False slots are exactly 0.
    edit: ``edit(name, weights, mask) -> weights`` applied before use, or None.

  Returns:
    (…, N) weights in at least float32 that sum to 1, or are all 0 where nothing is valid.
  """
  mask = jnp.broadcast_to(mask, scores.shape)
  scores = jnp.where(mask, at_least_float32(scores), -jnp.inf)
  top = scores.max(axis=-1, keepdims=True)  # (…, 1), -inf where nothing is valid
  top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, jnp.zeros_like(top)))
  # The inner where keeps the exponential's gradient finite at masked slots.
  odds = jnp.where(mask, jnp.exp(jnp.where(mask, scores - top, jnp.zeros_like(top))), 0)
  total = odds.sum(axis=-1, keepdims=True)
  weights = odds / jnp.where(total > 0, total, jnp.ones_like(total))
  return weights if edit is None else edit(name, weights, mask)


def masked_mean(x: Array, mask: Array) -> Array:
  """Mean of x (B, N, D) over the valid entries of mask (B, N): (B, D), zeros if none is valid."""
  valid = jnp.where(mask[..., None], x, jnp.zeros_like(x))
  count = mask.sum(axis=-1, dtype=x.dtype)[..., None]  # (B, 1)
  return valid.sum(axis=-2) / jnp.maximum(count, jnp.ones_like(count))


class AdditiveAttention(nn.Module):
  """softmax_i(w^T tanh(W_v v_i + W_h h + b)), with b only if ``use_bias``.

  Attributes:
    name_of: the name of the weights (see ``weigh``).
    features: size A of the attention space.
    use_bias: whether there is a b (A,).
    edit: see ``weigh``.
    kernel_init: of all weights; None for the defaults.
  """

  name_of: str
  features: int
  use_bias: bool = False
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None
  kernel_init: nn.initializers.Initializer | None = None

  def setup(self):
    settings = {
      'kernel_init': self.kernel_init or nn.initializers.lecun_normal(),
      'dtype': self.dtype,
      'param_dtype': self.param_dtype,
    }
    self.key = StepDense(self.features, use_bias=self.use_bias, **settings)
    self.query = StepDense(self.features, use_bias=False, **settings)
    score_init = self.kernel_init or nn.initializers.normal(self.features**-0.5)
    self.score = self.param('score', score_init, (self.features,), self.param_dtype)

  def keys(self, values: Array) -> Array:
    """(…, D) -> (…, A); independent of the query, so computed once per video."""
    return self.key(values)

  def __call__(self, query: Array, keys: Array, values: Array, mask: Array) -> tuple[Array, Array]:
    """Attends from each row to its video's memory, or to a memory of its own.

    Args:
      query: (B, S, H).
      keys: (B, N, A) from ``keys``; (B, S, N, A) where each row has its own.
      values: (B, N, D), or (B, S, N, D) likewise.
      mask: (B, N), or (B, S, N) likewise.

    Returns:
      context (B, S, D) and weights (B, S, N).
    """
    attend = functools.partial(_attend, self.name_of, self.edit)
    # Recomputing the energies in the backward pass is 3 times faster than storing them: they are
    # (B, S, N, A) for every word.
    return jax.checkpoint(attend)(self.query(query), keys, values, mask, self.score)

  def weights(
    self, query: Array, keys: Array, mask: Array, temperature: Array | None = None
  ) -> Array:
    """Only the weights, for keys with more axes: each row's own keys, or many sets at once.

    Args:
      query: (B, S, H).
      keys: (B, S, …, N, A), with 1 in place of S where all rows share them.
      mask: (B, 1 or S, …, N).
      temperature: (B,), which the scores are divided by, or None.

    Returns:
      (B, S, …, N), normalised over N.
    """
    query = self.query(query)
    query = query.reshape(*query.shape[:2], *(1,) * (keys.ndim - 3), -1)
    scores = jax.checkpoint(_scores)(query, keys, self.score)
    if temperature is not None:
      scores = at_least_float32(scores)
      scores = scores / temperature.reshape(-1, *(1,) * (scores.ndim - 1))
    return weigh(self.name_of, scores, mask, self.edit)


def _scores(query: Array, keys: Array, score: Array) -> Array:
  """Projected queries and keys that broadcast to (…, N, A), and score (A,), to (…, N)."""
  return product(jnp.tanh(keys + query), score)


def _attend(name: str, edit: Edit | None, query: Array, keys: Array, values: Array, mask, score):
  """Projected query (B, S, A), keys (B, [S,] N, A), values (B, [S,] N, D) to context, weights."""
  if keys.ndim == 3:  # the video's memory, shared by its rows
    keys, mask = keys[:, None], mask[:, None]
  scores = _scores(query[:, :, None], keys, score)  # (B, S, N)
  weights = weigh(name, scores, mask, edit)  # (B, S, N)
  # Padding may hold NaN, and 0 * NaN is NaN: the values are masked too.
  mask = mask[:, 0] if values.ndim == 3 else mask
  valid = jnp.where(mask[..., None], values, jnp.zeros_like(values))
  return mix(weights, valid), weights


def mix(weights: Array, values: Array) -> Array:
  """Sums values (B, N, D), or (B, S, N, D) of each row, by weights (B, S, N): (B, S, D)."""
  memory = 'bnd' if values.ndim == 3 else 'bsnd'
  return jnp.einsum(f'bsn,{memory}->bsd', weights.astype(values.dtype), values)


class BilinearAttention(nn.Module):
  """softmax_i(w^T tanh((W_h h) * (W_v v_i) + b)), the product taken channel by channel.

  Attributes:
    name_of: the name of the weights (see ``weigh``).
    features: size A of the attention space.
    use_bias: whether there is a b (A,).
    edit: see ``weigh``.
  """

  name_of: str
  features: int
  use_bias: bool = True
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def setup(self):
    settings = {'use_bias': False, 'dtype': self.dtype, 'param_dtype': self.param_dtype}
    self.key = Dense(self.features, **settings)
    self.query = StepDense(self.features, **settings)
    if self.use_bias:
      self.bias = self.param('bias', nn.initializers.zeros, (self.features,), self.param_dtype)
    self.score = self.param(
      'score', nn.initializers.normal(self.features**-0.5), (self.features,), self.param_dtype
    )

  def keys(self, values: Array) -> Array:
    """(…, N, D) -> (…, N, A); linear, so keys may be mixed as their values are."""
    return self.key(values)

  def scores_at(self, query: Array) -> Callable[[Array], Array]:
    """Returns a function keys (…, N, A) -> scores (…, N) for queries (…, 1, H), before softmax."""
    query = self.query(query)
    if not self.use_bias:
      return lambda keys: product(jnp.tanh(query * keys), self.score)
    return lambda keys: product(jnp.tanh(add_bias(query * keys, self.bias)), self.score)

  def at(self, query: Array) -> Callable[[Array, Array], Array]:
    """Returns a function (keys (…, N, A), mask (…, N)) -> weights (…, N) for queries (…, 1, H)."""
    scores = self.scores_at(query)
    return lambda keys, mask: weigh(self.name_of, scores(keys), mask, self.edit)

  def __call__(self, query: Array, keys: Array, mask: Array) -> Array:
    """Weights as by ``at``; energies are recomputed in the backward pass instead of stored."""
    return jax.checkpoint(self.at(query))(keys, mask)
