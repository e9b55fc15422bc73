"""Where in its epochs and in its annealing a step of a stage is."""

import jax
import jax.numpy as jnp
import pytest

from configs import common
from vidcap_jax.training.step import epoch_at, progress_at


@pytest.mark.parametrize(
  ('first', 'annealed', 'epochs', 'progress'),
  [
    (0.0, (0.0, 1.0), (0, 1.5, 3), (0, 0.5, 1)),
    (10.0, (0.0, 1.0), (10, 11.5, 13), (0, 0.5, 1)),
    (3.0, (0.5, 1.0), (3, 4.5, 6), (0.5, 0.75, 1)),
    (2.0, (1.0, 1.0), (2, 3.5, 5), (1, 1, 1)),
  ],
)
def test_a_stage_goes_on_where_another_ended(first, annealed, epochs, progress):
  c = common.base()
  c.train.first_epoch, c.train.annealed = first, annealed
  at = jax.jit(lambda step: (epoch_at(c, step, 4), progress_at(c, step, 12)))
  for step, expected in zip((0, 6, 12), zip(epochs, progress)):
    assert at(step) == expected


def test_a_config_from_before_these_keys_starts_anew():
  c = common.base()
  with c.unlocked():
    del c.train.first_epoch, c.train.annealed
  step = jnp.int32(6)
  assert (epoch_at(c, step, 4), progress_at(c, step, 12)) == (1.5, 0.5)
