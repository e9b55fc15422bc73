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
from collections.abc import Mapping, Sequence

import numpy as np

from vidcap_jax.counts import counted
from vidcap_jax.data.tokenizers import separate_characters, without_joiners
from vidcap_jax.data.tokenizers import tokenize as words_of
from vidcap_jax.errors import ConfigError, DataError, first_few
from vidcap_jax.evaluation import (
  embedding_score,
  meteor,
  meteor_python,
  ptb_tokenizer,
)
from vidcap_jax.evaluation.java import MetricError, choose_program, find_java
from vidcap_jax.evaluation.scorers import SCORERS, check_scorers

__all__ = [
  'METRICS',
  'AnyMeteor',
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
AnyMeteor = meteor.Meteor | meteor_python.PythonMeteor


@dataclasses.dataclass(frozen=True)
class References:
  """References after PTB tokenising: ``captions[video_id]`` is a list of token strings.

  ``by_character``: Chinese was split into characters first; hypotheses must be too.
  ``tokenizer``: the program that split them, one of ``java.PROGRAMS``; it splits hypotheses too.
  ``different``: number of captions that a vocabulary splits into other words, such as those with
  ``&`` or ``cannot``.
  """

  captions: Mapping[str, list[str]]
  by_character: bool = False
  different: int = 0
  tokenizer: str = 'auto'


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
  tokenizer: str = 'auto',
) -> References:
  """Tokenises references once, for several scorings of the same videos.

  Args:
    references: each video's captions.
    by_character: compare Chinese by character. The PTB tokeniser would make a Chinese caption a
      single token, as it has no spaces.
    tokenizer: one of ``java.PROGRAMS``.

  Raises:
    ConfigError: an unknown tokenizer.
    DataError: no videos; a video without references; an empty reference; or a video whose
      references have no words. The message has counts and the first ids.
  """
  check_references(references)
  texts = [c for captions in references.values() for c in captions]
  with concurrent.futures.ThreadPoolExecutor(1) as pool:  # Java's tokeniser is another process
    tokenising = pool.submit(tokenize, texts, by_character, tokenizer)
    own_words = [without_joiners(' '.join(split_words(text, by_character))) for text in texts]
    all_tokens = tokenising.result()
  tokens = iter(all_tokens)
  tokenised = {v: [next(tokens) for _ in captions] for v, captions in references.items()}
  wordless = [v for v, captions in tokenised.items() if not any(captions)]
  if wordless:
    raise DataError(f'videos whose references hold only punctuation: {_ids(wordless)}', wordless)
  different = sum(own != words for own, words in zip(own_words, all_tokens, strict=True))
  return References(tokenised, by_character, different, tokenizer)


def check_references(references: Mapping[str, Sequence[str]]) -> None:
  """Raises DataError for no videos, a video without references, or an empty reference."""
  if not references:
    raise DataError('no videos to score: the references are empty')
  wrong = [v for v, captions in references.items() if not _is_list_of_text(captions)]
  if wrong:
    raise DataError(
      f'the references of a video must be a list of strings; not so: {_ids(wrong)}', wrong
    )
  empty = [v for v, captions in references.items() if not captions]
  if empty:
    raise DataError(f'videos without references: {_ids(empty)}', empty)
  blank = [v for v, captions in references.items() if not all(c.strip() for c in captions)]
  if blank:
    raise DataError(
      f'videos with an empty reference caption: {_ids(blank)}; leave those out', blank
    )


