"""STaTS's two branches on one stream: spatio-temporal and temporo-spatial attention."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.layers import ranked
from vidcap_jax.models.layers.attention import AdditiveAttention, Edit, masked_mean, weigh, wide
from vidcap_jax.models.layers.dense import Dense, StepDense, product

Array = jax.Array
VARIANTS = ('stats', 'st', 'ts')
# Table 2's poolings of the ST branch by attention with the query: over all features of all frames,
# and over frames' means. All other poolings pool frames after spatial attention.
QUERIED = ('temporal', 'mean_temporal')
POOLINGS = (*ranked.POOLINGS, *QUERIED)


@struct.dataclass
class View:
  """A stream as the steps read it; fields that the steps don't use are None."""

  values: Array  # (B, T, N, P), zeros where the mask is False
  mask: Array  # (B, T, N)
  means: Array  # (B, T, P), of each frame's regions
  st_keys: Array | None = None  # (B, 1, N, A) grid, (B, 1, T, N, A) regions, (B, M, A) if queried
  # A sequence's pooling is the same for all words: (B, 1, P) and its rank loss (B, 1).
  st_pooled: tuple[Array, Array] | None = None
  ts_frame_keys: Array | None = None  # (B, 1, T, A)
  ts_keys: Array | None = None  # (B, T, N, A)

  @property
  def frames(self) -> Array:
    """(B, T), whether any region of a frame is valid."""
    return self.mask.any(axis=-1)


