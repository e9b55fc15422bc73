"""BLEU, METEOR, ROUGE-L and CIDEr of captions, as the captioning literature reports them.

The values are those of pycocoevalcap's scorers, after its PTB tokenising. As a command, for any
captions file:

  vidcap score --hypotheses=captions.json --references=annotation.json
"""

import concurrent.futures
import contextlib
import dataclasses
import difflib
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.data.tokenizers import separate_characters, without_joiners
from vidcap_jax.data.tokenizers import tokenize as words_of
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import (
  embedding_score,
  meteor,
  meteor_python,
  ptb_tokenizer,
)
from vidcap_jax.evaluation.java import MetricError, find_java
from vidcap_jax.evaluation.meteor import MeteorProgram
from vidcap_jax.evaluation.programs import DEFAULTS, Programs
from vidcap_jax.evaluation.score_inputs import check_hypotheses, check_references, listed
from vidcap_jax.evaluation.scorers import SCORERS

__all__ = [
  'METRICS',
  'MetricError',
  'References',
  'prepare_references',
  'score',
  'start_meteor',
  'tokenize',
]

METRICS = ('BLEU', 'METEOR', 'ROUGE_L', 'CIDEr')
# Those of embeddings need a model, so they are computed only where they are asked for.
ALL_METRICS = (*METRICS, *embedding_score.METRICS)
_SCORES = (*(f'BLEU_{n}' for n in range(1, 5)), *METRICS[1:], *embedding_score.SCORES)

Scores = dict[str, float]


@dataclasses.dataclass(frozen=True)
class References:
  """References after PTB tokenising: ``captions[video_id]`` is a list of token strings.

  ``by_character``: Chinese was split into characters first; hypotheses must be too.
  ``different``: number of captions that a vocabulary splits into other words, such as those with
  ``&`` or ``cannot``.
  ``programs``: the tokenizer is the one that split them; all of them compute the scores.
  """

  captions: Mapping[str, list[str]]
  by_character: bool = False
  different: int = 0
  programs: Programs = DEFAULTS


@dataclasses.dataclass(frozen=True)
class ScoreDetails:
  """Scores, and what they are computed from.

  Attributes:
    ids: of the videos.
    tokens: their captions after PTB tokenising.
    references: of the same videos.
    corpus: the scores of all captions together.
    values: metric -> scores of the videos, (N,).
    meteor_statistics: (N, 23), see ``meteor.score_of_statistics``; None without METEOR.
  """

  ids: Sequence[str]
  tokens: Sequence[str]
  references: References
  corpus: Scores
  values: Mapping[str, np.ndarray]
  meteor_statistics: np.ndarray | None = None

  @property
  def per_video(self) -> dict[str, Scores]:
    """The scores of each video by id."""
    return {
      video_id: {name: float(values[i]) for name, values in self.values.items()}
      for i, video_id in enumerate(self.ids)
    }


def prepare_references(
  references: Mapping[str, Sequence[str]],
  *,
  by_character: bool = False,
  programs: Programs = DEFAULTS,
) -> References:
  """Tokenises references once, for several scorings of the same videos.

  Args:
    references: each video's captions.
    by_character: compare Chinese by character. The PTB tokeniser would make a Chinese caption a
      single token, as it has no spaces.
    programs: that compute the scores.

  Raises:
    MetricError: the tokenizer failed, or needs a Java that is missing.
    DataError: no videos; a video without references; an empty reference; or a video whose
      references have no words. The message has counts and the first ids.
  """
  check_references(references)
  texts = [c for captions in references.values() for c in captions]
  with concurrent.futures.ThreadPoolExecutor(1) as pool:  # Java's tokeniser is another process
    tokenising = pool.submit(tokenize, texts, by_character, programs.tokenizer)
    own_words = [without_joiners(' '.join(split_words(text, by_character))) for text in texts]
    all_tokens = tokenising.result()
  tokens = iter(all_tokens)
  tokenised = {v: [next(tokens) for _ in captions] for v, captions in references.items()}
  wordless = [v for v, captions in tokenised.items() if not any(captions)]
  if wordless:
    raise DataError(f'videos whose references hold only punctuation: {listed(wordless)}', wordless)
  different = sum(own != words for own, words in zip(own_words, all_tokens, strict=True))
  return References(tokenised, by_character, different, programs)


