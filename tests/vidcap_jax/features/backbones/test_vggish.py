"""VGGish and its spectrogram against PyTorch and plain sums, and its weights files."""

import pathlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.feature_files import torch_zip
from tests.vidcap_jax.features import seeded
from vidcap_jax.features.backbones import log_mel, vggish
from vidcap_jax.features.weights import WeightsError

EXPECTED = pathlib.Path(__file__).with_name('expected.npz')


def stretches() -> np.ndarray:
  """What the extraction feeds: (2, 15600), 0.96 seconds apart."""
  wave, hop = seeded.waves(), round(vggish.SECONDS * log_mel.RATE)
  starts = range(0, len(wave) - vggish.SAMPLES + 1, hop)
  return np.stack([wave[start : start + vggish.SAMPLES] for start in starts])


def pca_file(path: pathlib.Path) -> pathlib.Path:
  path.write_bytes(torch_zip(seeded.pca()))
  return path


def test_outputs_equal_pytorchs(tmp_path):
  parameters = vggish.parameters_from_state(seeded.state(seeded.vggish_shapes(), 4))
  pca = vggish.read_pca(pca_file(tmp_path / 'pca.pth'))
  outputs = ('embedding', 'relu', 'quantised')
  found = jax.jit(lambda p, x: vggish.features(p, x, outputs, pca))(parameters, stretches())
  with np.load(EXPECTED) as expected:
    np.testing.assert_allclose(found['embedding'], expected['vggish_embedding'], atol=2e-3)
    np.testing.assert_allclose(found['relu'], expected['vggish_relu'], atol=2e-3)
    scaled = expected['vggish_scaled']
  quantised = np.asarray(found['quantised'])
  # Whole numbers rounded down; where the answer is near one, that one or its neighbour.
  assert (quantised == np.floor(quantised)).all()
  assert ((scaled - 1.1 < quantised) & (quantised < scaled + 0.1)).all()
  assert len(np.unique(quantised)) > 100
  assert (quantised.min(), quantised.max()) == (0, 255)


def test_shapes():
  assert (vggish.SAMPLES, vggish.SECONDS) == (15_600, 0.96)
  empty = {k: np.broadcast_to(np.float32(0), v) for k, v in vggish.SHAPES.items()}
  parameters = jax.eval_shape(lambda: vggish.parameters_from_state(empty))
  waves = jax.ShapeDtypeStruct((3, vggish.SAMPLES), jnp.float32)
  found = jax.eval_shape(lambda p, x: vggish.features(p, x, ('embedding',)), parameters, waves)
  assert found['embedding'].shape == (3, 128)
  assert vggish.SHAPES['embeddings.0.weight'] == (4096, 12_288)
  assert vggish.SHAPES['features.13.weight'] == (512, 512, 3, 3)
  assert len(vggish.SHAPES) == 18


@pytest.mark.parametrize('axis', ['pieces', 'bands'])
def test_receptive_field_of_a_cell(axis):
  """A stride of 16, and 27 pieces or bands more on either side, by the convolutions' padding."""
  along = 1 if axis == 'pieces' else 2
  parameters = {}
  for name in seeded.VGGISH_CONVOLUTIONS:  # weights of 1: all that a cell sees changes it
    kernel = np.full((3, 3, 1, 1), 1 / 9, np.float32)
    parameters[name] = {'kernel': kernel, 'bias': np.zeros((1, 1, 1, 1), np.float32)}
  bright = np.zeros((96, 96, 96), np.float32)  # a bright row in each
  np.moveaxis(bright, along, 1)[np.arange(96), np.arange(96)] = 1e4
  cells = np.asarray(jax.jit(vggish.feature_map)(parameters, bright))[..., 0]  # (96, 6, 6)
  responses = np.moveaxis(cells, along, 1).max(2)
  for cell in (2, 3):
    seen = np.flatnonzero(responses[:, cell])
    assert (seen[0], seen[-1]) == (16 * cell - 27, 16 * cell + 15 + 27)


def test_reads_weights_files(tmp_path, monkeypatch):
  state = seeded.state(seeded.vggish_shapes(), 4)
  monkeypatch.setattr(vggish, 'SHAPES', {name: array.shape for name, array in state.items()})
  path = tmp_path / 'vggish.pth'
  path.write_bytes(torch_zip({**state, 'pproc.pca_means': np.zeros((128, 1), np.float32)}))
  expected = vggish.parameters_from_state(state)
  jax.tree.map(np.testing.assert_array_equal, vggish.read_parameters(path), expected)
  del state['embeddings.4.bias']
  path.write_bytes(torch_zip(state))
  with pytest.raises(WeightsError, match=r'vggish.pth: .*missing embeddings\.4\.bias'):
    vggish.read_parameters(path)


def test_reads_pca_files(tmp_path):
  pca = seeded.pca()
  expected = {'pca_eigen_vectors': pca['pca_eigen_vectors'], 'pca_means': pca['pca_means'][:, 0]}
  np.savez(tmp_path / 'pca.npz', **{k: v.astype(np.float64) for k, v in pca.items()})
  paths = [pca_file(tmp_path / 'pca.pth'), tmp_path / 'pca.npz']
  for path in paths:
    jax.tree.map(np.testing.assert_array_equal, vggish.read_pca(path), expected)


@pytest.mark.parametrize(
  ('contents', 'message'),
  [
    ({'pca_means': np.zeros((128, 1))}, 'missing pca_eigen_vectors'),
    ({'pca_eigen_vectors': np.zeros((64, 128)), 'pca_means': np.zeros(128)}, r'\(64, 128\)'),
    ({'pca_eigen_vectors': np.eye(128), 'pca_means': np.zeros(100)}, r'pca_means is .*\(100,\)'),
    ({'pca_eigen_vectors': np.eye(128, dtype=int), 'pca_means': np.zeros(128)}, 'int64'),
    (None, 'cannot be read'),
  ],
)
def test_other_pca_files_are_named(tmp_path, contents, message):
  path = tmp_path / 'pca.npz'
  np.savez(path, **contents) if contents else path.write_bytes(b'PK\x03\x04 no more')
  with pytest.raises(WeightsError, match=f'pca.npz: .*{message}'):
    vggish.read_pca(path)


def test_a_pickle_is_not_run(tmp_path):
  path = tmp_path / 'pca.pth'
  path.write_bytes(pickle.dumps(pathlib.Path('/')))
  with pytest.raises(WeightsError, match=r'pca\.pth'):
    vggish.read_pca(path)
