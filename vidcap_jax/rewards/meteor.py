"""METEOR as a reward: a Java program on the host, which keeps running from step to step."""

from collections.abc import Callable, Sequence

import numpy as np

from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.evaluation.meteor import Meteor

# Seconds that one step's captions may take, the first step's start of the program included.
TIME_LIMIT = 120.0


def make_meteor(
  captions: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
  """A function (tokens (B, S, L), rows (B,)) -> METEOR of each (B, S) float32, 0 to 1.

  Rows are indices into ``captions``, the references by video; -1 is padding and earns 0. EOS does
  not count as a word.

  Raises:
    MetricError: Java is missing; in the returned function, METEOR failed or took too long.
  """
  references = [[' '.join(vocabulary.tokenize(caption)) for caption in video] for video in captions]
  program = Meteor(TIME_LIMIT)

  def score(tokens: np.ndarray, rows: np.ndarray) -> np.ndarray:
    scored = np.zeros(tokens.shape[:2], np.float32)
    places = [(b, s) for b in range(len(rows)) if rows[b] >= 0 for s in range(tokens.shape[1])]
    if places:
      texts = [vocabulary.decode(tokens[place]) for place in places]
      _, scores = program.score(texts, [references[rows[b]] for b, _ in places])
      scored[tuple(np.transpose(places))] = scores
    return scored

  return score
