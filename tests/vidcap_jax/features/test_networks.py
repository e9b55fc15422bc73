"""C3D, VGGish and Lite0 as extractors: weights, versions, and shapes of streams."""

import sys

import jax
import numpy as np
import pytest

from tests.building import described
from tests.feature_files import torch_zip
from tests.vidcap_jax.features import seeded
from vidcap_jax.features import extraction, extractors, networks, video_folder, weights
from vidcap_jax.features.backbones import c3d, efficientnet, timm_images, vggish
from vidcap_jax.features.extractors import EXACT_CLOCK

C3D = ('fc7', 'pool2', 'pool3', 'pool4', 'pool5')


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """A weights folder with small networks of both."""
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path))
  for module, shapes, file in (
    (c3d, seeded.c3d_shapes(), 'c3d.pickle'),
    (vggish, seeded.vggish_shapes(), 'vggish.pth'),
  ):
    monkeypatch.setattr(module, 'SHAPES', shapes)
    (tmp_path / file).write_bytes(torch_zip(seeded.state(shapes, 1)))
  return tmp_path


@pytest.mark.parametrize('name', ['c3d', 'c3d_whole'])
def test_c3d_streams(folder, name):
  network = networks.NETWORKS[name]
  assert (network.size, network.window) == (c3d.SIZE, c3d.WINDOW)
  assert (network.stretch, network.scale) == ((True, None) if name == 'c3d_whole' else (False, 128))
  forward = network.load(*network.weights())
  kinds = {output: extractors.get(f'{name}_{output}') for output in C3D}
  assert {kind.network for kind in kinds.values()} == {name}
  wanted = tuple(sorted({output for kind in kinds.values() for output in kind.outputs}))
  found = forward(seeded.windows(2, network.batch), wanted)
  for kind in kinds.values():
    array = kind.finish(*(np.asarray(found[output]) for output in kind.outputs))
    # Small channels; the published network's are the test of its shapes.
    assert array.shape[1:-1] == kind.shape[1:-1]
    steps = {'fc7': 2, 'pool2': 16, 'pool3': 8, 'pool4': 4, 'pool5': 2}[kind.outputs[0]]
    assert len(array) == steps
  first, second = np.asarray(found['pool2'])
  laid = kinds['pool2'].finish(np.asarray(found['pool2']))
  np.testing.assert_array_equal(laid, np.concatenate([first, second]))


def test_c3d_of_whole_frames_is_another_feature(folder):
  """A description of one kind is never read as the other; those of squares are as before."""
  square, whole = (extractors.describe(f'{network}_pool4') for network in ('c3d', 'c3d_whole'))
  digest = weights.digest(folder / 'c3d.pickle')
  assert square['version'] == f'c3d-1/{digest}{EXACT_CLOCK}'
  assert whole['version'] == f'c3d-whole-1/{digest}{EXACT_CLOCK}'
  for description, other in ((square, whole), (whole, square)):
    assert extractors.check('s', description) == description
    with pytest.raises(extractors.ExtractorError, match="'s'.*version"):
      extractors.check('s', {**description, 'extractor': other['extractor']})


def test_c3d_of_whole_frames_reads_the_sides(folder, tmp_path, monkeypatch):
  """Of a wide clip the sides alone change what it gives, and not what the square gives."""
  monkeypatch.setattr(networks, 'load_network', networks.load_network.__wrapped__)
  video_files = pytest.importorskip('tests.video_files')
  plain = [video_files.gray(90, 48, 144) for _ in range(16)]
  sides = [image.copy() for image in plain]
  for image in sides:
    image[:, :24], image[:, 120:] = 250, 250
  how = {'uniform': 16, 'window': 16, 'stride': 16}
  arrays = {}
  for name, images in (('plain', plain), ('sides', sides)):
    path = video_files.write_video(tmp_path / f'{name}.mp4', images)
    streams = {
      network: extractors.describe(f'{network}_pool2', how) for network in ('c3d', 'c3d_whole')
    }
    arrays[name] = extraction.extract_video(str(path), streams)
  change = {
    network: np.abs(arrays['sides'][network] - arrays['plain'][network]).max()
    for network in ('c3d', 'c3d_whole')
  }
  assert change['c3d_whole'] > 10 * change['c3d']


def test_c3d_mean_cube_is_part_of_the_version(folder):
  plain = extractors.describe('c3d_pool4')
  assert plain['sampling'] == {'fps': 2.0, 'window': 16, 'stride': 16}
  assert extractors.describe('c3d_fc7')['sampling']['stride'] == 8
  digest = weights.digest(folder / 'c3d.pickle')
  assert plain['version'] == f'c3d-1/{digest}{EXACT_CLOCK}'
  cube = np.random.default_rng(0).uniform(80, 110, (16, 112, 112, 3)).astype(np.float32)
  np.save(folder / 'c3d_mean.npy', cube)
  with_cube = extractors.describe('c3d_pool4')
  assert (
    with_cube['version'] == f'c3d-1/{digest}+{weights.digest(folder / "c3d_mean.npy")}{EXACT_CLOCK}'
  )
  with pytest.raises(extractors.ExtractorError, match='version'):
    extractors.check('s', plain)

  network, windows = networks.NETWORKS['c3d'], seeded.windows(2)[:, :, :16, :16]
  np.save(folder / 'c3d_mean.npy', np.full((16, 112, 112, 3), 20, np.float32))
  parameters = c3d.read_parameters(folder / 'c3d.pickle')
  answer = jax.jit(lambda x: c3d.features(parameters, x, ('pool1',), (20.0,)))(windows)
  loaded = network.load(*network.weights())
  found = loaded(seeded.windows(2), ('pool1',))['pool1'][:, :, :7, :7]
  np.testing.assert_allclose(found, answer['pool1'][:, :, :7, :7], rtol=1e-4, atol=1e-3)


