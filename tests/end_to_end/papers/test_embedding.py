"""Video-semantic embedding: cosines, both hinge losses and the choice among candidates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.embedding import own_similarity, similarity, unit
from vidcap_jax.objectives.embedding import hinge

pytestmark = pytest.mark.usefixtures('strict_dtypes')


def units(d, name, dtype):
  return unit(jnp.asarray(d[f'in/{name}'], dtype))


def test_similarity(oracle, precision, close):
  d = oracle('fusion_vse_extra')
  videos, captions = units(d, 'video', precision), units(d, 'text', precision)
  close(similarity(videos, captions[:, None])[..., 0], d['out/similarity'])


def test_candidates(oracle, precision, close):
  """The nearest candidate of each video; of equal ones the first."""
  d = oracle('fusion_vse_extra')
  scores = own_similarity(units(d, 'video', precision), units(d, 'candidates', precision))
  close(scores, d['out/candidate_scores'])
  np.testing.assert_array_equal(scores.argmax(axis=1), d['out/chosen'])


@pytest.mark.parametrize('margin', ['0.2', '0.1'])
@pytest.mark.parametrize('kind', ['max', 'sum'])
def test_hinge(oracle, precision, close, kind, margin):
  d = oracle('fusion_vse_extra')
  videos, captions = units(d, 'video', precision), units(d, 'text', precision)[:, None]
  used = jnp.ones(captions.shape[:2], bool)
  total, count = hinge(videos, captions, used, margin=float(margin), hardest=kind == 'max')
  close(total, d[f'out/margin_{margin}/{kind}_hinge'])
  assert count == len(videos)


def test_unused_slots_and_padding_rows_change_nothing(oracle, precision, close):
  """The oracle's batch again, with a second slot that is unused and two rows that are padding."""
  d = oracle('fusion_vse_extra')
  videos, captions = units(d, 'video', precision), units(d, 'text', precision)
  nearest = videos  # what is not to be seen would be the hardest of all
  captions = jnp.stack([captions, nearest], axis=1)
  used = jnp.zeros((7, 2), bool).at[:5, 0].set(True)
  videos = jnp.concatenate([videos, captions[:2, 0]])
  captions = jnp.concatenate([captions, captions[:2]])
  for kind in ('max', 'sum'):
    loss = jax.value_and_grad(
      lambda *x, kind=kind: hinge(*x, used, hardest=kind == 'max')[0], argnums=(0, 1)
    )
    total, grads = loss(videos, captions)
    close(total, d[f'out/margin_0.2/{kind}_hinge'])
    assert all(np.isfinite(g).all() for g in grads)
    assert not np.asarray(grads[0][5:]).any()
    assert not np.asarray(grads[1])[~np.asarray(used)].any()
