"""Means over the valid entries of streams of any kind, joined."""

import jax.numpy as jnp
import numpy as np

from vidcap_jax.models.captioner import Inputs
from vidcap_jax.models.layers.pooling import joined_means


def test_entries_of_all_frames_count_alike_and_missing_streams_are_zeros():
  sequence = jnp.array([[[1.0], [3.0], [99.0]], [[5.0], [99.0], [99.0]]])  # (2, 3, 1)
  regions = jnp.array([[[[2.0, 4.0], [4.0, 8.0]], [[9.0, 3.0], [99.0, 99.0]]]] * 2)  # (2, 2, 2, 2)
  masks = {
    'image': jnp.array([[True, True, False], [True, False, False]]),
    'object': jnp.array([[[True, True], [True, False]], [[False, False], [False, False]]]),
  }
  inputs = Inputs({'image': sequence, 'object': regions}, masks, None, None)
  joined = joined_means(inputs, ['object', 'image'])
  np.testing.assert_allclose(joined, [[5.0, 5.0, 2.0], [0.0, 0.0, 5.0]])