def test_vggish_streams(folder):
  network = networks.NETWORKS['vggish']
  assert (network.size, network.rate) == (vggish.SAMPLES, 16_000)
  assert extractors.describe('vggish')['sampling'] == {'hop': vggish.SECONDS}
  waves = np.stack([seeded.waves()[: vggish.SAMPLES]] * 2)
  found = network.load(*network.weights())(waves, ('embedding', 'relu'))
  np.testing.assert_array_equal(found['relu'], np.maximum(found['embedding'], 0))

  with pytest.raises(weights.WeightsError, match=r'PCA .*--weights=vggish_pca=PATH'):
    extractors.describe('vggish_pca')
  (folder / 'vggish_pca.pth').write_bytes(torch_zip(seeded.pca()))
  version = extractors.describe('vggish_pca')['version']
  files = (folder / 'vggish.pth', folder / 'vggish_pca.pth')
  assert version == 'vggish-1/' + '+'.join(map(weights.digest, files)) + EXACT_CLOCK
  both = networks.NETWORKS['vggish_pca']
  quantised = np.asarray(both.load(*both.weights())(waves, ('quantised',))['quantised'])
  assert quantised.shape == (2, *extractors.get('vggish_pca').shape[1:])
  assert ((quantised >= 0) & (quantised <= 255)).all()


@pytest.mark.parametrize(('name', 'message'), [('c3d_fc7', r'c3d\.pickle'), ('vggish', '10086976')])
def test_missing_weights_say_what_to_fetch(tmp_path, monkeypatch, name, message):
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path))
  with pytest.raises(weights.WeightsError) as error:
    extractors.describe(name)
  assert message.replace('\\', '') in str(error.value)
  assert str(tmp_path) in str(error.value)
  assert weights.VARIABLE in str(error.value)


def test_families_need_an_extra(monkeypatch):
  monkeypatch.setitem(sys.modules, 'timm', None)
  timm_images.family.cache_clear()
  with pytest.raises(ModuleNotFoundError, match=r'vidcap_jax\[torch\]'):
    extractors.describe('timm/resnet152')


@pytest.mark.parametrize('name', efficientnet.VARIANTS)
def test_streams_of_one_network_agree(clips, name):
  variant = efficientnet.VARIANTS[name]
  pytest.importorskip(variant.package, reason=f'the weights of {name} are not installed')
  streams = described(name, f'{name}_grid', f'{name}_motion', how={'uniform': 3})
  path = next(iter(video_folder.find_videos(clips).values()))
  pooled, grid, motion = extraction.extract_video(path, streams).values()
  cells = variant.cells
  assert pooled.shape == (3, 1280)
  assert grid.shape == (3, cells, cells, 1280)
  assert motion.shape == (2, 6 * extractors.MIXED)
  np.testing.assert_allclose(grid.mean((1, 2)), pooled, atol=1e-5)
  mixed = grid @ networks.mixing(1280, extractors.MIXED)
  places = np.arange(cells) - (cells - 1) / 2
  across = (mixed * places[None, None, :, None]).mean((1, 2))
  down = (mixed * places[None, :, None, None]).mean((1, 2))
  change = np.diff(np.concatenate([mixed.mean((1, 2)), across, down], 1), axis=0)
  np.testing.assert_allclose(np.concatenate([change, np.abs(change)], 1), motion, atol=1e-5)


@pytest.mark.parametrize('name', efficientnet.VARIANTS)
def test_efficientnets_are_registered_as_they_are(name):
  variant = efficientnet.VARIANTS[name]
  assert networks.NETWORKS[name].size == variant.size
  assert extractors.get(name).version.startswith(variant.version)
  assert extractors.get(f'{name}_grid').shape == (None, variant.cells, variant.cells, 1280)


def test_mixing_keeps_lengths_and_directions():
  mixing = networks.mixing(1280, extractors.MIXED)
  assert set(np.unique(np.abs(mixing))) == {np.float32(1280**-0.5)}
  angles = mixing.T @ mixing - np.eye(extractors.MIXED)
  assert np.abs(angles).max() < 0.2
  signs = np.array([1, 1, 1, 1, 1, -1, 1, -1])  # features of one machine hold on another
  assert mixing[0, :8].tolist() == (signs / 1280**0.5).astype(np.float32).tolist()
