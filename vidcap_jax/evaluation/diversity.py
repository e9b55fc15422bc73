"""How varied captions are, and how many of them are not among the training captions."""

import base64
import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from vidcap_jax.data.vocabulary import Vocabulary, tokenize


def describe(captions: Sequence[str], vocabulary: Vocabulary, trained: str | None) -> dict:
  """Figures of a split's captions, one a video; no reference is needed.

  Args:
    trained: ``remember`` of the training captions; None where it is not known.

  Returns:
    distinct_captions; mean_words; vocabulary_used, the number of different words; and, if
    ``trained`` is given, novel_captions, the share that is no training caption word for word.
  """
  words = [caption.split() for caption in captions]
  figures = {
    'distinct_captions': len(set(captions)),
    'mean_words': sum(map(len, words)) / max(1, len(words)),
    'vocabulary_used': len({word for caption in words for word in caption}),
  }
  if trained is not None and captions:
    seen = np.frombuffer(base64.b64decode(trained), '<u8')
    figures['novel_captions'] = float((~np.isin(_hashes(captions, vocabulary), seen)).mean())
  return figures


def remember(captions: Iterable[str], vocabulary: Vocabulary, length: int) -> str:
  """The different captions of a training split, to be recognised but not read: 11 bytes each.

  Args:
    length: L; a caption counts as it was trained on, its first L - 1 words.

  Returns:
    Base64 of their 64-bit hashes, ascending.
  """
  hashes = np.unique(_hashes(captions, vocabulary, length - 1))
  return base64.b64encode(hashes.tobytes()).decode()


def _hashes(
  captions: Iterable[str], vocabulary: Vocabulary, most_words: int | None = None
) -> np.ndarray:
  """(captions,) of their words, as the vocabulary splits them."""
  texts = (' '.join(tokenize(c, vocabulary.tokenizer)[:most_words]) for c in captions)
  digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
  return np.frombuffer(b''.join(digests), '<u8')
