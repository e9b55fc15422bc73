"""Word classes of captions, by HanTa (the extra ``tagger``), whose English model is in its wheel.

Of the words of 42 captions that tests/vidcap_jax/studies/tagged_captions.py has tagged by hand,
98.8 % get their class. TextBlob's pattern tagger (tried) reaches 96.3 %; the taggers of NLTK and
spaCy need downloads.
"""

import functools
from collections.abc import Callable, Sequence

NOUN, VERB, ADJECTIVE, ADVERB = 'noun', 'verb', 'adjective', 'adverb'
AUXILIARY = 'auxiliary'  # forms of be, have and do, and modal verbs
OTHER = 'other'
CLASSES = (NOUN, VERB, ADJECTIVE, ADVERB, AUXILIARY, OTHER)

# Beginnings of the tags (C5, of the British National Corpus), the first that fits counts.
_TAGS = (
  *(('NN', NOUN), ('NP', NOUN), ('VV', VERB), ('V', AUXILIARY)),
  *(('AJ', ADJECTIVE), ('AV0', ADVERB)),
)


@functools.cache
def load_tagger() -> Callable[[Sequence[str]], list[str]]:
  """A function from the words of a caption to their classes, of ``CLASSES``.

  Raises:
    ModuleNotFoundError: HanTa is not installed; says how to install it.
  """
  try:
    from HanTa import HanoverTagger
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'HanTa is needed to find word classes: install the extra "tagger", '
      "pip install 'vidcap_jax[tagger]'"
    ) from error
  tagger = HanoverTagger.HanoverTagger('morphmodel_en.pgz')

  def classes(words: Sequence[str]) -> list[str]:
    if not words:
      return []
    return [word_class(tag) for _, _, tag in tagger.tag_sent(list(words))]

  return classes


def word_class(tag: str) -> str:
  """The class of a tag."""
  return next((name for begin, name in _TAGS if tag.startswith(begin)), OTHER)


def version() -> str:
  """The name and version of the tagger."""
  import importlib.metadata

  return f'HanTa {importlib.metadata.version("HanTa")}'
