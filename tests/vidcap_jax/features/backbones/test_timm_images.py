"""timm's networks by name. Skipped without the extra "torch"; weights are random ones."""

import numpy as np
import pytest

from vidcap_jax.features import extractors, weights

REASON = 'the extra "torch" is not installed'
torch = pytest.importorskip('torch', reason=REASON)
timm = pytest.importorskip('timm', reason=REASON)

from vidcap_jax.features.backbones import timm_images  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path))
  (tmp_path / 'timm').mkdir()
  return tmp_path / 'timm'


def random_model(name: str, folder, ending: str = '.pth'):
  torch.manual_seed(0)
  model = timm.create_model(name).eval()
  state = model.state_dict()
  if ending == '.safetensors':
    from safetensors.torch import save_file

    save_file(state, folder / (name + ending))
  else:
    torch.save(state, folder / (name + ending))
  return model


@pytest.mark.parametrize(
  ('name', 'size', 'scale', 'shapes'),
  [
    ('resnet152', 224, 235, ((2048,), (7, 7, 2048), (1000,))),
    ('resnext101_32x8d', 224, 256, ((2048,), (7, 7, 2048), (1000,))),
    ('inception_v4', 299, 341, ((1536,), (8, 8, 1536), (1000,))),
    ('vit_base_patch32_clip_224.openai', 224, 248, ((768,), (7, 7, 768), (512,))),
    ('swin_tiny_patch4_window7_224', 224, 248, ((768,), (7, 7, 768), (1000,))),
  ],
)
def test_networks_of_papers(name, size, scale, shapes):
  for suffix, shape in zip(('', '/grid', '/head'), shapes, strict=True):
    extractor, network = timm_images.family(name + suffix)
    assert extractor.shape == (None, *shape)
    assert extractor.kind == ('grid' if suffix == '/grid' else 'sequence')
    assert (network.size, network.scale, network.reads) == (size, scale, 'frames')


@pytest.mark.parametrize('name', ['test_resnet', 'test_vit', 'test_convnext'])
def test_outputs_equal_the_networks(folder, name):
  model = random_model(name, folder, '.safetensors' if name == 'test_vit' else '.pth')
  config = timm.data.resolve_model_data_config(model)
  extractor, network = timm_images.family(name)
  rows = network.size
  frames = np.random.default_rng(0).integers(0, 256, (2, rows, rows, 3), dtype=np.uint8)
  found = network.load(*network.weights())(frames, ('pooled', 'grid', 'head'))

  mean, std = (torch.tensor(config[key])[:, None, None] for key in ('mean', 'std'))
  x = (torch.from_numpy(frames).permute(0, 3, 1, 2) / 255 - mean) / std
  with torch.inference_mode():
    features = model.forward_features(x)
    np.testing.assert_allclose(found['head'], model(x), rtol=1e-4, atol=1e-5)
    pooled = model.forward_head(features, pre_logits=True)
  np.testing.assert_allclose(found['pooled'], pooled, rtol=1e-4, atol=1e-5)
  grid = timm_images.family(f'{name}/grid')[0]
  assert found['grid'].shape[1:] == grid.shape[1:]
  assert found['pooled'].shape[1:] == extractor.shape[1:]
  flat = features.flatten(2).mT if features.ndim == 4 else features[:, model.num_prefix_tokens :]
  np.testing.assert_allclose(found['grid'].reshape(flat.shape), flat, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('name', ['test_resnet', 'test_vit'])
def test_cells_depend_on_their_positions(folder, name):
  """Of random weights: what changes in one corner of the frame changes that corner's cell most."""
  random_model(name, folder)
  _, network = timm_images.family(f'{name}/grid')
  rows = network.size
  frames = np.full((5, rows, rows, 3), 100, np.uint8)
  edge = rows // 8
  frames[1, :edge, :edge] = 255
  frames[2, :edge, -edge:] = 255
  frames[3, -edge:, :edge] = 255
  frames[4, -edge:, -edge:] = 255
  grid = network.load(*network.weights())(frames, ('grid',))['grid']
  change = np.abs(grid[1:] - grid[:1]).sum(-1)  # (4, rows, columns)
  last = change.shape[1] - 1
  places = [np.unravel_index(c.argmax(), c.shape) for c in change]
  assert places == [(0, 0), (0, last), (last, 0), (last, last)]


def test_description_has_the_hash_of_the_weights(folder):
  random_model('test_resnet', folder)
  described = extractors.describe('timm/test_resnet/grid', {'every': 5})
  digest = weights.digest(folder / 'test_resnet.pth')
  assert described == {
    'kind': 'grid',
    'extractor': 'timm/test_resnet/grid',
    'version': f'timm-1/test_resnet.r160_in1k/{digest}{extractors.EXACT_CLOCK}',
    'sampling': {'every': 5},
  }
  assert extractors.check('s', described) == described


def test_missing_weights_say_what_to_fetch(folder):
  with pytest.raises(weights.WeightsError) as error:
    extractors.describe('timm/resnet152')
  message = str(error.value)
  assert 'model.safetensors of https://huggingface.co/timm/resnet152.a1h_in1k' in message
  assert f'resnet152.* in {folder}' in message


def test_other_weights_are_refused(folder):
  torch.save({'weight': torch.zeros(2)}, folder / 'test_resnet.pth')
  _, network = timm_images.family('test_resnet')
  with pytest.raises(weights.WeightsError, match='not the weights of timm/test_resnet'):
    network.load(*network.weights())
  (folder / 'test_resnet.pth').write_bytes(b'<html>')
  with pytest.raises(weights.WeightsError, match=r'test_resnet\.pth'):
    network.load(*network.weights())


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('resnet151', 'resnet151.*resnet152'),
    ('resnet152.no_such', r'resnet152\.no_such.*resnet152\.a1h_in1k'),
    ('resnet152/pool3', 'timm has no model'),
  ],
)
def test_unknown_names(name, message):
  with pytest.raises(extractors.ExtractorError, match=message):
    extractors.get(f'timm/{name}')
