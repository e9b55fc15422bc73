import gzip

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary
from vidcap_jax.errors import DataError
from vidcap_jax.training import word_vectors

WORDS = ('a', 'dog', 'café', 'New_York', '</s>', 'runs')
SIZE = 3
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), SIZE)).astype(np.float32)
# Bytes that read as a line break and a space must not end a vector or word.
VECTORS[1] = np.frombuffer(b'\n \n \n\n  \n\n\n\n', np.float32)


def text(words=WORDS, vectors=VECTORS):
  rows = [f'{w} {" ".join(repr(float(x)) for x in v)} \n' for w, v in zip(words, vectors)]
  return f'{len(words)} {vectors.shape[1]}\n{"".join(rows)}'.encode()


def binary(words=WORDS, vectors=VECTORS, end=b'\n'):
  rows = [w.encode() + b' ' + v.astype('<f4').tobytes() + end for w, v in zip(words, vectors)]
  return f'{len(words)} {vectors.shape[1]}\n'.encode() + b''.join(rows)


FILES = {
  'words.txt': text(),
  'words.bin': binary(),
  'unbroken.bin': binary(end=b''),
  'words.bin.gz': gzip.compress(binary()),
  'words.txt.gz': gzip.compress(text()),
}


@pytest.mark.parametrize('name', FILES)
def test_every_format_gives_the_same(tmp_path, name):
  (tmp_path / name).write_bytes(FILES[name])
  size, vectors = word_vectors.read(tmp_path / name, {*WORDS, 'cat'})
  assert size == SIZE
  assert set(vectors) == set(WORDS)
  for word, vector in zip(WORDS, VECTORS):
    assert vectors[word].dtype == np.float32
    np.testing.assert_array_equal(vectors[word], vector)
  assert set(word_vectors.read(tmp_path / name, {'dog', 'cat'})[1]) == {'dog'}


def test_a_file_longer_than_the_buffer(tmp_path):
  """Words and vectors that straddle what is read at once."""
  words = [f'word{n}' for n in range(3000)]
  vectors = np.random.default_rng(1).normal(size=(3000, 300)).astype(np.float32)  # 3.6 MB
  path = tmp_path / 'many.bin'
  path.write_bytes(binary(words, vectors))
  found = word_vectors.read(path, set(words))[1]
  np.testing.assert_array_equal(np.stack([found[word] for word in words]), vectors)


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'', 'no word2vec file'),
    (b'the 0.1 0.2 0.3\n', 'no word2vec file'),
    (binary()[:-9], r'word 6 of 6'),
    (text().replace(b'New_York ', b'New York '), r'word 4 of 6: 4 numbers, not 3'),
    (text()[: text().rindex(b'runs')], r'word 6 of 6'),
  ],
)
def test_files_that_are_broken(tmp_path, content, message):
  path = tmp_path / 'words'
  path.write_bytes(content)
  with pytest.raises(DataError, match=message) as error:
    word_vectors.read(path, set(WORDS))
  assert str(path) in str(error.value)


def test_files_that_are_not_there_or_not_packed(tmp_path):
  with pytest.raises(DataError, match='no such file'):
    word_vectors.read(tmp_path / 'words', set())
  (tmp_path / 'words.gz').write_bytes(text())
  with pytest.raises(DataError, match='no word2vec file'):
    word_vectors.read(tmp_path / 'words.gz', set())


def put_in(path, size=SIZE, words=('a', 'cat', 'runs', 'dog')):
  table = jnp.full((4 + len(words), size), 0.5)
  params = {'words': {'embedding': table}, 'output': {'bias': jnp.zeros(2)}}
  lines = []
  out = word_vectors.replace_rows(params, str(path), Vocabulary((*SPECIAL, *words)), lines.append)
  assert jax.tree.structure(out) == jax.tree.structure(params)
  assert out['output'] is params['output']
  assert out['words']['embedding'].sharding == table.sharding
  return np.asarray(out['words']['embedding']), lines


def test_rows_of_the_embedding(tmp_path):
  path = tmp_path / 'words.bin'
  path.write_bytes(binary())
  table, lines = put_in(path)
  np.testing.assert_array_equal(table[[0, 1, 2, 3, 5]], 0.5)  # special words and the cat
  np.testing.assert_array_equal(table[[4, 6, 7]], VECTORS[[0, 5, 1]])
  assert lines == [f'word vectors from {path}: 3 of 4 words found; not among them: cat']
  _, lines = put_in(path, words=('dog', *(f'x{n}' for n in range(12))))
  assert lines[0].endswith('1 of 13 words found; not among them: ' + ', '.join(
    f'x{n}' for n in range(10)) + ', …')  # fmt: skip


def test_vectors_that_do_not_fit(tmp_path):
  path = tmp_path / 'words.bin'
  path.write_bytes(binary())
  with pytest.raises(DataError, match=r'vectors of 3 numbers, the model embeds words in 5'):
    put_in(path, size=5)
  with pytest.raises(DataError, match='none of the 1 words'):
    put_in(path, words=('cat',))