class Branches(nn.Module):
  """ST, TS or both on one stream, and their combination.

  Attributes:
    kind: how the stream is read: 'grid', 'regions' or 'sequence' (one region a frame).
    variant: one of ``VARIANTS``.
    pooling: one of ``POOLINGS``, of the ST branch.
    project: size P of the embedded features.
    attention: attention space A.
    rank_margin: beta of equation 7.
    hard_at_test: whether TS uses only the likeliest frame in validation and prediction.
    prefix: of the names of attention weights.
    edit: see ``attention.weigh``.
  """

  kind: str
  variant: str
  pooling: str
  project: int
  attention: int
  rank_margin: float = 1.0
  hard_at_test: bool = False
  prefix: str = ''
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None

  def setup(self):
    dtypes = {'dtype': self.dtype, 'param_dtype': self.param_dtype}
    attend = lambda name, **changes: AdditiveAttention(  # noqa: E731
      self.prefix + name, self.attention, use_bias=True, edit=self.edit, **{**dtypes, **changes}
    )
    self.features = Dense(self.project, **dtypes)
    has_space = self.kind != 'sequence'
    if self.variant != 'ts':
      if self.pooling in QUERIED:
        self.st_temporal = attend('st_temporal')
      else:
        self.pool = ranked.TemporalPool(self.pooling, self.rank_margin, **dtypes)
        if has_space:
          self.st_spatial = attend('st_spatial')
    if self.variant != 'st':
      # In at least float32: rounding errors of the scores are divided by a low temperature.
      self.ts_temporal = attend('ts_temporal', dtype=wide(self.dtype))
      if has_space:
        self.ts_spatial = attend('ts_spatial')
    if self.variant == 'stats':
      for name in ('st_branch', 'ts_branch', 'state_branch'):
        setattr(self, name, StepDense(self.attention, use_bias=False, **dtypes))
      init = nn.initializers.normal(self.attention**-0.5)
      self.st_score = self.param('st_score', init, (self.attention,), self.param_dtype)
      self.ts_score = self.param('ts_score', init, (self.attention,), self.param_dtype)

  def view(self, x: Array, mask: Array) -> View:
    """Embeds a stream, (B, T, N, D) or (B, T, D), and projects all keys, once per video."""
    if self.kind == 'sequence':  # one region a frame
      x, mask = x[:, :, None], mask[:, :, None]
    values = self.features(jnp.where(mask[..., None], x, jnp.zeros_like(x)))
    values = jnp.where(mask[..., None], values, jnp.zeros_like(values))
    view = View(values, mask, masked_mean(values, mask))
    if self.variant != 'ts':
      if self.pooling in QUERIED:
        view = dataclasses.replace(view, st_keys=self.st_temporal.keys(self._all_times(view)[0]))
      elif self.kind == 'sequence':
        view = dataclasses.replace(view, st_pooled=self.pool(values[:, None, :, 0], view.frames))
      elif self.kind == 'grid':
        cells = cell_means(values, mask)
        view = dataclasses.replace(view, st_keys=self.st_spatial.keys(cells)[:, None])
      else:
        view = dataclasses.replace(view, st_keys=self.st_spatial.keys(values)[:, None])
    if self.variant != 'st':
      view = dataclasses.replace(view, ts_frame_keys=self.ts_temporal.keys(view.means)[:, None])
      if self.kind != 'sequence':
        view = dataclasses.replace(view, ts_keys=self.ts_spatial.keys(values))
    return view

  def __call__(self, query: Array, view: View, temperature: Array, *, train: bool):
    """Attends with a query (B, S, H): x (B, S, P), the rank loss (B, S), attention by name."""
    loss = jnp.zeros(query.shape[:2], wide(self.dtype))
    attention: dict[str, Array] = {}
    if self.variant != 'ts':
      st, loss, attention = self.spatio_temporal(query, view)
    if self.variant != 'st':
      ts, weights = self.temporo_spatial(query, view, temperature, train=train)
      attention |= weights
    if self.variant != 'stats':
      return (st if self.variant == 'st' else ts), loss, attention
    x, weights = self.combine(query, st, ts)
    return x, loss, attention | weights

  # ---------------------------------------------------------------- ST, section 3.1

  def spatio_temporal(self, query: Array, view: View):
    """x_ST (B, S, P), its rank loss (B, S) and attention by name."""
    if view.st_pooled is not None:
      x, loss = view.st_pooled
      rows = query.shape[:2]
      return jnp.broadcast_to(x, (*rows, x.shape[-1])), jnp.broadcast_to(loss, rows), {}
    if self.pooling in QUERIED:
      x, weights = self.st_temporal(query, view.st_keys, *self._all_times(view))
      return x, jnp.zeros(query.shape[:2], wide(x.dtype)), {self.prefix + 'st_temporal': weights}
    frames, weights = self.attended_frames(query, view)
    x, loss = self.pool(frames, view.frames)
    return x, loss, {self.prefix + 'st_spatial': weights}

  def attended_frames(self, query: Array, view: View) -> tuple[Array, Array]:
    """Equation 3: frames (B, S, T, P), and weights (B, S, N) for a grid, else (B, S, T, N)."""
    grid = self.kind == 'grid'
    mask = view.mask.any(axis=1) if grid else view.mask
    weights = self.st_spatial.weights(query, view.st_keys, mask[:, None])
    subscripts = 'bsn,btnp->bstp' if grid else 'bstn,btnp->bstp'
    return jnp.einsum(subscripts, weights.astype(view.values.dtype), view.values), weights

  def _all_times(self, view: View) -> tuple[Array, Array]:
    """The memory of the poolings with a query: (B, M, P), and its mask (B, M)."""
    if self.pooling == 'mean_temporal':
      return view.means, view.frames
    B, T, N, P = view.values.shape
    return view.values.reshape(B, T * N, P), view.mask.reshape(B, T * N)

  # ---------------------------------------------------------------- TS, section 3.2

  def temporo_spatial(self, query: Array, view: View, temperature: Array, *, train: bool):
    """Equations 9-11: x_TS (B, S, P) and attention by name."""
    chosen = self.choose_frame(query, view, temperature, train=train)
    attention = {self.prefix + 'ts_temporal': chosen}
    frame_weights = chosen.astype(view.values.dtype)
    if self.kind == 'sequence':
      return jnp.einsum('bst,btnp->bsp', frame_weights, view.values), attention
    # The projection of mixed frames is the mixture of their projections, as weights sum to 1.
    keys = mix_frames(frame_weights, view.ts_keys)
    mask = jnp.einsum('bst,btn->bsn', frame_weights, view.mask.astype(frame_weights.dtype)) > 0
    weights = self.ts_spatial.weights(query, keys, mask)

    @jax.checkpoint  # otherwise the mixed frame (B, S, N, P) would be stored for every word
    def read(frame_weights, weights, values):
      return jnp.einsum('bsn,bsnp->bsp', weights, mix_frames(frame_weights, values))

    x = read(frame_weights, weights.astype(frame_weights.dtype), view.values)
    return x, attention | {self.prefix + 'ts_spatial': weights}

  def choose_frame(self, query: Array, view: View, temperature: Array, *, train: bool) -> Array:
    """Equation 9: weights (B, S, T) over frames, of a hard choice with a soft one's gradient where
    regions have no order across frames or, if so configured, when not training."""
    soft = self.ts_temporal.weights(query, view.ts_frame_keys, view.frames[:, None], temperature)
    if not chooses_hard(self.kind, self.hard_at_test, train=train):
      return soft
    T = soft.shape[-1]
    hard = jax.nn.one_hot(soft.argmax(axis=-1), T, dtype=soft.dtype)
    hard = jnp.where(soft.sum(axis=-1, keepdims=True) > 0, hard, jnp.zeros_like(hard))
    return hard + (soft - jax.lax.stop_gradient(soft))

  # ---------------------------------------------------------------- STaTS, section 3.3

  def combine(self, query: Array, st: Array, ts: Array) -> tuple[Array, dict[str, Array]]:
    """Equation 12: x (B, S, P) and the weights of the two branches (B, S, 2) by name."""
    state = self.state_branch(query)
    scores = [
      product(jnp.tanh(branch(x) + state), score)
      for branch, x, score in (
        (self.st_branch, st, self.st_score),
        (self.ts_branch, ts, self.ts_score),
      )
    ]
    both_valid = jnp.ones((1, 1, 2), bool)
    name = self.prefix + 'branch'
    weights = weigh(name, jnp.stack(scores, axis=-1), both_valid, self.edit)
    branch_weights = weights.astype(st.dtype)
    return jnp.tanh(branch_weights[..., :1] * st + branch_weights[..., 1:] * ts), {name: weights}