def score(
  hypotheses: Mapping[str, str],
  references: Mapping[str, Sequence[str]] | References,
  metrics: Sequence[str] = METRICS,
  *,
  by_character: bool = False,
  meteor_process: AnyMeteor | None = None,
  meteor_time_limit: float = meteor.TIME_LIMIT,
  scorers: str = 'numpy',
  tokenizer: str = 'auto',
  embedding_model: str = '',
  label: str = '',
) -> tuple[Scores, dict[str, Scores]]:
  """Scores one caption per video.

  Args:
    hypotheses: one caption per video id. An empty one scores 0 (and is logged).
    references: each video's captions, or the result of ``prepare_references``.
    metrics: any of ``ALL_METRICS``.
    by_character: compare Chinese by character; ignored if the references are prepared.
    meteor_process: a running METEOR, to save its start; by default one is started and ended.
    meteor_time_limit: seconds, for a METEOR started here.
    scorers: a key of ``SCORERS``, the program for BLEU, ROUGE-L and CIDEr.
    tokenizer: one of ``java.PROGRAMS``; ignored if the references are prepared.
    embedding_model: folder of the encoder of RefEmbedding and BERTScore, see ``SentenceEncoder``.
    label: of a progress line over METEOR's videos, on stderr; '' shows none.

  Returns:
    The corpus scores, and the same scores by video id: BLEU_1 to BLEU_4, METEOR, ROUGE_L and CIDEr,
    as fractions. CIDEr is the package's, which is CIDEr-D (clipped, length penalty with sigma 6,
    times 10), so it may exceed 1. Its document frequencies come from these references, so the
    scores of a subset are not comparable with those of the whole.

  Raises:
    DataError: ids without a hypothesis or unknown to the references, empty references, or no
      videos.
    ConfigError: an unknown metric, unknown scorers or an unknown tokenizer.
    MetricError: a scoring program failed.

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
    meteor_process=meteor_process,
    meteor_time_limit=meteor_time_limit,
    scorers=scorers,
    tokenizer=tokenizer,
    embedding_model=embedding_model,
    label=label,
  )
  return details.corpus, details.per_video


def score_details(
  hypotheses: Mapping[str, str],
  references: Mapping[str, Sequence[str]] | References,
  metrics: Sequence[str] = METRICS,
  *,
  by_character: bool = False,
  meteor_process: AnyMeteor | None = None,
  meteor_time_limit: float = meteor.TIME_LIMIT,
  scorers: str = 'numpy',
  tokenizer: str = 'auto',
  embedding_model: str = '',
  label: str = '',
) -> ScoreDetails:
  """As ``score``, with what intervals are computed from; there may be no metrics."""
  check_scorers(scorers)
  check_hypotheses(
    hypotheses, references.captions if isinstance(references, References) else references
  )
  encoder = None
  if set(embedding_score.METRICS) & set(metrics):
    encoder = embedding_score.load_encoder(embedding_model)
  with contextlib.ExitStack() as stack:
    # METEOR starts and runs in parallel to everything else. The stack unwinds in reverse: after an
    # error METEOR is ended first, which ends the thread that waits for it.
    pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(2))
    if 'METEOR' in metrics and meteor_process is None:
      captions = references.captions if isinstance(references, References) else references
      program = meteor_python.choose_meteor('auto', captions.values())
      meteor_process = start_meteor(program, meteor_time_limit)
      stack.enter_context(meteor_process)

    if isinstance(references, References):
      by_character, tokenizer = references.by_character, references.tokenizer
    ids = list(references.captions if isinstance(references, References) else references)
    tokenising = pool.submit(tokenize, [hypotheses[v] for v in ids], by_character, tokenizer)
    if not isinstance(references, References):
      references = prepare_references(references, by_character=by_character, tokenizer=tokenizer)
    tokens = tokenising.result()
    empty = [v for v, caption in zip(ids, tokens, strict=True) if not caption]
    if empty:
      logging.getLogger(__name__).warning('captions without a word score 0: %s', _ids(empty))

    gold = [references.captions[v] for v in ids]
    if 'METEOR' in metrics:
      assert meteor_process is not None
      meteor_score = pool.submit(meteor_process.score_with_statistics, tokens, gold, label)
    scored = SCORERS[scorers](tokens, gold, metrics)
    if encoder is not None:
      scored |= embedding_score.embedding_scores(tokens, gold, metrics, encoder)
    statistics = None
    if 'METEOR' in metrics:
      corpus_score, video_scores, statistics = meteor_score.result()
      scored['METEOR'] = (corpus_score, np.array(video_scores))

  names = [name for name in _SCORES if name in scored]
  corpus = {n: float(scored[n][0]) for n in names}
  values = {n: scored[n][1] for n in names}
  return ScoreDetails(ids, tokens, references, corpus, values, statistics)


def check_metrics(names: Sequence[str], known: Sequence[str] = ALL_METRICS) -> None:
  """Raises ConfigError unless all names are those of known metrics, and there are any."""
  if unknown := [name for name in names if name not in known]:
    near = [n for name in unknown for n in difflib.get_close_matches(name.upper(), METRICS, 1)]
    similar = f'; similar: {", ".join(dict.fromkeys(near))}' if near else ''
    raise ConfigError(f'unknown metrics: {unknown}; known: {", ".join(known)}{similar}')
  if not names:
    raise ConfigError(f'no metrics; known: {", ".join(known)}')


def start_meteor(program: str, time_limit: float) -> AnyMeteor:
  """METEOR, for a ``with`` statement.

  Args:
    program: one of ``java.PROGRAMS``.
    time_limit: seconds that one scoring may take in Java.

  Raises:
    ConfigError: an unknown program.
    MetricError: Java is asked for, and none works.
  """
  if choose_program('meteor', program) == 'java':
    return meteor.Meteor(time_limit)
  return meteor_python.PythonMeteor()


def java_notes() -> list[str]:
  """The line that there is no Java, if there is none."""
  if find_java():
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


def check_hypotheses(hypotheses: Mapping, references: Mapping) -> None:
  """Raises DataError unless each video of the references has one hypothesis, and no other has."""
  wrong = [v for v, caption in hypotheses.items() if not isinstance(caption, str)]
  if wrong:
    raise DataError(f'a hypothesis must be one string per video; not so: {_ids(wrong)}', wrong)
  if not references:
    raise DataError('no videos to score: the references are empty')
  missing = [v for v in references if v not in hypotheses]
  unknown = [v for v in hypotheses if v not in references]
  if missing or unknown:
    problems = []
    if missing:
      problems.append(f'no hypothesis for {_ids(missing)}')
    if unknown:
      problems.append(f'no references for {_ids(unknown)}')
    part = '; are the references those of all splits? (--split=NAME)' if not unknown else ''
    raise DataError(
      f'{len(hypotheses)} hypotheses do not match {len(references)} reference videos: '
      + '; '.join(problems)
      + part,
      [*(f'no hypothesis for {v}' for v in missing), *(f'no references for {v}' for v in unknown)],
    )


def _is_list_of_text(captions) -> bool:
  return not isinstance(captions, str) and all(isinstance(c, str) for c in captions)


def _ids(ids: Sequence) -> str:
  """'3 videos (v1, v2, v3)', cut after the first few."""
  return f'{counted(len(ids), "video")} ({first_few(ids)})'


if __name__ == '__main__':
  from vidcap_jax.evaluation.metrics_command import main

  main()
