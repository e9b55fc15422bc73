"""METEOR 1.5 in a child process with a time limit; pycocoevalcap's wrapper has none.

The program answers line by line: ``SCORE ||| reference ||| … ||| hypothesis`` gives a video's match
statistics, ``EVAL ||| statistics ||| …`` gives a score per video and then the corpus score.
"""

import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Protocol, Self

import numpy as np

from vidcap_jax.counts import counted
from vidcap_jax.evaluation import java
from vidcap_jax.evaluation.programs import METEOR_SECONDS
from vidcap_jax.progress import progress

TIME_LIMIT = METEOR_SECONDS
MEMORY = '-Xmx2G'

# Parameters for English: the weights of precision, of fragments and of content words, the exponent
# of fragments, and the weights of matches by exact word, stem, synonym and paraphrase.
_PRECISION, _FRAGMENTS, _CONTENT, _POWER = 0.85, 0.6, 0.75, 0.2
STAGE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])


class MeteorProgram(Protocol):
  """METEOR, in Java or in Python, for a ``with`` statement."""

  def __enter__(self) -> Self: ...

  def __exit__(self, *unused) -> None: ...

  def score_with_statistics(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str = ''
  ) -> tuple[float, list[float], np.ndarray]:
    """The corpus score, one score per video, and what both are computed from.

    Args:
      hypotheses: one tokenised caption per video.
      references: each video's tokenised references, in the same order.
      label: of a progress line over the videos, on stderr; '' shows none.

    Returns:
      The last are statistics (N, 23) of the videos, see ``score_of_statistics``, of the reference
      with the best score.

    Raises:
      MetricError: METEOR failed or ran over its time limit; a process of its own has ended then.
    """
    ...


class Meteor:
  """A running METEOR. Starting takes 10 to 20 s and 1.4 GB, so keep one for several scorings.

  Use it in a ``with`` statement; the process also ends with the last reference to the object and
  with the interpreter.

  Args:
    time_limit: seconds that one ``score`` may take, the start-up included.
  """

  def __init__(self, time_limit: float = TIME_LIMIT):
    self.time_limit = time_limit
    # A file, not a pipe, which would block the program if it is not read.
    self._stderr = tempfile.TemporaryFile()
    jar = java.packaged('meteor', 'meteor-1.5.jar')
    self._process = subprocess.Popen(
      [java.require_java(), *java.OPTIONS, MEMORY, '-jar', jar]
      + ['-', '-', '-stdio', '-l', 'en', '-norm'],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._stderr,
      start_new_session=True,  # so Ctrl-C doesn't end it: training still scores its last step
    )
    self._end = weakref.finalize(self, java.end_process, self._process, self._stderr)

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *unused) -> None:
    self.close()

  def close(self) -> None:
    """Kills the process; calling it twice does no harm."""
    self._end()

  def score(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
  ) -> tuple[float, list[float]]:
    """The corpus score and one score per video; arguments and errors of the next method."""
    corpus, videos, _ = self.score_with_statistics(hypotheses, references)
    return corpus, videos

  def score_with_statistics(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str = ''
  ) -> tuple[float, list[float], np.ndarray]:
    """See ``MeteorProgram``."""
    began = time.monotonic()
    timer = threading.Timer(self.time_limit, self._process.kill)
    timer.daemon = True
    timer.start()
    videos: Iterable[tuple] = zip(hypotheses, references, strict=True)
    if label:
      videos = progress(videos, len(hypotheses), label, first='starting METEOR')
    try:
      statistics = [self._ask(_score_line(*video)) for video in videos]
      scores = [float(self._ask(' ||| '.join(['EVAL', *statistics])))]
      scores += [float(self._read()) for _ in statistics]
      numbers = _numbers(statistics)
    except (OSError, ValueError) as error:
      late = time.monotonic() - began >= self.time_limit
      self._process.kill()
      self._process.wait()
      self._stderr.seek(0)
      stderr = java.tail(self._stderr.read())
      self.close()
      if late:
        raise java.MetricError(
          f'METEOR did not finish {counted(len(hypotheses), "video")} within '
          f'{self.time_limit:.0f} s and was ended; raise the time limit or leave METEOR out '
          f'(stderr: {stderr})'
        ) from None
      raise java.MetricError(f'METEOR failed: {error} (stderr: {stderr})') from error
    finally:
      timer.cancel()
    return scores[-1], scores[:-1], numbers

  def _ask(self, line: str) -> str:
    stdin = self._process.stdin
    assert stdin is not None
    stdin.write((line + '\n').encode())
    stdin.flush()
    return self._read()

  def _read(self) -> str:
    stdout = self._process.stdout
    assert stdout is not None
    line = stdout.readline().decode('utf-8', 'replace')
    if not line:
      raise OSError('its output ended')
    return line.strip()


def score_of_statistics(statistics: np.ndarray) -> np.ndarray:
  """METEOR of statistics of videos, or of their sums: (…, 23) -> (…).

  The last axis holds the words of the caption and of the reference, the function words of both;
  for exact, stem, synonym and paraphrase matches each the matched content words of both and the
  matched function words of both; chunks; and all matched words of both. The formula is that of
  Denkowski and Lavie (2014) with the parameters for English.
  """
  words, function_words = statistics[..., 0:2], statistics[..., 2:4]
  stages = statistics[..., 4:20].reshape(*statistics.shape[:-1], 4, 2, 2)
  content, function = stages[..., 0, :], stages[..., 1, :]  # (…, 4, 2), of caption and reference
  chunks, matched = statistics[..., 20], statistics[..., 21:23]
  totals = _CONTENT * (words - function_words) + (1 - _CONTENT) * function_words
  matches = np.einsum(
    's,...sk->...k', STAGE_WEIGHTS, _CONTENT * content + (1 - _CONTENT) * function
  )
  precision, recall = np.moveaxis(_ratio(matches, totals), -1, 0)
  f_measure = _ratio(precision * recall, _PRECISION * precision + (1 - _PRECISION) * recall)
  fragments = _ratio(chunks, matched.mean(axis=-1))
  return f_measure * (1 - _FRAGMENTS * fragments**_POWER)


def _numbers(lines: Sequence[str]) -> np.ndarray:
  """The statistics of the process's lines: (N, 23).

  A caption whose words all match in the reference's order is one chunk, but has no penalty, and
  adds no chunk to the corpus score: it gets 0 chunks.
  """
  statistics = np.array([[float(number) for number in line.split()] for line in lines])
  in_order = (statistics[:, 21:23] == statistics[:, 0:2]).all(axis=1) & (statistics[:, 20] == 1)
  statistics[in_order, 20] = 0.0
  return statistics


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
  """The ratio; 0 where nothing is divided by 0."""
  out = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
  return np.divide(numerator, denominator, out=out, where=denominator > 0)


def _score_line(hypothesis: str, references: Sequence[str]) -> str:
  # As pycocoevalcap does. The tokeniser has already split the separator into single bars and
  # removed line breaks.
  hypothesis = hypothesis.replace('|||', '').replace('  ', ' ')
  return ' ||| '.join(['SCORE', *references, hypothesis])
