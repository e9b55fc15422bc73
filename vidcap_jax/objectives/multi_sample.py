"""The multi-sample bound for captioners that draw at random (dualAFR, equations 12-16).

Of K independent runs over a caption Y, each with draws m_k of its own, the bound is log of the mean
of p(Y | m_k). Its gradient has a part through the words and one through the draws, where each
run's signal is measured against what the others say of it (leave-one-out baselines). Everything
stays in logarithms: p itself is near e^-900 for a caption of twenty words early in training.
"""

import jax
import jax.numpy as jnp

Array = jax.Array


def bound(log_p: Array) -> Array:
  """Equation 12's L: log 1/K sum_k p_k of log p (…, K): (…,). Its gradient is omega_k."""
  return jax.nn.logsumexp(log_p, axis=-1) - _log_count(log_p)


def log_geometric_means(log_p: Array) -> Array:
  """Equation 16: log f, for each k the mean of the others' log p: (…, K)."""
  K = log_p.shape[-1]
  others = ~jnp.eye(K, dtype=bool).reshape((1,) * (log_p.ndim - 1) + (K, K))
  kept = jnp.where(others, log_p[..., None, :], jnp.zeros_like(log_p[..., None, :]))
  return kept.sum(axis=-1) / (K - 1)


def signals(log_p: Array) -> Array:
  """Equation 15: L-hat of each k, the bound less the bound with p_k replaced by f: (…, K)."""
  # Differences from the largest are small numbers, so that float32 keeps them.
  log_p = log_p - log_p.max(axis=-1, keepdims=True)
  K = log_p.shape[-1]
  own = jnp.eye(K, dtype=bool).reshape((1,) * (log_p.ndim - 1) + (K, K))
  replaced = jnp.where(own, log_geometric_means(log_p)[..., None], log_p[..., None, :])
  return bound(log_p)[..., None] - bound(replaced)


def score_term(log_p: Array, log_p_draws: Array) -> Array:
  """sum_k L-hat_k log p(m_k): (…,). Its gradient is equation 14's part through the draws.

  Args:
    log_p: (…, K) log p(Y | m_k); gets no gradient from here.
    log_p_draws: (…, K) log p(m_k).
  """
  return (jax.lax.stop_gradient(signals(log_p)) * log_p_draws).sum(axis=-1)


def _log_count(x: Array) -> Array:
  return jnp.log(jnp.asarray(x.shape[-1], x.dtype))
