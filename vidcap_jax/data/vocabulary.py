"""Builds vocabularies, and encodes and decodes captions with them.

vocabulary = build_vocabulary(['a man sings', 'a dog runs'], min_count=1, max_words=20)
tokens = vocabulary.encode('A man runs.', 6)   # int32 (6,): a man runs <EOS> <PAD> <PAD>
vocabulary.decode(tokens)                      # 'a man runs'
"""

import collections
import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from vidcap_jax.data.schema import MANIFEST_NAME
from vidcap_jax.data.tokenizers import TOKENIZERS_BEFORE_NFC, tokenize
from vidcap_jax.errors import DataError

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ('<PAD>', '<BOS>', '<EOS>', '<UNK>')


@dataclasses.dataclass(frozen=True)
class Vocabulary:
  """The words that a model knows, and how captions become token ids.

  Attributes:
    words: all words; the first four are ``SPECIAL``, at PAD, BOS, EOS and UNK.
    tokenizer: a key of ``tokenizers.TOKENIZERS``.
    min_count: fewest occurrences of a word in the training captions.
    max_words: longest caption in words, ``<EOS>`` not counted: L = max_words + 1.
    normalized: whether text is normalized (``tokenizers.normalize``) before it is split into
      words; not so for vocabularies with words outside ASCII of earlier versions.
    leaked_from: splits besides the training split whose words were counted.
  """

  words: tuple[str, ...]
  tokenizer: str = 'ptb_like'
  min_count: int = 1
  max_words: int = 20
  normalized: bool = True
  leaked_from: tuple[str, ...] = ()

  def __post_init__(self):
    if tuple(self.words[:4]) != SPECIAL:
      raise DataError(f'a vocabulary begins with {SPECIAL}, this one with {self.words[:4]}')
    if len(set(self.words)) != len(self.words):
      twice = [w for w, n in collections.Counter(self.words).items() if n > 1]
      raise DataError(f'the vocabulary has duplicate words: {", ".join(twice[:5])}')
    if self.max_words < 1:
      raise DataError(f'max_words is {self.max_words}; a caption needs at least one word')
    tokenize('', self.tokenizer)  # raises DataError for an unknown tokeniser

  def __len__(self) -> int:
    return len(self.words)

  def tokenize(self, text: str) -> list[str]:
    """Splits text into words as the captions were that the vocabulary was made from."""
    if self.normalized:
      return tokenize(text, self.tokenizer)
    return TOKENIZERS_BEFORE_NFC[self.tokenizer](text)

  @property
  def by_character(self) -> bool:
    """Whether Chinese text is split into characters, which the metrics have to do too."""
    return self.tokenizer == 'by_character'

  @property
  def leak_note(self) -> str:
    """A warning that words of other splits than the training split were counted, if so."""
    if not self.leaked_from:
      return ''
    return (
      f'the vocabulary leaks: the words of {" and ".join(self.leaked_from)} were counted together '
      'with those of train'
    )

  @functools.cached_property
  def index(self) -> Mapping[str, int]:
    """Word -> id."""
    return {word: i for i, word in enumerate(self.words)}

  @functools.cached_property
  def hash(self) -> str:
    """Equal for vocabularies that encode every text to the same ids (apart from max_words)."""
    text = json.dumps([self.tokenizer, *self.words])
    return hashlib.sha256(text.encode()).hexdigest()[:16]

  def encode(self, caption: str, length: int | None = None) -> np.ndarray:
    """Token ids of a caption: its first ``length - 1`` words, ``<EOS>``, then ``<PAD>``.

    Args:
      caption: raw text.
      length: L of the result; ``max_words + 1`` by default. Truncated captions end in ``<EOS>``
        too, so that models learn to end captions.

    Returns:
      int32 (length,).
    """
    length = self.max_words + 1 if length is None else length
    if length < 1:
      raise ValueError(f'length is {length}; a caption needs room for <EOS>')
    tokens = np.full(length, PAD, np.int32)
    words = self.tokenize(caption)[: length - 1]
    # The text '<EOS>' in a caption must not become that token: it is encoded as <UNK>.
    ids = [self.index.get(word, UNK) for word in words]
    tokens[: len(words)] = [i if i > UNK else UNK for i in ids]
    tokens[len(words)] = EOS
    return tokens

  def decode(self, tokens) -> str:
    """The text of token ids (L,), up to the first ``<EOS>`` or ``<PAD>`` and without ``<BOS>``."""
    words = []
    for token in np.asarray(tokens).tolist():
      if token in (PAD, EOS):
        break
      if token != BOS:
        words.append(self.words[token])
    return ' '.join(words)

  def to_dict(self) -> dict:
    """JSON-ready; the hash is included and checked by ``from_dict``."""
    data = {
      'words': list(self.words),
      'tokenizer': self.tokenizer,
      'min_count': self.min_count,
      'max_words': self.max_words,
      'hash': self.hash,
    }
    # Words in ASCII are the same in every normal form: the entry would only change their files.
    if self.normalized and not _all_ascii(self.words):
      data['normal_form'] = 'NFC'
    if self.leaked_from:
      data['leaked_from'] = list(self.leaked_from)
    return data

  @classmethod
  def from_dict(cls, data: Mapping) -> 'Vocabulary':
    """The inverse of ``to_dict``.

    Raises:
      DataError: a key is missing, or the words do not have the stored hash.
    """
    missing = [k for k in ('words', 'tokenizer', 'min_count', 'max_words') if k not in data]
    if missing:
      raise DataError(f'not a vocabulary: {", ".join(missing)} missing')
    words = tuple(data['words'])
    vocabulary = cls(
      words,
      data['tokenizer'],
      int(data['min_count']),
      int(data['max_words']),
      normalized='normal_form' in data or _all_ascii(words),
      leaked_from=tuple(data.get('leaked_from', ())),
    )
    if 'hash' in data and data['hash'] != vocabulary.hash:
      raise DataError(
        f'vocabulary was changed by hand: its words have hash {vocabulary.hash}, '
        f'the stored one is {data["hash"]}; remove the entry "hash" if this is intended'
      )
    return vocabulary


