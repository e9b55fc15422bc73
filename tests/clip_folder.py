"""A small CLIP model of transformers with random weights, and its tokenizer of single letters."""

import json
import string

import numpy as np

MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
SIZE, LENGTH = 32, 24  # rows and columns of a picture; tokens of a text
START, END = '<|startoftext|>', '<|endoftext|>'
LETTERS = string.ascii_lowercase
VOCABULARY = {token: i for i, token in enumerate([*LETTERS, *(c + '</w>' for c in LETTERS)])}
VOCABULARY |= {START: len(VOCABULARY), END: len(VOCABULARY) + 1}


def write(folder):
  """Writes the model's files into a new folder; returns the model."""
  import torch
  import transformers

  torch.manual_seed(2)  # its cosines with noise are mostly above 0
  layers = {'hidden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 2}
  layers |= {'num_attention_heads': 2, 'initializer_factor': 20.0}
  ends = {'bos_token_id': VOCABULARY[START], 'eos_token_id': VOCABULARY[END]}
  text = {**layers, **ends, 'vocab_size': len(VOCABULARY), 'max_position_embeddings': LENGTH}
  vision = {**layers, 'image_size': SIZE, 'patch_size': 8}
  settings = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=10)
  model = transformers.CLIPModel(settings).eval()
  model.save_pretrained(folder)
  inputs = {'image_mean': MEAN, 'image_std': STD, 'size': {'shortest_edge': SIZE}}
  (folder / 'preprocessor_config.json').write_text(json.dumps(inputs))
  (folder / 'vocab.json').write_text(json.dumps(VOCABULARY))
  (folder / 'merges.txt').write_text('#version: 0.2\n')
  return model


def token_numbers(text: str) -> list[int]:
  """The numbers of a text's tokens, of words of letters, cut to the model's length."""
  tokens = [c for word in text.lower().split() for c in (*word[:-1], word[-1] + '</w>')]
  return [VOCABULARY[token] for token in (START, *tokens[: LENGTH - 2], END)]


def embeddings(model, pictures: np.ndarray, text: str) -> tuple[np.ndarray, np.ndarray]:
  """Those of pictures (N, SIZE, SIZE, 3) and of a text, of length 1, by the model's own forward."""
  import torch

  pixels = (pictures / 255 - np.array(MEAN)) / np.array(STD)
  with torch.inference_mode():
    result = model(
      input_ids=torch.tensor([token_numbers(text)]),
      pixel_values=torch.tensor(pixels.transpose(0, 3, 1, 2), dtype=torch.float32),
    )
  return result.image_embeds.numpy(), result.text_embeds[0].numpy()