def score(
  hypotheses: Mapping[str, str],
  references: Mapping[str, Sequence[str]] | References,
  metrics: Sequence[str] = METRICS,
  *,
  by_character: bool = False,
  programs: Programs = DEFAULTS,
  meteor_process: MeteorProgram | None = None,
) -> tuple[Scores, dict[str, Scores]]:
  """Scores one caption per video.

  Args:
    hypotheses: one caption per video id. An empty one scores 0 (and is logged).
    references: each video's captions, or the result of ``prepare_references``.
    metrics: any of ``ALL_METRICS``.
    by_character: compare Chinese by character; ignored if the references are prepared.
    programs: that compute the scores; ignored if the references are prepared.
    meteor_process: a running METEOR, to save its start; by default one is started and ended.

  Returns:
    The corpus scores, and the same scores by video id: BLEU_1 to BLEU_4, METEOR, ROUGE_L and CIDEr,
    as fractions. CIDEr is the package's, which is CIDEr-D (clipped, length penalty with sigma 6,
    times 10), so it may exceed 1. Its document frequencies come from these references, so the
    scores of a subset are not comparable with those of the whole.

  Raises:
    DataError: ids without a hypothesis or unknown to the references, empty references, or no
      videos.
    ConfigError: an unknown metric.
    MetricError: a scoring program failed, or Java is asked for and missing.

  Example:
    >>> corpus, per_video = score({'v1': 'a dog runs'}, {'v1': ['a dog is running']}, ['BLEU'])
    >>> sorted(corpus)
    ['BLEU_1', 'BLEU_2', 'BLEU_3', 'BLEU_4']
  """
  check_metrics(metrics)
  details = score_details(
    hypotheses,
    references,
    metrics,
    by_character=by_character,
    programs=programs,
    meteor_process=meteor_process,
  )
  return details.corpus, details.per_video


def score_details(
  hypotheses: Mapping[str, str],
  references: Mapping[str, Sequence[str]] | References,
  metrics: Sequence[str] = METRICS,
  *,
  by_character: bool = False,
  programs: Programs = DEFAULTS,
  meteor_process: MeteorProgram | None = None,
  label: str = '',
) -> ScoreDetails:
  """As ``score``, with what intervals are computed from; there may be no metrics.

  Args:
    hypotheses, references, metrics, by_character, programs, meteor_process: of ``score``.
    label: of a progress line over METEOR's videos, on stderr; '' shows none.
  """
  prepared = references if isinstance(references, References) else None
  if prepared is not None:
    by_character, programs = prepared.by_character, prepared.programs
  captions = references.captions if isinstance(references, References) else references
  check_hypotheses(hypotheses, captions)
  encoder = programs.encoder(metrics)
  with contextlib.ExitStack() as stack:
    # METEOR starts and runs in parallel to everything else. The stack unwinds in reverse: after an
    # error METEOR is ended first, which ends the thread that waits for it.
    pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(2))
    if 'METEOR' in metrics and meteor_process is None:
      meteor_process = stack.enter_context(start_meteor(programs, captions.values()))
    ids = list(captions)
    texts = [hypotheses[video_id] for video_id in ids]
    tokenising = pool.submit(tokenize, texts, by_character, programs.tokenizer)
    if prepared is None:
      prepared = prepare_references(captions, by_character=by_character, programs=programs)
    tokens = tokenising.result()
    empty = [v for v, caption in zip(ids, tokens, strict=True) if not caption]
    if empty:
      logging.getLogger(__name__).warning('captions without a word score 0: %s', listed(empty))

    gold = [prepared.captions[v] for v in ids]
    if 'METEOR' in metrics:
      assert meteor_process is not None
      meteor_score = pool.submit(meteor_process.score_with_statistics, tokens, gold, label)
    scored = SCORERS[programs.scorers](tokens, gold, metrics)
    if encoder is not None:
      scored |= embedding_score.embedding_scores(tokens, gold, metrics, encoder)
    statistics = None
    if 'METEOR' in metrics:
      corpus_score, video_scores, statistics = meteor_score.result()
      scored['METEOR'] = (corpus_score, np.array(video_scores))

  names = [name for name in _SCORES if name in scored]
  corpus = {n: float(scored[n][0]) for n in names}
  values = {n: scored[n][1] for n in names}
  return ScoreDetails(ids, tokens, prepared, corpus, values, statistics)


