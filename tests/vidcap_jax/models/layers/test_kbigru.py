"""The two GRUs on either side of a key frame."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.layers.kbigru import KBiGRU, middle_frame

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H, A, D, B, T, N = 11, 8, 5, 6, 4, 5, 3


# ---------------------------------------------------------------- KBiGRU


@pytest.mark.parametrize(
  ('mask', 'frame'),
  [('1111111', 3), ('111111', 3), ('11', 1), ('1', 0), ('0000', 0), ('11100', 1), ('0110100', 2)],
)
def test_middle_frame(mask, frame):
  """floor(K / 2) of K frames, also where some are missing; 0 where all are."""
  found = middle_frame(jnp.array([[c == '1' for c in mask]]))
  assert (found.dtype, found.tolist()) == (jnp.int32, [frame])


@pytest.fixture(scope='module')
def kbigru():
  """A function (frames, mask, key frame) -> states, compiled per shape."""
  module = KBiGRU(H)
  encode = lambda m, x, mask, key: m(m.inputs(x), mask, key)  # noqa: E731
  args = jnp.zeros((1, 2, D)), jnp.ones((1, 2), bool), jnp.zeros(1, jnp.int32)
  params = module.init(jax.random.key(0), *args, method=encode)
  return jax.jit(lambda *args: module.apply(params, *args, method=encode))


def test_each_gru_reads_its_side_of_the_key_frame(kbigru):
  """The key frame is read by both; a frame counts from any key frame, the order of a side too."""
  rng = np.random.default_rng(1)
  x = rng.normal(size=(T, T, D)).astype(np.float32)
  x[:] = x[:1]
  keys = np.arange(T, dtype=np.int32)
  mask = np.ones((T, T), bool)
  h = np.asarray(kbigru(x, mask, keys))
  assert len(np.unique(h.round(4), axis=0)) == T
  # What lies on one side, alone, changes with the frames of that side only.
  for frame in range(T):
    moved = x.copy()
    moved[:, frame] += 1
    assert (np.abs(kbigru(moved, mask, keys) - h).max(axis=1) > 1e-4).all()
  swapped = x.copy()
  swapped[:, [0, 1]] = x[:, [1, 0]]
  assert (np.abs(kbigru(swapped, mask, keys) - h).max(axis=1) > 1e-4).all()
  # A video that runs backwards, from the mirrored key frame, is another one to the two GRUs.
  assert (np.abs(kbigru(x[:, ::-1], mask, keys[::-1].copy()) - h).max(axis=1) > 1e-4).all()


def test_frames_that_are_missing_are_passed_over(kbigru):
  rng = np.random.default_rng(2)
  x = rng.normal(size=(1, T, D)).astype(np.float32)
  mask = np.array([[True, False, True, True, False]])
  whole = kbigru(x, mask, np.array([2], np.int32))
  kept = kbigru(x[:, mask[0]], np.ones((1, 3), bool), np.array([1], np.int32))
  np.testing.assert_allclose(whole, kept, atol=1e-6)
