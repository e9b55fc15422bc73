"""Rows of word tables of projects with one token for the begin and the end of captions."""

import dataclasses

import numpy as np

from vidcap_jax.checkpoints.pytorch.tables import ALL, Convert, Order
from vidcap_jax.data.vocabulary import BOS, EOS, PAD, SPECIAL, UNK

# The logit of tokens that the other project lacks: their probability is 0 in float32 beside any
# other logits, so that the probabilities of all other words are as there; finite, so that a
# training which goes on from here has finite losses.
NEVER = -1000.0


@dataclasses.dataclass(frozen=True)
class WordRows:
  """Which row of the other project's tables each word here has.

  ``<BOS>`` and ``<EOS>`` are the token that begins and ends captions there; so is ``<PAD>`` where
  it is read. ``<PAD>`` and ``<BOS>``, and ``<UNK>`` where the project has no unknown word, have the
  logit ``NEVER``; the embedding of such an ``<UNK>`` is zeros.

  Attributes:
    words: of the vocabulary here.
    rows: of ``words``, -1 for none.
  """

  words: tuple[str, ...]
  rows: tuple[int, ...]

  @classmethod
  def of(cls, by_row: dict[int, str], boundary: int, unknown: str) -> 'WordRows':
    """The rows of a vocabulary.

    Args:
      by_row: row -> word, of all rows but ``boundary``.
      boundary: row of the token that begins and ends captions.
      unknown: the word that stands for all others.
    """
    unknown_row = next((row for row, word in by_row.items() if word == unknown), -1)
    known = {row: word for row, word in sorted(by_row.items()) if row != unknown_row}
    special = {PAD: boundary, BOS: boundary, EOS: boundary, UNK: unknown_row}
    rows = (*(special[i] for i in range(len(SPECIAL))), *known)
    return cls((*SPECIAL, *known.values()), rows)

  def embedding(self, channels: Order = ALL) -> Convert:
    """Converts a table of embeddings (rows, E), whose channels are taken in an order."""

    def convert(table: np.ndarray) -> np.ndarray:
      made = table[list(self.rows)][:, channels]
      made[np.array(self.rows) < 0] = 0
      return made

    return convert

  def logits_kernel(self, channels: Order = ALL) -> Convert:
    """Converts weights (rows, H) of the logits to a kernel (H, V)."""

    def convert(weight: np.ndarray) -> np.ndarray:
      made = weight[list(self.rows)][:, channels]
      made[self._never] = 0
      return made.T

    return convert

  def logits_bias(self, bias: np.ndarray) -> np.ndarray:
    """The bias (V,) of the logits for one of (rows,)."""
    made = bias[list(self.rows)]
    made[self._never] = NEVER
    return made

  @property
  def _never(self) -> list[int]:
    return [PAD, BOS, *([UNK] if self.rows[UNK] < 0 else [])]
