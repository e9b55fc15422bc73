"""METEOR as a reward: on the host, by a Java program that keeps running, or in Python."""

from collections.abc import Callable, Sequence

import numpy as np

from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.evaluation.java import choose_program
from vidcap_jax.evaluation.meteor import Meteor
from vidcap_jax.evaluation.meteor_python import ReferencesMeteor

# Seconds that one step's captions may take in Java, the first step's start of the program included.
TIME_LIMIT = 120.0


def make_meteor(
  captions: Sequence[Sequence[str]], vocabulary: Vocabulary, program: str = 'auto'
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
  """A function (tokens (B, S, L), rows (B,)) -> METEOR of each (B, S) float32, 0 to 1.

  Rows are indices into ``captions``, the references by video; -1 is padding and earns 0. EOS does
  not count as a word.

  Args:
    captions: of each training video.
    vocabulary: of the tokens.
    program: one of ``java.PROGRAMS``; auto is Java if there is one, and else Python.

  Raises:
    ConfigError: an unknown program.
    MetricError: Java is asked for and missing; in the returned function, METEOR failed or took too
      long.
  """
  references = [[' '.join(vocabulary.tokenize(caption)) for caption in video] for video in captions]
  score_texts: Callable[[Sequence[str], Sequence[int]], Sequence[float] | np.ndarray]
  if choose_program('eval.meteor', program) == 'java':
    score_texts = _in_java(references)
  else:
    score_texts = ReferencesMeteor(references, vocabulary.words).score

  def score(tokens: np.ndarray, rows: np.ndarray) -> np.ndarray:
    scored = np.zeros(tokens.shape[:2], np.float32)
    places = [(b, s) for b in range(len(rows)) if rows[b] >= 0 for s in range(tokens.shape[1])]
    if places:
      texts = [vocabulary.decode(tokens[place]) for place in places]
      scores = score_texts(texts, [int(rows[b]) for b, _ in places])
      scored[tuple(np.transpose(places))] = scores
    return scored

  return score


def _in_java(
  references: Sequence[Sequence[str]],
) -> Callable[[Sequence[str], Sequence[int]], Sequence[float]]:
  """A function (captions (N,), their rows) -> scores (N,), of a process that is started."""
  program = Meteor(TIME_LIMIT)
  return lambda texts, rows: program.score(texts, [references[row] for row in rows])[1]
