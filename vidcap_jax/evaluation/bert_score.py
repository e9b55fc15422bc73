"""BERTScore: how well the word pieces of a caption and of a reference match, by a BERT encoder.

Zhang et al., "BERTScore: Evaluating Text Generation with BERT", 2020, section 3, without weights
of words and without rescaling. The layer is ``SentenceEncoder.token_layer``.
"""

from collections.abc import Callable, Sequence

import numpy as np

SCORES = ('BERTScore_P', 'BERTScore_R', 'BERTScore_F1')
BLOCK = 256  # videos whose sentences are encoded together

TokenEncoder = Callable[[Sequence[str]], Sequence[np.ndarray]]


def bert_score(
  hypotheses: Sequence[str], references: Sequence[Sequence[str]], encoder: TokenEncoder
) -> dict[str, tuple[float, np.ndarray]]:
  """{name: (score of the corpus, the mean over videos; scores of the videos, (N,))} of ``SCORES``.

  Each score of a video is the largest of its references, as the package bert_score has it, so
  precision, recall and F1 may be those of different references. A caption without words scores 0.

  Args:
    hypotheses: tokens joined by spaces, one caption a video.
    references: the same of each video, one or more.
    encoder: sentences -> for each one its word pieces' vectors (pieces, D), of length 1. It gets
      each distinct sentence once.
  """
  captions = [(own, *others) for own, others in zip(hypotheses, references, strict=True)]
  last_use = {text: number for number, texts in enumerate(captions) for text in texts}
  videos = np.zeros((len(captions), len(SCORES)))
  vectors: dict[str, np.ndarray] = {}
  for start in range(0, len(captions), BLOCK):
    block = captions[start : start + BLOCK]
    new = list(dict.fromkeys(t for texts in block for t in texts if t and t not in vectors))
    vectors |= zip(new, encoder(new), strict=True)
    for number, (own, *others) in enumerate(block, start):
      if own:
        videos[number] = _best_scores(vectors[own], [vectors[text] for text in others if text])
    # All vectors of a large test set would take gigabytes.
    vectors = {t: vector for t, vector in vectors.items() if last_use[t] >= start + BLOCK}
  return {name: (float(videos[:, i].mean()), videos[:, i]) for i, name in enumerate(SCORES)}


def _best_scores(caption: np.ndarray, references: Sequence[np.ndarray]) -> tuple[float, ...]:
  """The largest precision, recall and F1 of a caption (pieces, D) and its references."""
  references = [vectors for vectors in references if len(vectors)]
  if not len(caption) or not references:
    return 0.0, 0.0, 0.0
  lengths = [len(vectors) for vectors in references]
  starts = np.cumsum([0, *lengths[:-1]])
  cosines = np.concatenate(references) @ caption.T.astype(float)  # (pieces of all, own pieces)
  cosines = np.minimum(cosines, 1.0)  # which rounding exceeds
  precision = np.maximum.reduceat(cosines, starts, axis=0).mean(axis=1)
  recall = np.add.reduceat(cosines.max(axis=1), starts) / lengths
  total = precision + recall
  f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
  return float(precision.max()), float(recall.max()), float(f1.max())
