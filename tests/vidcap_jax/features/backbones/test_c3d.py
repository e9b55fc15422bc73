"""C3D's outputs against PyTorch's, its geometry against the dualAFR paper, its weights files."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.feature_files import torch_zip
from tests.vidcap_jax.features import seeded
from vidcap_jax.features.backbones import c3d
from vidcap_jax.features.weights import WeightsError
from vidcap_jax.models.layers import alignment

EXPECTED = pathlib.Path(__file__).with_name('expected.npz')
OUTPUTS = ('pool1', 'pool2', 'pool3', 'pool4', 'pool5', 'fc6', 'fc7')


@pytest.fixture(scope='module')
def parameters():
  return c3d.parameters_from_state(seeded.state(seeded.c3d_shapes(), 1))


@pytest.fixture(scope='module')
def outputs():
  return jax.jit(lambda p, x, mean: c3d.features(p, x, OUTPUTS, mean))


@pytest.mark.parametrize('mean', ['plain', 'cube'])
def test_outputs_equal_pytorchs(parameters, outputs, mean):
  cube = np.random.Generator(np.random.PCG64(3)).uniform(80, 110, (16, 112, 112, 3))
  taken_off = np.broadcast_to(c3d.MEAN if mean == 'plain' else cube, cube.shape)
  found = outputs(parameters, seeded.windows(2), taken_off.astype(np.float32))
  with np.load(EXPECTED) as expected:
    for name in OUTPUTS:
      assert found[name].shape == tuple(expected[f'c3d_{mean}_{name}_shape'])
      answer = expected[f'c3d_{mean}_{name}']
      np.testing.assert_allclose(seeded.sample(found[name]), answer, rtol=1e-4, atol=1e-3)


def test_shapes_of_a_window():
  """The paper's, for N frames: 28 x 28 x N/2 x 128, …, 4 x 4 x N/16 x 512."""
  state = {k: jax.ShapeDtypeStruct(v, jnp.float32) for k, v in c3d.SHAPES.items()}
  empty = {name: np.broadcast_to(np.float32(0), s.shape) for name, s in state.items()}
  parameters = jax.eval_shape(lambda: c3d.parameters_from_state(empty))
  windows = jax.ShapeDtypeStruct((2, 16, 112, 112, 3), jnp.uint8)
  found = jax.eval_shape(lambda p, x: c3d.features(p, x, OUTPUTS), parameters, windows)
  assert {name: x.shape for name, x in found.items()} == {
    'pool1': (2, 16, 56, 56, 64),
    'pool2': (2, 8, 28, 28, 128),
    'pool3': (2, 4, 14, 14, 256),
    'pool4': (2, 2, 7, 7, 512),
    'pool5': (2, 1, 4, 4, 512),
    'fc6': (2, 4096),
    'fc7': (2, 4096),
  }


POOLS = ('pool2', 'pool3', 'pool4', 'pool5')
RATIOS = {'pool2': 8, 'pool3': 4, 'pool4': 2, 'pool5': 1}
SIDE, FRAMES = 160, 80  # of the inputs that receptive fields are measured in
MIDDLE = {'pool2': 16, 'pool3': 8, 'pool4': 4, 'pool5': 2}  # a cell well inside, along both axes


def seeing_network(second: str):
  """One channel; every weight 1, so that all that a cell sees changes it.

  The second convolutions of levels see their 3 x 3 x 3 places, or with 'nothing new' just one.
  """
  parameters = {}
  for names, _ in c3d.LEVELS:
    for name in names:
      kernel = np.ones((3, 3, 3, 3 if name == 'conv1' else 1, 1), np.float32)
      if name.endswith('b') and second == 'nothing new':
        kernel *= (np.abs(np.indices((3, 3, 3)) - 1).max(0) == 0)[..., None, None]
      # Small numbers: fifteen sums of 27 and more stay within float32.
      parameters[name] = {'kernel': kernel / 27, 'bias': np.zeros((1, 1, 1, 1, 1), np.float32)}
  return parameters


