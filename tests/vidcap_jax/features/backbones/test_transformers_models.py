"""CLIP and video networks of transformers. Skipped without the extra "torch"."""

import json

import numpy as np
import pytest

from vidcap_jax.features import extractors, weights

REASON = 'the extra "torch" is not installed'
torch = pytest.importorskip('torch', reason=REASON)
transformers = pytest.importorskip('transformers', reason=REASON)

from vidcap_jax.features.backbones import transformers_models  # noqa: E402

MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
SMALL = {
  'hidden_size': 16,
  'intermediate_size': 24,
  'num_hidden_layers': 2,
  'num_attention_heads': 2,
  'image_size': 32,
  'patch_size': 8,
}
TEXT = {**SMALL, 'vocab_size': 50, 'max_position_embeddings': 8}
VIDEO = {**SMALL, 'num_frames': 4}


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path))
  return tmp_path / 'transformers' / 'someone' / 'small'


def save(model, folder, size=None):
  model.eval().save_pretrained(folder)
  inputs = {'image_mean': MEAN, 'image_std': STD, 'size': size or {'shortest_edge': 40}}
  (folder / 'preprocessor_config.json').write_text(json.dumps(inputs))
  return model


def small(kind: str):
  torch.manual_seed(0)
  if kind == 'clip':
    vision, text = transformers.CLIPVisionConfig(**SMALL), transformers.CLIPTextConfig(**TEXT)
    both = transformers.CLIPConfig(
      text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=10
    )
    return transformers.CLIPModel(both)
  if kind == 'videomae':
    return transformers.VideoMAEModel(transformers.VideoMAEConfig(**VIDEO, tubelet_size=2))
  if kind == 'vivit':
    places = {k: v for k, v in VIDEO.items() if k != 'patch_size'}
    return transformers.VivitModel(transformers.VivitConfig(**places, tubelet_size=[2, 8, 8]))
  return transformers.TimesformerModel(transformers.TimesformerConfig(**VIDEO))


def normalised(frames: np.ndarray):
  x = (torch.from_numpy(frames) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
  return x.movedim(-1, -3).float()


def test_clip(folder):
  model = save(small('clip'), folder)
  extractor, network = transformers_models.family('someone/small')
  assert (extractor.kind, extractor.shape) == ('sequence', (None, 10))
  assert (network.reads, network.size, network.scale) == ('frames', 32, 40)
  grid, _ = transformers_models.family('someone/small/grid')
  assert (grid.kind, grid.shape) == ('grid', (None, 4, 4, 16))

  frames = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
  found = network.load(*network.weights())(frames, ('pooled', 'grid'))
  with torch.inference_mode():
    seen = model.vision_model(pixel_values=normalised(frames))
    pooled = model.visual_projection(seen.pooler_output)
  np.testing.assert_allclose(found['pooled'], pooled, rtol=1e-4, atol=1e-5)
  tokens = seen.last_hidden_state[:, 1:]
  np.testing.assert_allclose(found['grid'].reshape(2, 16, 16), tokens, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('kind', ['videomae', 'timesformer', 'vivit'])
def test_video_networks(folder, kind):
  model = save(small(kind), folder)
  extractor, network = transformers_models.family('someone/small')
  assert (extractor.kind, extractor.shape) == ('sequence', (None, 16))
  assert (network.reads, network.size, network.window) == ('windows', 32, 4)
  assert extractor.sampling == {'fps': 8.0, 'window': 4, 'stride': 4}

  windows = np.random.default_rng(0).integers(0, 256, (2, 4, 32, 32, 3), dtype=np.uint8)
  found = network.load(*network.weights())(windows, ('pooled',))['pooled']
  with torch.inference_mode():
    tokens = model(pixel_values=normalised(windows)).last_hidden_state
  answer = tokens.mean(1) if kind == 'videomae' else tokens[:, 0]
  np.testing.assert_allclose(found, answer, rtol=1e-4, atol=1e-5)
  if kind == 'videomae':
    grid, _ = transformers_models.family('someone/small/grid')
    assert (grid.kind, grid.shape) == ('grid', (None, 4, 4, 16))
    steps = grid.finish(network.load(*network.weights())(windows, ('grid',))['grid'])
    np.testing.assert_allclose(steps.reshape(tokens.shape), tokens, rtol=1e-4, atol=1e-5)
  else:
    with pytest.raises(extractors.ExtractorError, match="no output 'grid'"):
      transformers_models.family('someone/small/grid')


def test_description_has_the_hashes_of_the_files(folder):
  save(small('videomae'), folder)
  version = extractors.describe('transformers/someone/small')['version']
  names = ('config.json', 'preprocessor_config.json', 'model.safetensors')
  digests = '+'.join(weights.digest(folder / name) for name in names)
  assert version == f'transformers-1/videomae/{digests}{extractors.EXACT_CLOCK}'


def test_missing_files_say_what_to_fetch(folder):
  with pytest.raises(weights.WeightsError) as error:
    extractors.describe('transformers/someone/small')
  assert f'no config.json in {folder}' in str(error.value)
  assert 'https://huggingface.co/someone/small' in str(error.value)
  save(small('videomae'), folder)
  (folder / 'model.safetensors').unlink()
  with pytest.raises(weights.WeightsError, match=r'no model\.safetensors or pytorch_model\.bin'):
    extractors.describe('transformers/someone/small')


def test_other_files_are_named(folder):
  save(small('videomae'), folder)
  (folder / 'model.safetensors').write_bytes(b'\x00')
  _, network = transformers_models.family('someone/small')
  with pytest.raises(weights.WeightsError, match=r'model\.safetensors'):
    network.load(*network.weights())

  from safetensors.torch import save_file

  save_file({'weight': torch.zeros(2)}, folder / 'model.safetensors', {'format': 'pt'})
  with pytest.raises(weights.WeightsError, match='missing '):
    network.load(*network.weights())
  (folder / 'config.json').write_text(json.dumps({'model_type': 'bert'}))
  transformers_models._extractor_and_network.cache_clear()
  with pytest.raises(extractors.ExtractorError, match=r"model_type 'bert'; known: clip"):
    transformers_models.family('someone/small')
