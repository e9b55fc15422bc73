"""Initial word embeddings from a word2vec file, text or binary, compressed with gzip or not.

Both formats begin with a line ``COUNT SIZE``. A text file has a line for each word: the word and
SIZE numbers. A binary file has for each word its UTF-8 bytes, a space and SIZE little-endian
float32s, perhaps with line breaks between words.
"""

import functools
import gzip
import pathlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO

import jax
import numpy as np

from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import DataError

LONGEST_WORD = 4096  # bytes; more without a space is no word2vec file


def read(path: str | pathlib.Path, words: Collection[str]) -> tuple[int, dict[str, np.ndarray]]:
  """The vectors of some words: their size D by the file's first line, and word -> float32 (D,).

  The file is read once. Only the vectors of ``words`` are kept, the first one of a repeated word.

  Raises:
    DataError: no such file, not a word2vec file, or a truncated one; names the file and the word.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise DataError(f'{path}: no such file of word vectors')
  vectors: dict[str, np.ndarray] = {}
  with _open(path) as file:
    count, size = _first_line(path, file)
    records = _text if _is_text(path, size) else _binary
    for word, vector in records(path, file, count, size):
      if word in words and word not in vectors:
        vectors[word] = vector()
  return size, vectors


Records = Iterator[tuple[str, Callable[[], np.ndarray]]]


def _open(path: pathlib.Path) -> Any:
  return gzip.open(path, 'rb') if path.suffix == '.gz' else path.open('rb')


def _first_line(path: pathlib.Path, file: BinaryIO) -> tuple[int, int]:
  """How many words there are, and how many numbers each."""
  try:
    count, size = (int(n) for n in file.readline(LONGEST_WORD).split())
  except (ValueError, OSError):  # OSError: the file is not compressed, whatever its name
    raise DataError(
      f'{path}: no word2vec file: its first line must be two whole numbers, how many words there '
      'are and how many numbers each has'
    ) from None
  return count, size


def _is_text(path: pathlib.Path, size: int) -> bool:
  """Whether the second line is a word and numbers."""
  with _open(path) as file:
    file.readline()
    numbers = file.readline(1 << 20).split()[1:]
  try:
    return len(numbers) == size and all(np.isfinite(float(n)) for n in numbers)
  except ValueError:
    return False


def _text(path: pathlib.Path, file: BinaryIO, count: int, size: int) -> Records:
  """Words, and functions that give their vectors."""
  for n in range(count):
    line = file.readline().split()
    if len(line) != size + 1:
      raise _broken(path, n, count, f'{len(line) - 1} numbers, not {size}')
    yield line[0].decode('utf-8', 'replace'), functools.partial(np.array, line[1:], np.float32)


def _binary(path: pathlib.Path, file: BinaryIO, count: int, size: int) -> Records:
  """The same, from the binary format."""
  buffer, at, width = b'', 0, 4 * size
  for n in range(count):
    end = buffer.find(b' ', at, at + LONGEST_WORD)
    if end < 0 or len(buffer) < end + 1 + width:
      buffer, at = buffer[at:] + file.read(1 << 20), 0
      end = buffer.find(b' ', 0, LONGEST_WORD)
    start, stop = end + 1, end + 1 + width
    if end < 0 or len(buffer) < stop:
      raise _broken(path, n, count, 'no word and vector')
    word = buffer[at:end].lstrip(b'\n').decode('utf-8', 'replace')
    yield word, functools.partial(np.frombuffer, buffer[start:stop], '<f4')
    at = stop


def _broken(path: pathlib.Path, n: int, count: int, found: str) -> DataError:
  return DataError(f'{path}: word {n + 1} of {count}: {found}; the file is damaged or truncated')


def replace_rows(params: Any, path: str, vocabulary: Vocabulary, log: Callable[[str], None]) -> Any:
  """Initial parameters with the rows of ``words/embedding`` replaced by a file's vectors.

  Special words, and words that the file lacks, keep their random vectors. Logs how many words were
  found and the first ones that were not.

  Args:
    params: of any captioner; its leaves may be sharded.
    path: of the file.
    vocabulary: of the rows.
    log: gets a line.

  Raises:
    DataError: the file can't be read, its vectors are of another size than the embedding or none
      of the vocabulary's words is in it.
  """
  words = [word for word in vocabulary.words if word not in SPECIAL]
  table = params['words']['embedding']
  size, vectors = read(path, frozenset(words))
  if size != table.shape[1]:
    raise DataError(
      f'config.train.word_vectors: {path} has vectors of {size} numbers, the model embeds words in '
      f'{table.shape[1]}; set config.model.embed={size} or use another file'
    )
  if not vectors:
    raise DataError(
      f'config.train.word_vectors: none of the {len(words)} words of the vocabulary is in {path}'
    )
  value = np.array(mesh.to_host(table))
  for word, vector in vectors.items():
    value[vocabulary.index[word]] = vector
  missing = [word for word in words if word not in vectors]
  log(
    f'word vectors from {path}: {len(vectors)} of {len(words)} words found'
    + (f'; not among them: {", ".join(missing[:10])}' if missing else '')
    + (', …' if len(missing) > 10 else '')
  )
  replaced = {**params['words'], 'embedding': jax.device_put(value, table.sharding)}
  return {**params, 'words': replaced}
