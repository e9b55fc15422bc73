"""Hinge losses against a loop over all pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from vidcap_jax import models
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.embedding import unit
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.embedding import hinge

B, S, H = 6, 3, 4


@pytest.fixture(scope='module')
def batch():
  """Videos, captions and which are used; row 4 is padding, some slots of others are."""
  rng = np.random.default_rng(0)
  used = rng.random((B, S)) < 0.8
  used[:, 0], used[4] = True, False
  make = lambda *shape: np.asarray(unit(rng.normal(size=shape).astype(np.float32)))  # noqa: E731
  return make(B, H), make(B, S, H), used


def by_hand(videos, captions, used, margin, hardest):
  total = 0.0
  for b, s in zip(*np.nonzero(used)):
    own = videos[b] @ captions[b, s]
    of_videos = [margin + videos[i] @ captions[b, s] - own for i in range(B) if i != b and i != 4]
    of_captions = [
      margin + videos[b] @ captions[i, r] - own for i, r in zip(*np.nonzero(used)) if i != b
    ]
    for costs in (np.maximum(0, of_videos), np.maximum(0, of_captions)):
      total += costs.max() if hardest else costs.sum()
  return total


@pytest.mark.parametrize('hardest', [True, False])
@pytest.mark.parametrize('margin', [0.05, 0.2])
def test_against_a_loop(batch, margin, hardest, strict_dtypes):
  loss = jax.jit(lambda *args: hinge(*args, margin=margin, hardest=hardest))
  total, count = loss(*batch)
  np.testing.assert_allclose(total, by_hand(*batch, margin, hardest), rtol=1e-5)
  assert float(count) == batch[2].sum()


def test_other_captions_of_a_video_are_no_negatives(strict_dtypes):
  """Two videos at right angles, their captions on them: all as far apart as the margin asks."""
  videos = jnp.eye(2)
  captions = jnp.repeat(videos[:, None], 3, axis=1)
  for hardest in (True, False):
    total, _ = hinge(videos, captions, jnp.ones((2, 3), bool), margin=0.5, hardest=hardest)
    assert total == 0
    total, _ = hinge(videos, captions, jnp.ones((2, 3), bool), margin=1.5, hardest=hardest)
    assert total == pytest.approx(0.5 * 6 * (2 if hardest else 1 + 3))


def test_nothing_to_compare_with(strict_dtypes):
  """One video alone, or none at all: no loss and no gradient, rather than NaN."""
  loss = jax.value_and_grad(lambda v, c, used, hardest: hinge(v, c, used, hardest=hardest)[0])
  for hardest in (True, False):
    for used in ([[True, True], [False, False]], [[False, False]] * 2):
      value, grads = loss(jnp.eye(2), jnp.ones((2, 2, 2)), jnp.array(used), hardest)
      assert value == 0
      assert not np.asarray(grads).any()


def test_settings_and_models_that_do_not_fit():
  embedding = models.build({'name': 'embedding'}, 5)
  captioner = models.build({'name': 'temporal_spatial'}, 5)

  def make(module, **objective):
    config = ConfigDict({'objective': objective, 'model': {'name': module.__class__.__name__}})
    return make_objective(config, module, None)

  make(embedding, name='embedding', hardest=False)
  with pytest.raises(ConfigError, match="objective.margn: objective 'embedding'.*objective.margin"):
    make(embedding, name='embedding', margn=0.1)
  with pytest.raises(ConfigError, match="'embedding' does not fit model 'TemporalSpatial'"):
    make(captioner, name='embedding')
  with pytest.raises(ConfigError, match="'cross_entropy' does not fit model 'Embedding'"):
    make(embedding, name='cross_entropy')