def _all_ascii(words: Iterable[str]) -> bool:
  return all(word.isascii() for word in words)


def build_vocabulary(
  captions: Iterable[str],
  min_count: int = 3,
  max_words: int = 20,
  tokenizer: str = 'ptb_like',
  leaked_from: Sequence[str] = (),
) -> Vocabulary:
  """The vocabulary of a training split.

  Only the first ``max_words`` words of a caption are counted, as models are trained on no others.

  Args:
    captions: raw captions of the training split, and of the splits in ``leaked_from``.
    min_count: fewest occurrences of a word; rarer words become ``<UNK>``.
    max_words: longest caption in words; 0: no caption is cut, the limit is the longest one.
    tokenizer: a key of ``tokenizers.TOKENIZERS``.
    leaked_from: other splits whose captions are among these.
  """
  counts, longest = count_words(captions, max_words, tokenizer)
  words = frequent_words(counts, min_count)
  limit = max_words or max(1, longest)
  return Vocabulary((*SPECIAL, *words), tokenizer, min_count, limit, leaked_from=tuple(leaked_from))


def count_words(
  captions: Iterable[str], max_words: int = 0, tokenizer: str = 'ptb_like'
) -> tuple[collections.Counter[str], int]:
  """How often each word occurs, and the number of words of the longest caption.

  Args:
    captions: raw text.
    max_words: captions are cut after this many words; 0: they are not cut.
    tokenizer: a key of ``tokenizers.TOKENIZERS``.
  """
  counts: collections.Counter[str] = collections.Counter()
  longest = 0
  for caption in captions:
    words = tokenize(caption, tokenizer)[: max_words or None]
    counts.update(words)
    longest = max(longest, len(words))
  return counts, longest


def frequent_words(counts: Mapping[str, int], min_count: int) -> list[str]:
  """The words that occur ``min_count`` times or more, without ``SPECIAL``.

  They are ordered by falling count, then alphabetically, so the same captions give the same ids.
  """
  ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
  return [word for word, count in ordered if count >= min_count and word not in SPECIAL]


def coverage(vocabulary: Vocabulary, captions: Iterable[str]) -> tuple[int, int]:
  """Counts (known words, all words) of the captions, each truncated to ``max_words``."""
  known = total = 0
  for caption in captions:
    words = vocabulary.tokenize(caption)[: vocabulary.max_words]
    total += len(words)
    known += sum(vocabulary.index.get(word, UNK) > UNK for word in words)
  return known, total


def load_vocabulary(path) -> Vocabulary:
  """Reads a vocabulary from a data set folder, its manifest, or a JSON file of ``to_dict``.

  Raises:
    DataError: no such file, not JSON, or a data set without a vocabulary.
  """
  path = pathlib.Path(path)
  if path.is_dir():
    path = path / MANIFEST_NAME
  if not path.is_file():
    raise DataError(f'{path}: no such file; give a vocabulary file or a data set folder')
  try:
    data = json.loads(path.read_text())
  except ValueError as error:
    raise DataError(f'{path}: not a JSON file: {error}') from None
  if isinstance(data, Mapping) and 'vocabulary' in data:
    data = data['vocabulary']
    if data is None:
      raise DataError(f'{path}: this data set has no vocabulary')
  if not isinstance(data, Mapping):
    raise DataError(f'{path}: a vocabulary is a JSON object with words, tokenizer, …')
  try:
    return Vocabulary.from_dict(data)
  except DataError as error:
    raise DataError(f'{path}: {error}') from None
