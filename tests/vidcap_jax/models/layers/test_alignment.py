import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.layers import alignment, tiled_convolution

pytestmark = pytest.mark.usefixtures('strict_dtypes')


@pytest.fixture(scope='module')
def maps():
  """Maps (B, T, R, R, D) that do not divide by 2 or 4, and which cells are valid."""
  rng = np.random.default_rng(0)
  mask = rng.random((2, 6, 7, 7)) < 0.5
  mask[0, 4:] = False
  return rng.normal(size=(2, 6, 7, 7, 3)).astype(np.float32), mask


def by_hand(x, mask, ratio, windows, reduce):
  """Window after window: (start, size) of position 0 for time, rows, columns."""
  outer = [-(-n // ratio) for n in x.shape[1:4]]
  out = np.zeros((x.shape[0], *outer, x.shape[-1]), np.float32)
  for at in itertools.product(*map(range, outer)):
    cut = tuple(
      slice(max(0, i * ratio + start), max(0, i * ratio + start + size))
      for i, (start, size) in zip(at, windows)
    )
    for b in range(len(x)):
      if mask[(b, *cut)].any():
        out[(b, *at)] = reduce(x[(b, *cut)][mask[(b, *cut)]], axis=0)
  return out


@pytest.mark.parametrize('ratio', [1, 2, 3, 4])
def test_pooling_is_over_the_valid_cells_of_each_window(maps, ratio):
  x, mask = maps
  for windows in (
    alignment.cells(ratio),
    alignment.receptive_field(ratio),
    alignment.centre(ratio),
  ):
    dirty = np.where(mask[..., None], x, np.nan)
    found = alignment.pool_max(jnp.asarray(dirty), jnp.asarray(mask), ratio, windows)
    np.testing.assert_array_equal(found, by_hand(x, mask, ratio, windows, np.max))
    found = alignment.pool_mean(jnp.asarray(dirty), jnp.asarray(mask), ratio, windows)
    np.testing.assert_allclose(found, by_hand(x, mask, ratio, windows, np.mean), atol=1e-6)


def test_windows_are_those_of_the_paper():
  """Table 5 counts from 1: position 1 of pool2 sees -6 to 15, of pool4 0 to 3."""
  for ratio, first, last in ((8, 8 - 14, 8 + 7), (4, 4 - 6, 4 + 3), (2, 2 - 2, 2 + 1)):
    assert alignment.receptive_field(ratio) == [(first - 1, last - first + 1)] * 3
  assert alignment.centre(8)[1] == (3, 2)  # rows 3 and 4 of 0 to 7
  assert alignment.centre(3)[1] == (1, 1)


def test_unfolding_keeps_every_cell():
  x = np.arange(1 * 3 * 3 * 3 * 2, dtype=np.float32).reshape(1, 3, 3, 3, 2)
  out = np.asarray(alignment.unfold(jnp.asarray(x), 2))
  assert out.shape == (1, 2, 2, 2, 16)
  np.testing.assert_array_equal(out[0, 0, 0, 0].reshape(2, 2, 2, 2), x[0, :2, :2, :2])
  last = out[0, 1, 1, 1].reshape(2, 2, 2, 2)
  np.testing.assert_array_equal(last[0, 0, 0], x[0, 2, 2, 2])
  assert last.sum() == x[0, 2, 2, 2].sum()  # zeros outside


def align(how, maps, masks, ratios, kernels=(3,), embed_last=False):
  names = tuple(f'layer{i}' for i in range(len(maps)))
  initializer = jax.nn.initializers.normal(1.0)
  module = alignment.Align(how, names, ratios, kernels, initializer, embed_last=embed_last)
  params = module.init(jax.random.key(0), maps, masks)
  return module.apply(params, maps, masks)


@pytest.mark.parametrize('how', alignment.ALIGNMENTS)
def test_units_of_time_that_are_cut_short(how):
  """9 frames at ratio 4 are 3 units, the last of one frame; so are they in a longer batch."""
  rng = np.random.default_rng(1)
  fine = rng.normal(size=(1, 9, 4, 4, 2)).astype(np.float32)
  coarse = rng.normal(size=(1, 3, 1, 1, 5)).astype(np.float32)
  masks = [np.ones(x.shape[:-1], bool) for x in (fine, coarse)]
  alone = align(how, [jnp.asarray(fine), jnp.asarray(coarse)], masks, (4, 1))
  more = lambda x, n: np.pad(x, [(0, 0), (0, n), *[(0, 0)] * (x.ndim - 2)])  # noqa: E731
  padded = align(
    how,
    [jnp.asarray(more(fine, 11)), jnp.asarray(more(coarse, 2))],
    [more(masks[0], 11), more(masks[1], 2)],
    (4, 1),
  )
  np.testing.assert_array_equal(alone[1], True)
  np.testing.assert_array_equal(padded[1][:, 3:], False)
  np.testing.assert_array_equal(padded[0][:, 3:], 0)
  for found, expected in zip(alone, padded):
    np.testing.assert_allclose(found, expected[:, :3], atol=1e-5)
  np.testing.assert_array_equal(alone[0][:, :, 1], coarse.reshape(1, 3, 5))
  assert (np.abs(alone[0][:, :, 0]).sum(axis=-1) > 0).all()


@pytest.mark.parametrize('how', ['mlp', 'hypercolumn'])
def test_the_last_layer_is_embedded_cell_by_cell(how):
  """Cells that are alike stay alike, and are not what they were; padding stays zero."""
  rng = np.random.default_rng(2)
  fine, coarse = (rng.normal(size=(1, n, n, n, 3)).astype(np.float32) for n in (4, 2))
  coarse[0, 1] = coarse[0, 0]
  masks = [np.ones(x.shape[:-1], bool) for x in (fine, coarse)]
  masks[1][0, :, 1, 1] = False
  values, present = align(how, [jnp.asarray(fine), jnp.asarray(coarse)], masks, (2, 1), (), True)
  last, raw = np.asarray(values)[0, :, 1].reshape(2, 4, 3), coarse.reshape(2, 4, 3)
  np.testing.assert_array_equal(last[1], last[0])
  np.testing.assert_array_equal(last[:, 3], 0)
  np.testing.assert_array_equal(present[0, :, 1].reshape(2, 4)[:, 3], False)
  assert (np.abs(last - raw)[:, :3].max(axis=-1) > 1e-3).all()


def test_both_convolutions_have_the_same_parameters_values_and_gradients(maps, monkeypatch):
  monkeypatch.setattr(tiled_convolution, '_WORTHWHILE', 0)
  fine, mask = maps
  fine = jnp.asarray(fine * mask[..., None])
  coarse = jnp.ones((2, 3, 4, 4, 5))
  masks = [jnp.asarray(mask), jnp.ones(coarse.shape[:-1], bool)]
  modules = [
    alignment.Align(
      'convolution',
      ('fine', 'coarse'),
      (2, 1),
      (3,),
      jax.nn.initializers.normal(1.0),
      convolution=c,
    )
    for c in alignment.CONVOLUTIONS
  ]
  params, same = (m.init(jax.random.key(0), [fine, coarse], masks) for m in modules)
  jax.tree.map(np.testing.assert_array_equal, params, same)

  def loss(module, params):
    values, present = module.apply(params, [fine, coarse], masks)
    return (values**2).sum(), (values, present)

  tiles, direct = (
    jax.jit(jax.value_and_grad(lambda p, m=m: loss(m, p), has_aux=True))(params) for m in modules
  )
  assert 'conv_general_dilated' not in str(jax.make_jaxpr(lambda p: loss(modules[0], p))(params))
  np.testing.assert_array_equal(tiles[0][1][1], direct[0][1][1])
  np.testing.assert_allclose(tiles[0][1][0], direct[0][1][0], atol=2e-5)
  close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())  # noqa: E731
  jax.tree.map(close, tiles[1], direct[1])


def test_grids_that_do_not_fit():
  with pytest.raises(ConfigError, match=r"'pool5' has 6 cells a frame"):
    alignment.to_maps('pool5', jnp.zeros((1, 2, 6, 3)), jnp.ones((1, 2, 6), bool))
  maps = [jnp.zeros((1, 2, 7, 7, 2)), jnp.zeros((1, 1, 3, 3, 2))]
  masks = [jnp.ones(x.shape[:-1], bool) for x in maps]
  with pytest.raises(ConfigError, match=r"'layer0' has 7 rows .* ratio 2 .* 3 of 'layer1'"):
    align('max', maps, masks, (2, 1))
