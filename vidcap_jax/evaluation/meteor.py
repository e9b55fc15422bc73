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
from typing import IO

from vidcap_jax.evaluation import java
from vidcap_jax.progress import progress

TIME_LIMIT = 900.0
MEMORY = '-Xmx2G'


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
    self._end = weakref.finalize(self, _end, self._process, self._stderr)

  def __enter__(self) -> 'Meteor':
    return self

  def __exit__(self, *unused) -> None:
    self.close()

  def close(self) -> None:
    """Kills the process; calling it twice does no harm."""
    self._end()

  def score(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str = ''
  ) -> tuple[float, list[float]]:
    """The corpus score and one score per video.

    Args:
      hypotheses: one tokenised caption per video.
      references: each video's tokenised references, in the same order.
      label: of a progress line over the videos, on stderr; '' shows none.

    Raises:
      MetricError: METEOR failed or ran over the time limit; the process has ended then.
    """
    began = time.monotonic()
    timer = threading.Timer(self.time_limit, self._process.kill)
    timer.daemon = True
    timer.start()
    videos: Iterable[tuple] = zip(hypotheses, references, strict=True)
    if label:
      videos = progress(videos, len(hypotheses), label)
    try:
      statistics = [self._ask(_score_line(*video)) for video in videos]
      scores = [float(self._ask(' ||| '.join(['EVAL', *statistics])))]
      scores += [float(self._read()) for _ in statistics]
    except (OSError, ValueError) as error:
      late = time.monotonic() - began >= self.time_limit
      self._process.kill()
      self._process.wait()
      self._stderr.seek(0)
      stderr = java.tail(self._stderr.read())
      self.close()
      if late:
        raise java.MetricError(
          f'METEOR did not finish {len(hypotheses)} videos within {self.time_limit:.0f} s and was '
          f'ended; raise the time limit or leave METEOR out (stderr: {stderr})'
        ) from None
      raise java.MetricError(f'METEOR failed: {error} (stderr: {stderr})') from error
    finally:
      timer.cancel()
    return scores[-1], scores[:-1]

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


def _score_line(hypothesis: str, references: Sequence[str]) -> str:
  # As pycocoevalcap does. The tokeniser has already split the separator into single bars and
  # removed line breaks.
  hypothesis = hypothesis.replace('|||', '').replace('  ', ' ')
  return ' ||| '.join(['SCORE', *references, hypothesis])


def _end(process: subprocess.Popen, stderr: IO[bytes]) -> None:
  process.kill()
  process.wait()
  for stream in (process.stdin, process.stdout, stderr):
    try:
      if stream is not None:
        stream.close()
    except OSError:  # unsent bytes for a process that has ended
      pass
