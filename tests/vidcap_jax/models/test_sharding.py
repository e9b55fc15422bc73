"""Neither the mesh nor how parameters are sharded changes what is trained."""

import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, PartitionSpec

from configs import common
from tests.cases import CASES, Case
from tests.made_up import Setup, rows
from tests.vidcap_jax.models.test_embedding import SETTINGS as EMBEDDING
from tests.vidcap_jax.models.test_embedding import STREAMS
from tests.vidcap_jax.models.test_embedding import loss as embedding_loss
from tests.x64 import enable_x64
from vidcap_jax import models
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.distributed.mesh import to_devices
from vidcap_jax.errors import ConfigError
from vidcap_jax.models import captioner, sharding
from vidcap_jax.models.captioner import init_params
from vidcap_jax.models.transformer import Transformer
from vidcap_jax.training.optimizer import make_optimizer, make_schedule
from vidcap_jax.training.step import TrainState, state_shardings

V, STEPS = 12, 20  # the words divide over the model axes below
LAYOUTS = [
  ((1, 1), 'replicated'),
  ((8, 1), 'full'),
  ((4, 2), 'vocabulary'),
  ((2, 4), 'vocabulary'),
  ((2, 4), 'full'),
  ((4, 2), 'replicated'),
]
TENSOR = ((4, 2), 'tensor')


def mesh_of(data: int, model: int) -> Mesh:
  devices = np.array(jax.devices()[: data * model]).reshape(data, model)
  return Mesh(devices, ('data', 'model'))


class Trained:
  """A case that is trained for some steps, on any mesh and with any sharding of its parameters."""

  def __init__(self, case, double: bool):
    self.case, self.setup = case, Setup(case, V)
    self.dtype = jnp.float64 if double else jnp.float32
    self.params = self.widen(self.setup.params)
    self.batch = self.widen({'inputs': self.setup.inputs, 'targets': self.setup.targets})
    settings = common.base().optimizer
    settings.learning_rate = 0.01
    self.optimizer = make_optimizer(settings, make_schedule(settings, STEPS, STEPS))

  def widen(self, tree):
    return jax.tree.map(lambda x: x.astype(self.dtype) if x.dtype == np.float32 else x, tree)

  def sizes(self, size):
    module = models.build(self.case.settings, size)
    init = lambda key: self.widen(init_params(module, key, rows(self.setup.inputs, slice(1))))  # noqa: E731
    return jax.eval_shape(init, jax.random.key(0))

  def loss(self, params, batch, key):
    if self.case.settings['name'] == 'embedding':
      return embedding_loss(self.setup.module, params, batch['inputs'], batch['targets'], key)
    total, words = self.setup._loss(params, batch['inputs'], batch['targets'], key)
    return total / words

  def state(self):
    zero = jnp.zeros((), jnp.int32)
    return TrainState(zero, self.params, self.optimizer.init(self.params), {}, zero, jnp.zeros(()))

  def shardings(self, mesh, how):
    axes = captioner.sharded_axes(self.setup.module)
    params = sharding.param_shardings(how, mesh, V, self.sizes, axes)
    return state_shardings(jax.eval_shape(self.state), self.optimizer, params, mesh)

  def run(self, shape, how):
    """Losses of all steps, and the last state."""
    mesh = mesh_of(*shape)
    shardings, batch = self.shardings(mesh, how), to_devices(self.batch, mesh)

    def step(state, _):
      key = jax.random.fold_in(jax.random.key(0), state.step)
      loss, grads = jax.value_and_grad(self.loss)(state.params, batch, key)
      updates, opt_state = self.optimizer.update(grads, state.opt_state, state.params)
      params = optax.apply_updates(state.params, updates)
      new = state.replace(step=state.step + 1, params=params, opt_state=opt_state)
      return jax.lax.with_sharding_constraint(new, shardings), loss

    scan = jax.jit(
      lambda state: jax.lax.scan(step, state, None, STEPS), out_shardings=(shardings, None)
    )
    state, losses = scan(jax.device_put(self.state(), shardings))
    return np.asarray(losses), state


