"""Log-probabilities in blocks of words are those of all words at once, and so are gradients."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from configs import common
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding.constraints import WORDS_ONLY, constrain
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.models.captioner import Captioner
from vidcap_jax.objectives.cross_entropy import summed
from vidcap_jax.objectives.word_log_probs import bytes_limit, log_probs_of, with_limit
from vidcap_jax.training.cost import inner_programs

pytestmark = pytest.mark.usefixtures('strict_dtypes')

L, B, S, H, V = 7, 8, 2, 6, 64
POSITION = 4 * B * S * V  # bytes of the logits of one position
NO_LIMIT = 0


@pytest.fixture(scope='module')
def arrays():
  rng = np.random.default_rng(0)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
  targets = rng.integers(4, V, (B, S, L)).astype(np.int32)
  targets[0, 0, 2:] = PAD
  return {'kernel': draw(H, V), 'bias': draw(V)}, draw(L, B, S, H), targets


def captioner_of(params):
  """A captioner of which only the logits are used."""
  methods = dict.fromkeys(('encode', 'start', 'embed', 'step', 'noise'))

  def logits(hidden):
    bias = params['bias'].reshape((1,) * (hidden.ndim - 1) + (V,))
    return jnp.einsum('...h,hv->...v', hidden, params['kernel']) + bias

  return Captioner(**methods, logits=logits)


def loss_of(params, hidden, targets, limit, smoothing=0.0, rules=None):
  change = functools.partial(constrain, rules) if rules else lambda logits: logits
  log_prob = log_probs_of(
    captioner_of(params), hidden, targets, smoothing=smoothing, change=change, limit=limit
  )
  # Weights of each caption, as in reinforcement.
  total, count = summed(log_prob * jnp.arange(1, B * S + 1.0).reshape(B, S, 1), targets)
  return total / count, log_prob


def value_and_gradients(*arguments, **settings):
  function = functools.partial(loss_of, **settings)
  return jax.jit(jax.value_and_grad(function, argnums=(0, 1), has_aux=True))(*arguments)


@pytest.mark.parametrize('settings', [{}, {'smoothing': 0.2}, {'rules': WORDS_ONLY}])
@pytest.mark.parametrize('limit', [1, POSITION, 3 * POSITION, 6 * POSITION])
def test_blocks_change_nothing(arrays, limit, settings):
  expected = value_and_gradients(*arrays, limit=NO_LIMIT, **settings)
  found = value_and_gradients(*arrays, limit=limit, **settings)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected)


def largest(limit, arrays):
  """The most elements of any array in the program of the loss and its gradients."""
  function = functools.partial(loss_of, limit=limit)
  program = jax.make_jaxpr(jax.grad(function, argnums=(0, 1), has_aux=True))(*arrays)
  sizes = []

  def visit(jaxpr):
    for equation in jaxpr.eqns:
      sizes.extend(variable.aval.size for variable in equation.outvars)
      for inner in inner_programs(equation.params):
        visit(inner)

  visit(program.jaxpr)
  return max(sizes)


@pytest.mark.parametrize(('limit', 'positions'), [(0, 7), (1, 1), (3 * POSITION, 3), (99**3, 7)])
def test_no_array_is_larger_than_the_logits_of_a_block(arrays, limit, positions):
  assert largest(limit, arrays) == positions * B * S * V


@pytest.mark.parametrize(('data', 'model'), [(8, 1), (2, 4)])
def test_on_a_mesh_with_a_sharded_vocabulary(arrays, data, model):
  mesh = make_mesh(data, model)
  put = lambda x, *axes: jax.device_put(x, NamedSharding(mesh, PartitionSpec(*axes)))  # noqa: E731
  params, hidden, targets = arrays
  placed = (
    {'kernel': put(params['kernel'], None, 'model'), 'bias': put(params['bias'], 'model')},
    put(hidden, None, 'data'),
    put(targets, 'data'),
  )
  expected = value_and_gradients(*arrays, limit=NO_LIMIT, smoothing=0.1)
  found = value_and_gradients(*placed, limit=2 * POSITION, smoothing=0.1)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected)


@dataclasses.dataclass(frozen=True)
class Device:
  """A device of another platform, in place of one that is not there."""

  id: int
  platform: str
  process_index: int = 0


@pytest.mark.parametrize(
  ('mib', 'platform', 'expected'),
  [(-1, 'cpu', 0), (-1, 'tpu', 4 * 512), (-1, 'gpu', 4 * 512), (0, 'tpu', 0), (10, 'cpu', 40)],
)
def test_the_limit_is_of_each_device(mib, platform, expected):
  config = common.base()
  config.mesh.logits_mib = mib
  mesh = make_mesh(model=2, devices=[Device(i, platform) for i in range(8)])
  assert bytes_limit(with_limit(config, mesh)) == expected * 2**20
  assert config.mesh.logits_mib == mib


def test_a_config_from_before_this_key():
  config = common.base()
  with config.unlocked():
    del config.mesh.logits_mib
  assert bytes_limit(config) == 0
  assert bytes_limit(with_limit(config, make_mesh())) == 0
