import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.layers.draws import choose, inverse_cdf

pytestmark = pytest.mark.usefixtures('strict_dtypes')


def test_shares_of_the_unit_interval():
  prob = jnp.broadcast_to(jnp.array([0.0, 0.5, 0.0, 0.3, 0.2]), (1000, 5))
  chosen = np.asarray(inverse_cdf(prob, (jnp.arange(1000.0) + 0.5) / 1000))
  assert np.bincount(chosen).tolist() == [0, 500, 0, 300, 200]
  ends = inverse_cdf(prob[:2], jnp.array([0.0, 1.0]))  # 1 never comes of a uniform number
  assert all(prob[0, i] > 0 for i in np.asarray(ends))


@pytest.mark.parametrize('N', [127, 128, 129, 1000, 10_003])
def test_long_rows_are_chosen_from_as_short_ones(N):
  """Against sums in float64: the index may be a neighbour only where a number all but meets one."""
  rng = np.random.default_rng(N)
  prob = rng.dirichlet(np.full(N, 0.1), 500) * (rng.uniform(size=(500, N)) < 0.7)
  prob[:50, -N // 2 :] = 0
  prob[50:100, : N // 2] = 0
  prob = prob.astype(np.float32)
  draws = rng.uniform(size=500).astype(np.float32)
  draws[:3] = 0, 1e-30, 1 - 2**-24
  chosen = np.asarray(inverse_cdf(jnp.asarray(prob), jnp.asarray(draws)))
  rows = np.arange(500)
  assert (prob[rows, chosen] > 0).all()
  cdf = np.cumsum(prob.astype(np.float64), axis=-1)
  at = draws * cdf[:, -1]
  assert (cdf[rows, chosen] >= at - 1e-6).all()
  assert (cdf[rows, chosen] - prob[rows, chosen] <= at + 1e-6).all()
  right = (cdf > at[:, None]).argmax(axis=-1)
  assert np.mean(chosen == right) > 0.99


def test_nothing_to_choose_from():
  assert inverse_cdf(jnp.zeros((2, 500)), jnp.array([0.0, 0.7])).tolist() == [0, 0]


def test_choice_and_its_probability():
  weights = jnp.array([[0.25, 0.75, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 0.0]])
  chosen, log_prob = choose(weights, jnp.array([0.1, 0.9, 0.5]))
  np.testing.assert_array_equal(chosen, [[1, 0, 0], [0, 1, 0], [0, 0, 0]])
  np.testing.assert_allclose(log_prob, [np.log(0.25), np.log(0.75), 0], rtol=1e-6)


def test_without_a_number_the_likeliest_and_of_ties_the_first():
  weights = jnp.array([[0.2, 0.4, 0.4], [0.0, 0.0, 0.0]])
  np.testing.assert_array_equal(choose(weights, None)[0], [[0, 1, 0], [0, 0, 0]])
