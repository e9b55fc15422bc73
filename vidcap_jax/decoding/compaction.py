"""A loop over words that spends little on videos whose captions have ended.

The shapes of a compiled program are fixed, so a video that has ended would be computed until the
last of its batch has. Here the videos that are left are gathered into smaller arrays as soon as
they fit, within one program: it has a loop for each of a few sizes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from vidcap_jax.distributed.mesh import batch_platform, batch_shards

Array = jax.Array
FEWER_VIDEOS = 'fewer_videos'  # scope of the loops that a batch without early ends never enters
# Shares of a batch. Each is another loop to compile, which takes minutes for a TPU.
_SHARES = {'cpu': (1, 1 / 2, 1 / 4)}
_OTHER_SHARES = (1, 1 / 2)
_FEWEST = 8  # videos: products with fewer rows take almost as long


def sizes_of(videos: int) -> list[int]:
  """How many of ``videos`` (a batch, or a shard of one) are computed together: falling numbers."""
  smaller = {round(videos * share) for share in _SHARES.get(batch_platform(), _OTHER_SHARES)}
  return sorted({videos, *(n for n in smaller if n >= _FEWEST)}, reverse=True)


def run_until_ended(
  step: Callable[[Array, Any, Any], Any],
  is_running: Callable[[Array, Any], Array],
  t: int,
  memory: Any,
  state: Any,
  *,
  can_shrink: bool = True,
) -> Any:
  """Runs ``step`` word by word, on each video until it has ended.

  A batch that is sharded over devices shrinks on every device alike, to the smallest size that all
  of them can use, so that no video moves to another device.

  Args:
    step: (t, memory, state) -> the state after word t; videos are independent of each other.
    is_running: (t, state) -> (B,), whether each video has a word t.
    t: the first word.
    memory: leaves (B, …), which ``step`` reads.
    state: leaves (B, …).
    can_shrink: whether ``step`` works on fewer videos than B.

  Returns:
    The state; that of each video is the one at its end.
  """
  B = jax.tree.leaves(state)[0].shape[0]
  can_shrink &= isinstance(B, int)  # an exported program has a symbol
  shards = batch_shards() if can_shrink and B % batch_shards() == 0 else 1
  sizes = sizes_of(B // shards) if can_shrink else [B]

  def run(level, t, running, memory, state):
    most_left = sizes[level + 1] if level + 1 < len(sizes) else 0

    def is_full(loop):
      return loop[1].reshape(shards, -1).sum(axis=1).max() > most_left

    def body(loop):
      t, running, state = loop
      state = jax.tree.map(
        lambda new, old: jnp.where(_like(running, new), new, old), step(t, memory, state), state
      )
      return t + 1, running & is_running(t + 1, state), state

    t, running, state = jax.lax.while_loop(is_full, body, (t, running, state))
    if not most_left:
      return state
    # A shard's running videos, and as many of its ended ones as the size has room for.
    order = jnp.argsort(~running.reshape(shards, -1), axis=1, stable=True)[:, :most_left]
    with jax.named_scope(FEWER_VIDEOS):
      left = _gather((running, memory, state), order)
      return _scatter(state, run(level + 1, t, *left), order)

  t = jnp.int32(t)
  return run(0, t, is_running(t, state), memory, state)


def _like(running: Array, x: Array) -> Array:
  """(B,) with as many axes as x."""
  return running.reshape(-1, *(1,) * (x.ndim - 1))


def _gather(tree: Any, index: Array) -> Any:
  """Rows of each shard (shards, n) of leaves (B, …): leaves (shards n, …)."""

  def gather(x):
    split = x.reshape(len(index), -1, *x.shape[1:])
    return jax.vmap(lambda x, i: x[i])(split, index).reshape(-1, *x.shape[1:])

  return jax.tree.map(gather, tree)


def _scatter(tree: Any, rows: Any, index: Array) -> Any:
  """The inverse of ``_gather``: leaves (B, …) with those rows of each shard replaced."""

  def scatter(x, rows):
    split, rows = (a.reshape(len(index), -1, *a.shape[1:]) for a in (x, rows))
    return jax.vmap(lambda x, rows, i: x.at[i].set(rows))(split, rows, index).reshape(x.shape)

  return jax.tree.map(scatter, tree, rows)