def check_metrics(names: Sequence[str], known: Sequence[str] = ALL_METRICS) -> None:
  """Raises ConfigError unless all names are those of known metrics, and there are any."""
  if unknown := [name for name in names if name not in known]:
    lower = {name.lower(): name for name in known}
    found = [n for name in unknown for n in difflib.get_close_matches(name.lower(), lower, 1)]
    near = [lower[name] for name in found]
    similar = f'; similar: {", ".join(dict.fromkeys(near))}' if near else ''
    raise ConfigError(f'unknown metrics: {unknown}; known: {", ".join(known)}{similar}')
  if not names:
    raise ConfigError(f'no metrics; known: {", ".join(known)}')


def score_names(metrics: Sequence[str]) -> list[str]:
  """The names of the scores of metrics, such as BLEU_1 to BLEU_4 of BLEU."""
  return [name for name in _SCORES if name in metrics or name.rpartition('_')[0] in metrics]


def evaluated_metrics(section: Mapping[str, Any]) -> tuple[str, ...]:
  """The metrics of evaluations: ``METRICS``, and those of embeddings in a config's ``eval``."""
  return (*METRICS, *(name for name in embedding_score.METRICS if name in section['metrics']))


def start_meteor(
  programs: Programs = DEFAULTS, references: Collection[Sequence[str]] = ()
) -> MeteorProgram:
  """METEOR, for a ``with`` statement.

  Args:
    programs: that compute the scores.
    references: of each video, if it is for one scoring: see ``choose_meteor``.

  Raises:
    MetricError: Java is asked for, and none works.
  """
  if meteor_python.choose_meteor(programs.meteor, references) == 'java':
    return meteor.Meteor(programs.meteor_time_limit)
  return meteor_python.PythonMeteor(sum(map(len, references)))


def java_notes(programs: Programs = DEFAULTS) -> list[str]:
  """The line that there is no Java, if there is none and Java would have been taken."""
  if 'auto' not in (programs.tokenizer, programs.meteor) or find_java():
    return []
  return ['note: no Java was found, so tokens and METEOR are computed in Python (the same values)']


def tokenize(captions: Sequence[str], by_character: bool, program: str = 'auto') -> list[str]:
  """Captions as the scorers compare them: tokens joined by spaces."""
  return ptb_tokenizer.tokenize(
    [separate_characters(c) for c in captions] if by_character else captions, program=program
  )


def split_words(caption: str, by_character: bool) -> list[str]:
  """A caption's words as vocabularies split it."""
  return words_of(caption, 'by_character' if by_character else 'ptb_like')


def different_note(references: References) -> str:
  """The line that counts references which a vocabulary splits into other words."""
  total = sum(map(len, references.captions.values()))
  return (
    f'note: {references.different} of {total} references have words that the metrics split '
    'otherwise than vocabularies do (&, /, brackets, cannot …; docs/evaluation.md)'
  )


if __name__ == '__main__':
  from vidcap_jax.evaluation.metrics_command import main

  main()