@pytest.fixture(scope='module')
def fields():
  """(second, axis) -> {pool: (first, last)}: the places that change its cell ``MIDDLE``."""
  pools = jax.jit(lambda p, x: c3d.features(p, x, POOLS, np.zeros(3, np.float32)))

  def measure(second: str, axis: str) -> dict[str, tuple[int, int]]:
    size, along = (SIDE, 2) if axis == 'rows' else (FRAMES, 1)
    frames, rows = (16, size) if axis == 'rows' else (size, 1)
    planes = np.zeros((size, frames, rows, 1, 3), np.float32)  # a bright one in each
    np.moveaxis(planes, along, 1)[np.arange(size), np.arange(size)] = 1e6
    found = {}
    for name, array in pools(seeing_network(second), planes).items():
      cells = np.moveaxis(np.asarray(array), along, 1)[:, MIDDLE[name]]
      places = np.flatnonzero(cells.reshape(size, -1).max(1))
      assert (np.diff(places) == 1).all()
      found[name] = (int(places[0]), int(places[-1]))
    return found

  return {(s, a): measure(s, a) for s in ('as it is', 'nothing new') for a in ('rows', 'frames')}


# The paper's Table 4, of cell i counted from 1, in places counted from 0.
TABLE_4 = {
  'rows': {
    'pool2': lambda i: (4 * i - 7, 4 * i + 2),
    'pool3': lambda i: (8 * i - 15, 8 * i + 6),
    'pool4': lambda i: (16 * i - 31, 16 * i + 14),
    'pool5': lambda i: (32 * i - 63, 32 * i + 30),
  },
  'frames': {
    'pool2': lambda i: (2 * i - 4, 2 * i + 1),
    'pool3': lambda i: (4 * i - 8, 4 * i + 3),
    'pool4': lambda i: (8 * i - 16, 8 * i + 7),
    'pool5': lambda i: (16 * i - 32, 16 * i + 15),
  },
}


@pytest.mark.parametrize('axis', ['rows', 'frames'])
def test_table_4(fields, axis):
  """The table counts one convolution a level; each second one adds a place of its level's input."""
  added, step = 0, 1 if axis == 'frames' else 2
  for name in POOLS:
    first, last = TABLE_4[axis][name](MIDDLE[name] + 1)
    assert fields['nothing new', axis][name] == (first, last)
    if name != 'pool2':
      added += step
    assert fields['as it is', axis][name] == (first - added, last + added)
    step *= 2


@pytest.mark.parametrize('axis', ['rows', 'frames'])
def test_aligned_layers_have_the_same_receptive_fields(axis):
  """Table 5 on top of Table 4: a position of every aligned layer sees what one of pool5 sees."""
  position = 2
  wanted = TABLE_4[axis]['pool5'](position + 1)
  for name in ('pool2', 'pool3', 'pool4'):
    ratio = RATIOS[name]
    first, size = alignment.receptive_field(ratio)[0]
    cells = (ratio * position + first + 1, ratio * position + first + size)  # from 1
    seen = [TABLE_4[axis][name](cell) for cell in cells]
    assert (seen[0][0], seen[1][1]) == wanted


def tiny(state, monkeypatch):
  """Lets the published shapes be those of small arrays."""
  monkeypatch.setattr(c3d, 'SHAPES', {name: array.shape for name, array in state.items()})


def test_reads_weights_files(tmp_path, monkeypatch):
  state = seeded.state(seeded.c3d_shapes(), 1)
  tiny(state, monkeypatch)
  fc8 = {'fc8.weight': np.zeros((3, 9), np.float32), 'fc8.bias': np.zeros(3, np.float32)}
  plain = tmp_path / 'c3d.pickle'
  plain.write_bytes(torch_zip({**state, **fc8}))
  expected = c3d.parameters_from_state(state)
  jax.tree.map(np.testing.assert_array_equal, c3d.read_parameters(plain), expected)

  numbers = dict(zip(seeded.C3D_CONVOLUTIONS, (0, 3, 6, 8, 11, 13, 16, 18), strict=True))
  layers = {name: f'features.{i}' for name, i in numbers.items()}
  layers |= {'fc6': 'classifier.0', 'fc7': 'classifier.3'}
  other = {}
  for name, array in state.items():
    layer, _, part = name.partition('.')
    other[f'module.{layers[layer]}.{part}'] = array
  numbered = tmp_path / 'c3d-pretrained.pth'
  numbered.write_bytes(torch_zip({'state_dict': other}))
  jax.tree.map(np.testing.assert_array_equal, c3d.read_parameters(numbered), expected)


