"""BLEU, ROUGE-L and CIDEr of tokenised captions, by one of two programs.

Both agree to 1e-9 for each video; pycocoevalcap's is the slower one.
"""

from collections.abc import Sequence

import numpy as np

from vidcap_jax.evaluation import ngram_scores, rouge


def _numpy_scores(
  hypotheses: Sequence[str], references: Sequence[Sequence[str]], metrics: Sequence[str]
) -> dict[str, tuple[float, np.ndarray]]:
  """{name: (corpus score, scores per video)} of all metrics but METEOR, by our own scorers."""
  scored: dict[str, tuple[float, np.ndarray]] = {}
  if 'BLEU' in metrics or 'CIDEr' in metrics:
    counted = ngram_scores.count_ngrams(hypotheses, references)
    if 'BLEU' in metrics:
      scored |= {f'BLEU_{n}': pair for n, pair in enumerate(ngram_scores.bleu(counted), 1)}
    if 'CIDEr' in metrics:
      scored['CIDEr'] = ngram_scores.cider(counted)
  if 'ROUGE_L' in metrics:
    scored['ROUGE_L'] = rouge.rouge_l(hypotheses, references)
  return scored


def _pycocoevalcap_scores(
  hypotheses: Sequence[str], references: Sequence[Sequence[str]], metrics: Sequence[str]
) -> dict[str, tuple[float, np.ndarray]]:
  """The same by pycocoevalcap's scorers."""
  gold = {i: list(captions) for i, captions in enumerate(references)}
  tokens = {i: [caption] for i, caption in enumerate(hypotheses)}
  scored: dict[str, tuple[float, np.ndarray]] = {}
  if 'BLEU' in metrics:
    from pycocoevalcap.bleu.bleu import Bleu

    corpus, videos = Bleu(4).compute_score(gold, tokens, verbose=0)
    scored |= {f'BLEU_{n + 1}': (corpus[n], np.array(videos[n])) for n in range(4)}
  if 'ROUGE_L' in metrics:
    from pycocoevalcap.rouge.rouge import Rouge

    # An empty caption would match a reference of punctuation only, as both have no words.
    _, values = Rouge().compute_score(gold, tokens)
    values = np.where([bool(caption) for caption in hypotheses], values, 0.0)
    scored['ROUGE_L'] = (float(np.mean(values)), values)
  if 'CIDEr' in metrics:
    from pycocoevalcap.cider.cider import Cider

    scored['CIDEr'] = Cider().compute_score(gold, tokens)
  return scored


# The programs that compute BLEU, ROUGE-L and CIDEr, by name; they agree to 1e-9 for each video.
SCORERS = {'numpy': _numpy_scores, 'pycocoevalcap': _pycocoevalcap_scores}