def branch_attentions(
  stream: str, kind: str, variant: str, pooling: str, prefix: str = ''
) -> dict[str, AttentionAxes]:
  """The axes of the weights that ``Branches`` of these settings returns for a stream."""
  has_space = kind != 'sequence'
  found = {}
  if variant != 'ts' and pooling in QUERIED:
    axes = ('frames', 'places') if pooling == 'temporal' else ('frames',)
    found['st_temporal'] = AttentionAxes(axes, stream)
  elif variant != 'ts' and has_space:
    axes = ('places',) if kind == 'grid' else ('frames', 'places')
    found['st_spatial'] = AttentionAxes(axes, stream)
  if variant != 'st':
    found['ts_temporal'] = AttentionAxes(('frames',), stream)
    if has_space:
      found['ts_spatial'] = AttentionAxes(('places',), stream, frames=prefix + 'ts_temporal')
  if variant == 'stats':
    found['branch'] = AttentionAxes(('branches',), names=('ST', 'TS'))
  return {prefix + name: axes for name, axes in found.items()}


def chooses_hard(kind: str, hard_at_test: bool, *, train: bool) -> bool:
  """Whether TS uses the likeliest frame alone; see ``Branches`` for the arguments."""
  return kind == 'regions' or (hard_at_test and not train)


def cell_means(values: Array, mask: Array) -> Array:
  """x_tilde: each cell of (B, T, N, P) averaged over its valid frames, (B, N, P)."""
  return masked_mean(values.swapaxes(1, 2), mask.swapaxes(1, 2))


def mix_frames(chosen: Array, values: Array) -> Array:
  """x_tau: frames (B, T, N, P) mixed cell by cell by weights (B, S, T), to (B, S, N, P)."""
  return jnp.einsum('bst,btnp->bsnp', chosen, values)