def test_published_shapes():
  assert c3d.SHAPES['conv1.weight'] == (64, 3, 3, 3, 3)
  assert c3d.SHAPES['conv5b.weight'] == (512, 512, 3, 3, 3)
  assert c3d.SHAPES['fc6.weight'] == (4096, 8192)
  assert len(c3d.SHAPES) == 20
  assert sum(np.prod(shape) for shape in c3d.SHAPES.values()) == 77_995_776


def test_other_weights_are_named(tmp_path, monkeypatch):
  state = seeded.state(seeded.c3d_shapes(), 1)
  tiny(state, monkeypatch)
  wrong = dict(state)
  del wrong['conv3a.bias']
  wrong['head.weight'] = np.zeros((2, 2), np.float32)
  wrong['conv1.weight'] = np.zeros((4, 1, 3, 3, 3), np.float32)
  path = tmp_path / 'c3d.pth'
  path.write_bytes(torch_zip(wrong))
  with pytest.raises(WeightsError) as error:
    c3d.read_parameters(path)
  message = str(error.value)
  assert str(path) in message
  assert 'missing conv3a.bias' in message
  assert 'unknown head.weight' in message
  assert 'conv1.weight is (4, 1, 3, 3, 3), expected (4, 3, 3, 3, 3)' in message
  path.write_bytes(b'<html>not found</html>')
  with pytest.raises(WeightsError, match='damaged or not a PyTorch file'):
    c3d.read_parameters(path)


@pytest.mark.parametrize('layout', ['caffe', 'last', 'cut', 'batch'])
def test_mean_cubes_of_all_layouts(tmp_path, layout):
  cube = np.random.default_rng(0).uniform(80, 110, (16, 128, 171, 3))
  middle = cube[:, 8:120, 30:142].astype(np.float32)
  stored = {
    'caffe': cube.transpose(3, 0, 1, 2),
    'last': cube.astype(np.float32),
    'cut': middle,
    'batch': cube.transpose(3, 0, 1, 2)[None],
  }[layout]
  np.save(tmp_path / 'c3d_mean.npy', stored)
  np.testing.assert_array_equal(c3d.read_mean(tmp_path / 'c3d_mean.npy'), middle)


def test_mean_cubes_for_whole_frames(tmp_path):
  """They are scaled as the frames are; one that was cut before stays as it is."""
  rows, columns = np.linspace(80, 100, 128), np.linspace(-5, 5, 171)
  cube = (rows[:, None] + columns)[None, :, :, None] + np.zeros((16, 1, 1, 3))
  np.save(tmp_path / 'c3d_mean.npy', cube.transpose(3, 0, 1, 2))
  whole = c3d.read_mean(tmp_path / 'c3d_mean.npy', whole=True)
  assert (whole.shape, whole.dtype) == ((16, 112, 112, 3), np.float32)
  assert whole.mean() == pytest.approx(cube.mean(), abs=1e-3)
  corners = whole[0, [0, -1], [0, -1], 0]
  np.testing.assert_allclose(corners, [75, 105], atol=0.3)  # none of the sides is cut off
  np.save(tmp_path / 'c3d_mean.npy', whole)
  np.testing.assert_array_equal(c3d.read_mean(tmp_path / 'c3d_mean.npy', whole=True), whole)


@pytest.mark.parametrize(
  ('array', 'message'),
  [
    (np.zeros((16, 100, 100, 3)), r'float64 \(16, 100, 100, 3\)'),
    (np.zeros((8, 112, 112, 3)), 'expected real numbers'),
    (np.zeros((16, 112, 112, 3), np.uint8), 'uint8'),
    (np.full((16, 112, 112, 3), np.nan, np.float32), 'NaN'),
  ],
)
def test_other_mean_cubes_are_refused(tmp_path, array, message):
  np.save(tmp_path / 'c3d_mean.npy', array)
  with pytest.raises(WeightsError, match=message):
    c3d.read_mean(tmp_path / 'c3d_mean.npy')
  (tmp_path / 'c3d_mean.npy').write_bytes(b'')
  with pytest.raises(WeightsError, match='cannot be read'):
    c3d.read_mean(tmp_path / 'c3d_mean.npy')
