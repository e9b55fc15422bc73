"""The sentence encoder: files, word pieces and embeddings."""

import json
import pathlib
import struct

import numpy as np
import pytest

from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation.sentence_encoder import SentenceEncoder, read_safetensors, split_words

PIECES = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'a', 'dog', 'run', '##ning', '##s', 'is', "'", ',']
CONFIG = {
  'model_type': 'bert',
  'hidden_act': 'gelu',
  'hidden_size': 8,
  'num_attention_heads': 2,
  'num_hidden_layers': 4,
  'layer_norm_eps': 1e-12,
}


def tiny_weights() -> dict[str, np.ndarray]:
  """A BERT of random weights: 4 layers of width 8."""
  rng = np.random.default_rng(0)
  shapes = {
    'embeddings.word_embeddings.weight': (len(PIECES), 8),
    'embeddings.position_embeddings.weight': (128, 8),
    'embeddings.token_type_embeddings.weight': (2, 8),
  }
  norms = ['embeddings.LayerNorm']
  for n in range(CONFIG['num_hidden_layers']):
    layer = f'encoder.layer.{n}'
    denses = {f'attention.self.{name}': (8, 8) for name in ('query', 'key', 'value')}
    denses |= {'attention.output.dense': (8, 8), 'intermediate.dense': (16, 8)}
    denses |= {'output.dense': (8, 16)}
    for name, shape in denses.items():
      shapes |= {f'{layer}.{name}.weight': shape, f'{layer}.{name}.bias': shape[:1]}
    norms += [f'{layer}.attention.output.LayerNorm', f'{layer}.output.LayerNorm']
  shapes |= {f'{norm}.{part}': (8,) for norm in norms for part in ('weight', 'bias')}
  return {f'bert.{name}': rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def safetensors(arrays: dict[str, np.ndarray], dtype: str = 'F32') -> bytes:
  header, data = {'__metadata__': {'format': 'pt'}}, b''
  for name, array in arrays.items():
    start, data = len(data), data + array.tobytes()
    offsets = [start, len(data)]
    header[name] = {'dtype': dtype, 'shape': array.shape, 'data_offsets': offsets}
  text = json.dumps(header).encode()
  return struct.pack('<Q', len(text)) + text + data


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> pathlib.Path:
  path = tmp_path_factory.mktemp('encoder')
  (path / 'config.json').write_text(json.dumps(CONFIG))
  vocabulary = {piece: i for i, piece in enumerate(PIECES)}
  tokenizer = {'model': {'type': 'WordPiece', 'vocab': vocabulary}}
  (path / 'tokenizer.json').write_text(json.dumps(tokenizer))
  (path / 'model.safetensors').write_bytes(safetensors(tiny_weights()))
  return path


@pytest.fixture(scope='module')
def encoder(folder) -> SentenceEncoder:
  return SentenceEncoder(str(folder))


def test_words_are_split_as_by_bert():
  assert split_words("Café: it's 3/4, ol\u00e9\u00ad!") == (
    ['cafe', ':', 'it', "'", 's', '3', '/', '4', ',', 'ole', '!']
  )
  assert split_words('日本 dog\u200b\t') == ['日', '本', 'dog']
  assert split_words('') == []


def test_pieces_are_the_longest_of_the_vocabulary(encoder):
  pieces = [PIECES[token] for token in encoder.tokens("A dog's running cat, dogs")]
  assert pieces == (
    ['[CLS]', 'a', 'dog', "'", '[UNK]', 'run', '##ning', '[UNK]', ',', 'dog', '##s', '[SEP]']
  )
  assert len(encoder.tokens('a ' * 300)) == 128


def test_a_word_of_more_than_100_characters_is_unknown(encoder):
  for word in ('a' + 'ning' * 25, 'run' + 'ning' * 50_000):  # as in transformers
    assert [PIECES[token] for token in encoder.tokens(word)] == ['[CLS]', '[UNK]', '[SEP]']
  assert [PIECES[token] for token in encoder.tokens('a' + 'ning' * 24)][1:3] == ['a', '##ning']


def test_embeddings_have_length_1_and_do_not_depend_on_the_batch(encoder):
  sentences = ['a dog is running', 'dogs run', '', 'a ' * 40, 'a dog, a dog']
  embeddings = encoder(sentences)
  np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=1e-5)
  for sentence, embedding in zip(sentences, embeddings, strict=True):
    np.testing.assert_allclose(encoder([sentence])[0], embedding, atol=1e-6)
  first, second = encoder(['dog run', 'run dog'])
  assert np.abs(first - second).max() > 1e-4  # places matter


