"""Log-probabilities of given words, if need be without the logits of all words at once.

The logits of a batch are its largest array: rows x words of the vocabulary. With a limit, words are
taken in blocks of caption positions. The logits of a block are dropped after use and computed again
for its gradient: a third more of the vocabulary's products, for memory that does not grow with L.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.models.captioner import Captioner
from vidcap_jax.models.layers.attention import at_least_float32

Array = jax.Array
Change = Callable[[Array], Array]
_MIB = 2**20
_AUTOMATIC_MIB = 512  # of a TPU's or GPU's logits: under it, products are not worth repeating


def token_log_probs(logits: Array, targets: Array) -> Array:
  """Log-probability of each target word: logits (…, V) and targets (…,) to (…,)."""
  logits = at_least_float32(logits)
  # A masked sum instead of a gather: its gradient is a select, where a gather's is a scatter.
  is_target = (
    jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) == targets[..., None]
  )
  picked = jnp.where(is_target, logits, jnp.zeros_like(logits)).sum(axis=-1)
  return picked - jax.nn.logsumexp(logits, axis=-1)


def smoothed_log_probs(logits: Array, targets: Array, smoothing: float = 0.0) -> Array:
  """``token_log_probs``, of which a share is the mean over the vocabulary (label smoothing)."""
  log_prob = token_log_probs(logits, targets)
  if not smoothing:
    return log_prob
  logits = at_least_float32(logits)
  uniform = logits.mean(axis=-1) - jax.nn.logsumexp(logits, axis=-1)
  return (1 - smoothing) * log_prob + smoothing * uniform


def log_probs_of(
  captioner: Captioner,
  hidden: Array,
  targets: Array,
  *,
  smoothing: float = 0.0,
  change: Change = lambda logits: logits,
  limit: int = 0,
) -> Array:
  """``smoothed_log_probs`` of captions by the hidden states of all their words.

  Args:
    hidden: (L, B, S, H), of an unrolled captioner.
    targets: (B, S, L).
    smoothing: share of the target distribution spread evenly over the vocabulary.
    change: what the logits pass through before, such as constraints.
    limit: most bytes of float32 logits at once, over all devices; 0: no limit.

  Returns:
    (B, S, L) in at least float32.
  """

  def score(hidden, targets):
    return smoothed_log_probs(change(captioner.logits(hidden)), targets, smoothing)

  L, B, S, H = hidden.shape
  n = _block(captioner, hidden, limit)
  if n >= L:
    # One flat matrix: XLA's CPU code for the loss and its gradient is a quarter faster than over
    # (L, B, S, V).
    rows = jnp.moveaxis(hidden, 0, 2).reshape(-1, H)
    return score(rows, targets.reshape(-1)).reshape(targets.shape)
  words = jnp.moveaxis(targets, -1, 0)  # (L, B, S)
  # The axes are not merged, as videos may be sharded over devices.
  score = jax.checkpoint(score)
  parts = [score(hidden[i : i + n], words[i : i + n]) for i in range(0, L, n)]
  return jnp.moveaxis(jnp.concatenate(parts), 0, -1)


def _block(captioner: Captioner, hidden: Array, limit: int) -> int:
  """How many of the L positions are taken at once."""
  L = len(hidden)
  if not limit:
    return L
  logits = jax.eval_shape(captioner.logits, hidden[0])
  positions = max(1, limit // (4 * logits.size))
  blocks = -(-L // positions)
  return -(-L // blocks)  # blocks of nearly equal size


def bytes_limit(config: ConfigDict) -> int:
  """The ``limit`` of ``log_probs_of``, as ``with_limit`` has set it; 0 where it has not."""
  return max(0, config.get('mesh', {}).get('logits_mib', 0)) * _MIB


def with_limit(config: ConfigDict, mesh: Mesh) -> ConfigDict:
  """The config with ``mesh.logits_mib`` for all devices that a batch is split over.

  It is given for each device; -1 is no limit on CPUs and 512 MiB on others.
  """
  mib = config.mesh.get('logits_mib', -1)
  if mib < 0:
    mib = 0 if mesh.devices.flat[0].platform == 'cpu' else _AUTOMATIC_MIB
  config = config.copy_and_resolve_references()
  with config.unlocked():
    config.mesh.logits_mib = mib * mesh.shape['data']
  return config
