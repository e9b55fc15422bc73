"""CLIP's two encoders. Skipped without the extra "torch"."""

import json

import numpy as np
import pytest

from tests import clip_folder
from vidcap_jax.features import weights

REASON = 'the extra "torch" is not installed'
torch = pytest.importorskip('torch', reason=REASON)
pytest.importorskip('transformers', reason=REASON)

from vidcap_jax.features.backbones.transformers_clip import Clip  # noqa: E402


def test_embeddings_are_those_of_the_model(tmp_path):
  model = clip_folder.write(tmp_path)
  clip = Clip(str(tmp_path))
  assert (clip.size, clip.scale) == (clip_folder.SIZE, clip_folder.SIZE)
  assert clip.digest == weights.digest(tmp_path / 'model.safetensors')
  pictures = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
  texts = ['a dog', 'A photo depicts two dogs that are longer than the model', 'cats', *['b'] * 70]
  found = clip.embed_texts(texts)
  for text, embedding in zip(texts, found, strict=True):
    images, expected = clip_folder.embeddings(model, pictures, text)
    np.testing.assert_allclose(embedding, expected, atol=2e-6)
  np.testing.assert_allclose(clip.embed_pictures(pictures), images, atol=2e-6)
  assert np.ptp(images, axis=0).max() > 0.01  # pictures and texts differ
  assert np.ptp(found, axis=0).max() > 0.01


def test_weights_in_float16_are_computed_in_float32(tmp_path):
  clip_folder.write(tmp_path).half().save_pretrained(tmp_path)
  embeddings = Clip(str(tmp_path)).embed_texts(['a dog'])
  assert embeddings.dtype == np.float32
  np.testing.assert_allclose(np.linalg.norm(embeddings), 1, rtol=1e-6)


@pytest.mark.parametrize(
  'name', ['config.json', 'preprocessor_config.json', 'model.safetensors', 'merges.txt']
)
def test_missing_files_are_named(name, tmp_path):
  clip_folder.write(tmp_path)
  (tmp_path / name).unlink()
  with pytest.raises(weights.WeightsError, match=name.replace('.', r'\.')) as error:
    Clip(str(tmp_path))
  assert str(tmp_path) in str(error.value)


def test_other_files_are_named(tmp_path):
  clip_folder.write(tmp_path)
  (tmp_path / 'model.safetensors').write_bytes(b'\x00')
  with pytest.raises(weights.WeightsError, match=r'model\.safetensors'):
    Clip(str(tmp_path))
  clip_folder.write(tmp_path)
  (tmp_path / 'tokenizer.json').write_text('{')
  with pytest.raises(weights.WeightsError, match='tokenizer'):
    Clip(str(tmp_path))
  (tmp_path / 'config.json').write_text(json.dumps({'model_type': 'bert'}))
  with pytest.raises(weights.WeightsError, match=r"config\.json.*'bert'"):
    Clip(str(tmp_path))
