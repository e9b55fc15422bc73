"""CLIP's encoders of pictures and of texts, from a local folder of transformers' CLIPModel."""

import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from vidcap_jax.features import weights
from vidcap_jax.features.backbones import torch_runtime, transformers_models

_TOKENIZER = 'tokenizer.json'
_FILES = (
  *((transformers_models.SETTINGS,), transformers_models.INPUTS, transformers_models.STATES),
  *((_TOKENIZER, 'vocab.json'), (_TOKENIZER, 'merges.txt')),
)
_TEXTS = 64  # encoded at once


class Clip:
  """Embeds pictures and texts in one space, as vectors of length 1.

  Args:
    folder: with config.json, preprocessor_config.json, model.safetensors (or pytorch_model.bin) and
      tokenizer.json (or vocab.json and merges.txt); nothing is downloaded.

  Attributes:
    size: rows and columns of the pictures.
    scale: length of a frame's shorter side before its central square is cut out.
    digest: the first digits of a hash of the file of the weights.

  Raises:
    weights.WeightsError: a file is missing, or is not that of a CLIPModel.
    ModuleNotFoundError: the extra ``torch`` is not installed.
  """

  def __init__(self, folder: str):
    transformers = torch_runtime.require('transformers')
    settings_file, inputs_file, weights_file, *_ = transformers_models.find_files(
      'CLIP model',
      pathlib.Path(folder),
      _FILES,
      "Put the files of a CLIPModel there, as transformers' save_pretrained writes them",
    )
    settings = transformers_models.read_settings(settings_file)
    if settings.model_type != 'clip':
      raise weights.WeightsError(
        f'{settings_file}: model_type is {settings.model_type!r}; a CLIPModel (clip) is needed'
      )
    inputs = transformers_models.read_inputs(inputs_file)
    self.size = settings.vision_config.image_size
    self.scale = transformers_models.shorter_side(inputs, self.size)
    self.digest = weights.digest(weights_file)
    self._mean_and_std = transformers_models.mean_and_std(inputs, inputs_file)
    model = transformers_models.load_model(
      transformers.CLIPModel, settings, weights_file, 'a CLIPModel'
    )
    self._model = torch_runtime.prepare(model.float())  # weights may be stored in float16
    try:
      tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # a damaged file raises almost anything
      reason = ' '.join(str(error).split())[:300]
      raise weights.WeightsError(f'{folder}: the tokenizer cannot be read ({reason})') from None
    length = settings.text_config.max_position_embeddings
    self._tokenize = functools.partial(
      tokenizer, padding=True, truncation=True, max_length=length, return_tensors='pt'
    )

  def embed_pictures(self, pictures: np.ndarray) -> np.ndarray:
    """Embeds uint8 pictures (N, size, size, 3): (N, D)."""
    with torch_runtime.require('torch').inference_mode():
      x = torch_runtime.pixels(pictures, *self._mean_and_std).movedim(-1, -3)
      pooled = self._model.vision_model(pixel_values=x).pooler_output
      return unit(torch_runtime.to_numpy(self._model.visual_projection(pooled)))

  def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
    """Embeds texts, which are cut to the model's length: (N, D)."""
    embeddings = []
    with torch_runtime.require('torch').inference_mode():
      for start in range(0, len(texts), _TEXTS):
        tokens = self._tokenize(list(texts[start : start + _TEXTS])).to(torch_runtime.device())
        pooled = self._model.text_model(
          input_ids=tokens['input_ids'], attention_mask=tokens['attention_mask']
        ).pooler_output
        embeddings.append(torch_runtime.to_numpy(self._model.text_projection(pooled)))
    return unit(np.concatenate(embeddings))


def unit(vectors: np.ndarray) -> np.ndarray:
  """The vectors (…, D) with length 1."""
  return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
