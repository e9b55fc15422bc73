"""Random videos and captions for a case, a model with parameters, and comparisons of results."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tests.cases import V
from vidcap_jax import models
from vidcap_jax.data.vocabulary import EOS, PAD, UNK
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.models.captioner import Inputs, bind, init_params
from vidcap_jax.objectives.cross_entropy import caption_loss
from vidcap_jax.objectives.multi_sample import multi_sample_loss

B, S, L = 8, 2, 5
GARBAGE = [np.nan, np.inf, -1e30]


def clock(case, name):
  """Frames per unit of the clock, of a stream and of the fastest stream on its clock."""
  blocks = case.blocks
  return (blocks[name], max(blocks.values())) if name in blocks else (1, 1)


def make_inputs(case, seed=0, B=B):
  """Videos with all frames, some, one and none; half of them lack their vectors, a quarter their
  category."""
  rng = np.random.default_rng(seed)
  features, masks = {}, {}
  for name, shape in case.streams.items():
    features[name] = rng.normal(size=(B, *shape)).astype(np.float32)
    if len(shape) == 1:
      masks[name] = np.arange(B) % 2 == 0
      continue
    T, (block, most) = shape[0], clock(case, name)
    # Streams on one clock have the same duration.
    frames = np.resize([T, *(min(T, -(-n * block // most)) for n in (3, 1, 0))], B)
    masks[name] = np.arange(T)[None] < frames[:, None]
    if len(shape) == 3:
      masks[name] = masks[name][..., None] & (rng.random((B, *shape[:2])) < 0.7)
  category = np.arange(B, dtype=np.int32) % 4 - 1
  key_frame = np.resize(case.key_frames, B).astype(np.int32) if case.key_frames else None
  return Inputs(features, masks, category, key_frame)


def dirty(inputs, garbage):
  """The same videos with garbage wherever the masks are False."""
  features = {
    name: np.where(inputs.masks[name][..., None], x, np.float32(garbage))
    for name, x in inputs.features.items()
  }
  return inputs.replace(features=features)


def rows(inputs, keep):
  return jax.tree.map(lambda x: x[keep], inputs)


def make_targets(seed=0, B=B):
  """Captions of all lengths; one is empty, and one slot is unused."""
  rng = np.random.default_rng(seed)
  words = rng.integers(UNK, V, (B, S, L)).astype(np.int32)
  ends = np.resize([L - 1, 2, 0, 3, 1], (B, S))[..., None]
  at = np.arange(L)[None, None]
  words = np.where(at < ends, words, np.where(at == ends, EOS, PAD)).astype(np.int32)
  words[1, 1] = PAD
  return words


class Setup:
  """A case with parameters and its compiled functions."""

  def __init__(self, case, V=V):
    self.case, self.inputs, self.targets = case, make_inputs(case), make_targets()
    self.module = models.build(case.settings, V)
    shapes = jax.eval_shape(
      functools.partial(init_params, self.module), jax.random.key(0), rows(self.inputs, slice(1))
    )
    # Larger than initial parameters, so that captions differ, and without biases of zero.
    rng = np.random.default_rng(case.seed)
    scale = lambda x: 0.2 if x.ndim == 1 else 2 / x.shape[0] ** 0.5  # noqa: E731
    draw = lambda x: rng.normal(size=x.shape, scale=scale(x))  # noqa: E731
    self.params = jax.tree.map(lambda x: draw(x).astype(x.dtype), shapes)
    self.forward = jax.jit(functools.partial(self._forward, self.module))
    self.loss = jax.jit(jax.value_and_grad(self._loss, has_aux=True))

  @staticmethod
  def _forward(module, params, inputs, targets):
    """Logits (B, S, L, V) and attention (L, B, S, N) by teacher forcing without dropout."""
    captioner = bind(module, params)
    memory = captioner.encode(inputs, None, train=False)
    unrolled = teacher_forcing(captioner, memory, targets, attention=True)
    return jnp.moveaxis(captioner.logits(unrolled.hidden), 0, 2), unrolled.attention

  def _loss(self, params, inputs, targets, key):
    captioner = bind(self.module, params)
    if self.case.draws:
      _, surrogate = multi_sample_loss(captioner, inputs, targets, key, K=2)
      return surrogate, (targets != PAD).sum(dtype=surrogate.dtype)
    return caption_loss(captioner, inputs, targets, key, smoothing=0.1)

  def logits(self, inputs, targets=None):
    return np.asarray(self.forward(self.params, inputs, self._targets(targets))[0])

  def grads(self, inputs, targets=None):
    """(loss, number of words, gradients) with dropout."""
    (loss, words), grads = self.loss(self.params, inputs, self._targets(targets), jax.random.key(0))
    return float(loss), float(words), jax.device_get(grads)

  def _targets(self, targets):
    return self.targets if targets is None else targets


def close(a, b, tolerance=1e-5):
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), a, b)


def finite(tree):
  return all(np.isfinite(x).all() for x in jax.tree.leaves(tree))


def differences_without_masks(made: Setup, part: str) -> dict[str, float]:
  """How much hidden states differ if one of the dropout masks drops nothing, by its name.

  Args:
    part: of the noise, 'encoder' or 'steps'.
  """

  @jax.jit
  def run(noise):
    captioner = bind(made.module, made.params)
    memory = captioner.encode(made.inputs, noise.encoder, train=True)
    return teacher_forcing(captioner, memory, made.targets, noise.steps, train=True).hidden

  noise = bind(made.module, made.params).noise(jax.random.key(0), made.inputs, S, L)
  expected, masks = run(noise), getattr(noise, part)
  whole = {name: {**masks, name: jnp.ones_like(mask)} for name, mask in masks.items()}
  return {
    name: float(np.abs(run(noise.replace(**{part: changed})) - expected).max())
    for name, changed in whole.items()
  }