def test_token_embeddings_are_those_of_the_pieces(encoder):
  sentences = ['a dog is running', '', 'a ' * 40, 'dogs']
  found = encoder.token_embeddings(sentences)
  assert [vectors.shape for vectors in found] == [(5, 8), (0, 8), (40, 8), (2, 8)]
  np.testing.assert_allclose(np.linalg.norm(found[0], axis=1), 1, rtol=1e-5)
  np.testing.assert_allclose(encoder.token_embeddings(['dogs'])[0], found[3], atol=1e-6)
  other = encoder.token_embeddings(['dogs run'])[0][:2]
  assert np.abs(other - found[3]).max() > 1e-3  # the context matters


def test_equals_transformers(folder, encoder, tmp_path):
  transformers = pytest.importorskip('transformers')
  torch = pytest.importorskip('torch')
  config = transformers.BertConfig(
    **CONFIG, vocab_size=len(PIECES), intermediate_size=16, max_position_embeddings=128
  )
  model = transformers.BertModel(config, add_pooling_layer=False).eval()
  weights = {n.removeprefix('bert.'): torch.tensor(w) for n, w in tiny_weights().items()}
  model.load_state_dict(weights, strict=False)
  tokens = torch.tensor([encoder.tokens('a dog is running')])
  with torch.no_grad():
    outputs = model(tokens, output_hidden_states=True)
  pieces = outputs.hidden_states[3][0, 1:-1].numpy()  # the first are the embeddings
  pieces /= np.linalg.norm(pieces, axis=1, keepdims=True)
  assert encoder.token_layer == 3
  np.testing.assert_allclose(encoder.token_embeddings(['a dog is running'])[0], pieces, atol=1e-5)
  pooled = outputs.last_hidden_state.mean(1)[0].numpy()
  expected = pooled / np.linalg.norm(pooled)
  np.testing.assert_allclose(encoder(['a dog is running'])[0], expected, atol=1e-5)


def test_what_is_missing_or_of_another_kind_is_named(folder, tmp_path, monkeypatch):
  with pytest.raises(ConfigError, match=r'config\.json'):
    SentenceEncoder(str(tmp_path))
  (tmp_path / 'config.json').write_text(json.dumps({**CONFIG, 'model_type': 'mpnet'}))
  with pytest.raises(DataError, match='mpnet'):
    SentenceEncoder(str(tmp_path))
  monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
  with pytest.raises(ConfigError, match=r'vidcap_jax\[embedding-metrics\].*--embedding_model'):
    SentenceEncoder()


def test_weights_of_other_types_are_refused():
  arrays = {'bert.x': np.ones(3, np.float16)}
  assert read_safetensors(safetensors(arrays, 'F16'))['x'].dtype == np.float32
  with pytest.raises(DataError, match='bert.x is F8'):
    read_safetensors(safetensors(arrays, 'F8'))


def test_other_weights_have_another_hash(folder, tmp_path):
  for file in folder.rglob('*'):
    if file.is_file():
      copy = tmp_path / file.relative_to(folder)
      copy.parent.mkdir(exist_ok=True)
      copy.write_bytes(file.read_bytes())
  first = SentenceEncoder(str(folder)).weights_hash
  assert SentenceEncoder(str(tmp_path)).weights_hash == first
  weights = {name: array + 1 for name, array in tiny_weights().items()}
  (tmp_path / 'model.safetensors').write_bytes(safetensors(weights))
  assert SentenceEncoder(str(tmp_path)).weights_hash != first