def sharded_names(tree) -> set[str]:
  """Names of the arrays of which a device holds only a part."""
  return {
    jax.tree_util.keystr(name)
    for name, x in jax.tree.leaves_with_path(tree)
    if x.sharding.shard_shape(x.shape) != x.shape
  }


# These choose by maxima and draws, which rounding may change: they are trained in float64.
CHOOSING = ('stats', 'global2local', 'dual_afr', 'refocus')


QUICK = pytest.param(CASES[0], (LAYOUTS[1], LAYOUTS[3]), id=CASES[0].name)


HEADS = pytest.param(
  next(case for case in CASES if case.name == 'transformer'),
  (TENSOR,),
  marks=pytest.mark.slow,
  id='heads',
)


def whole(case):
  marks = [pytest.mark.slow, pytest.mark.timeout(900)]  # six programs are compiled
  return pytest.param(case, LAYOUTS[1:], marks=marks, id=f'{case.name} everywhere')


@pytest.mark.parametrize(
  ('case', 'layouts'),
  [QUICK, HEADS, *(whole(case) for case in (*CASES, Case('embedding', EMBEDDING, STREAMS)))],
)
def test_mesh_and_sharding_change_no_loss(case, layouts):
  double = case.name.startswith(CHOOSING)
  with enable_x64(double):
    trained = Trained(case, double)
    expected, _ = trained.run((1, 1), 'replicated')
    if not case.draws:  # there the loss stands for a gradient
      assert expected[-5:].mean() < expected[:5].mean()
    for shape, how in layouts:
      losses, state = trained.run(shape, how)
      np.testing.assert_allclose(losses, expected, rtol=1e-5, err_msg=f'{shape}, {how}')
      assert len(state.step.sharding.device_set) == shape[0] * shape[1]
      sharded = sharded_names(state.params)
      assert bool(sharded) == (how != 'replicated')
      moments = {name for name in sharded_names(state.opt_state) if '.mu' in name}
      assert {name[name.index("['") :] for name in moments} == sharded


def test_which_axes_are_sharded():
  mesh = mesh_of(4, 2)

  def init(V):
    f32 = jnp.float32
    return {
      'words': {'embedding': jax.ShapeDtypeStruct((V, 6), f32)},
      'out': {'kernel': jax.ShapeDtypeStruct((8, V), f32), 'bias': jax.ShapeDtypeStruct((V,), f32)},
      'odd': jax.ShapeDtypeStruct((3, 5), f32),
      'gain': jax.ShapeDtypeStruct((), f32),
    }

  spec = lambda tree: jax.tree.map(lambda s: tuple(s.spec), tree)  # noqa: E731
  by_words = sharding.param_shardings('vocabulary', mesh, 10, init)
  assert spec(by_words) == {
    'words': {'embedding': ('model',)},
    'out': {'kernel': (None, 'model'), 'bias': ('model',)},
    'odd': (),
    'gain': (),
  }
  assert re.findall(r'\d+', sharding.summary(init(10), by_words)) == ['166', '90', '91']
  assert spec(sharding.param_shardings('full', mesh, 12, init)) == {
    'words': {'embedding': ('data',)},
    'out': {'kernel': (None, 'data'), 'bias': ('data',)},
    'odd': (),
    'gain': (),
  }
  odd = sharding.param_shardings('vocabulary', mesh, 11, init)
  assert re.findall(r'\d+', sharding.summary(init(11), odd)) == ['181']
  with pytest.raises(ConfigError, match="mesh.params 'half'.*replicated"):
    sharding.param_shardings('half', mesh, 11, init)


def test_heads_and_feed_forward_channels_are_sharded():
  f32, mesh = jnp.float32, mesh_of(4, 2)
  layer = {
    'query': {'kernel': jax.ShapeDtypeStruct((8, 8), f32), 'bias': jax.ShapeDtypeStruct((8,), f32)},
    'out': {'kernel': jax.ShapeDtypeStruct((8, 8), f32), 'bias': jax.ShapeDtypeStruct((8,), f32)},
  }

  def init(V):
    return {'layer': layer, 'words': {'embedding': jax.ShapeDtypeStruct((V, 8), f32)}}

  def spec(how):
    shardings = sharding.param_shardings(how, mesh, 12, init, Transformer.sharded_axes)
    return jax.tree.map(lambda s: tuple(s.spec), shardings)

  words = {'embedding': ('model',)}
  assert spec('tensor') == {
    'layer': {
      'query': {'kernel': (None, 'model'), 'bias': ('model',)},
      'out': {'kernel': ('model',), 'bias': ()},
    },
    'words': words,
  }
  nothing = {'kernel': (), 'bias': ()}
  assert spec('vocabulary') == {'layer': {'query': nothing, 'out': nothing}, 'words': words}


