"""How varied captions are, and how many of them are not among the training captions."""

import base64
import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from vidcap_jax.data.vocabulary import Vocabulary


def describe(captions: Sequence[str], vocabulary: Vocabulary, trained: str | None) -> dict:
  """Statistics of a split's captions, which need no references.

  Args:
    captions: one per video.
    vocabulary: splits the captions into words.
    trained: ``hash_captions`` of the training captions; None if unknown.

  Returns:
    distinct_captions; mean_words; vocabulary_used, the number of different words; and, if
    ``trained`` is given, novel_captions, the share that equals no training caption.
  """
  words = [caption.split() for caption in captions]
  statistics = {
    'distinct_captions': len(set(captions)),
    'mean_words': sum(map(len, words)) / max(1, len(words)),
    'vocabulary_used': len({word for caption in words for word in caption}),
  }
  if trained is not None and captions:
    known = np.frombuffer(base64.b64decode(trained), '<u8')
    statistics['novel_captions'] = float((~np.isin(_hashes(captions, vocabulary), known)).mean())
  return statistics


def hash_captions(captions: Iterable[str], vocabulary: Vocabulary, length: int) -> str:
  """Hashes of the different captions of a training split, 11 bytes each.

  Args:
    captions: of the split.
    vocabulary: splits the captions into words.
    length: L; the first L - 1 words of a caption are hashed, as training sees no others.

  Returns:
    Base64 of the sorted 64-bit hashes.
  """
  hashes = np.unique(_hashes(captions, vocabulary, length - 1))
  return base64.b64encode(hashes.tobytes()).decode()


def _hashes(
  captions: Iterable[str], vocabulary: Vocabulary, most_words: int | None = None
) -> np.ndarray:
  """(captions,) 64-bit hashes of the captions' words."""
  texts = (' '.join(vocabulary.tokenize(c)[:most_words]) for c in captions)
  digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
  return np.frombuffer(b''.join(digests), '<u8')