@pytest.mark.parametrize('shape', [lambda V: (V, V), lambda V: (3, 2 * V), lambda V: (V - 4,)])
def test_a_vocabulary_axis_is_the_only_one_and_of_size_V(shape):
  init = lambda V: {'table': jax.ShapeDtypeStruct(shape(V), jnp.float32)}  # noqa: E731
  with pytest.raises(ValueError, match='table.*11.*12'):
    sharding.vocabulary_axes(init)


def small_params(V):
  shapes = {'words': {'embedding': (V, 8)}, 'out': {'kernel': (8, V), 'bias': (V,)}, 'gain': ()}
  is_shape = lambda x: isinstance(x, tuple)  # noqa: E731
  draw = np.random.default_rng(0)
  return jax.tree.map(lambda s: draw.normal(size=s).astype(np.float32), shapes, is_leaf=is_shape)


def test_checkpoints_restore_to_another_mesh_and_sharding(tmp_path):
  """Bit for bit."""
  optimizer = optax.adam(0.1)

  def state():
    params, zero = small_params(V), jnp.zeros((), jnp.int32)
    grads = jax.tree.map(np.ones_like, params)
    _, moments = optimizer.update(grads, optimizer.init(params), params)
    return TrainState(zero + 7, params, moments, {}, zero, jnp.ones(()))

  def layout(shape, how):
    mesh = mesh_of(*shape)
    params = sharding.param_shardings(how, mesh, V, small_params)
    return state_shardings(jax.eval_shape(state), optimizer, params, mesh)

  expected = state()
  for written, read in ((0, 3), (3, 1), (1, 2), (1, 0)):
    folder = tmp_path / f'{written} {read}'
    state_on_mesh = jax.device_put(expected, layout(*LAYOUTS[written]))
    manager = checkpoint.open_manager(folder, 1)
    checkpoint.save(manager, 1, state_on_mesh.params, state_on_mesh.replace(params=None), {})
    checkpoint.finish(manager)
    wanted = layout(*LAYOUTS[read])
    shapes = checkpoint.abstract(jax.eval_shape(state), wanted)
    _, params, rest, _ = checkpoint.restore_latest(
      folder, shapes.params, shapes.replace(params=None), lambda _: None
    )
    found = rest.replace(params=params)
    assert jax.tree.map(lambda x: x.sharding, found) == wanted
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize(
  ('how', 'platform', 'slices', 'data', 'sharded'),
  [
    ('auto', 'tpu', (0, 0), 2, True),
    ('auto', 'tpu', (0, 1), 2, False),
    ('auto', 'tpu', (0, 0), 1, False),
    ('auto', 'gpu', (0, 0), 2, False),
    ('auto', 'cpu', (0, 0), 2, False),
    ('sharded', 'tpu', (0, 1), 2, True),
    ('sharded', 'cpu', (0, 0), 2, True),
    ('as_params', 'tpu', (0, 0), 2, False),
  ],
)
def test_where_moments_are_sharded(how, platform, slices, data, sharded, monkeypatch):
  devices = [types.SimpleNamespace(platform=platform, slice_index=i) for i in slices]
  mesh = types.SimpleNamespace(devices=np.array(devices), shape={'data': data})
  monkeypatch.setattr(sharding, 'NamedSharding', lambda mesh, spec: spec)
  shapes = {'w': jax.ShapeDtypeStruct((16, 5), jnp.float32)}
  params = {'w': types.SimpleNamespace(spec=PartitionSpec())}
  moments = sharding.moment_shardings(how, mesh, shapes, params)
  assert moments == ({'w': PartitionSpec('data')} if sharded else None)
