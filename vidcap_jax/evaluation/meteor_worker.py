"""A second process of METEOR without Java: it reads the table of paraphrases, and scores videos.

Requests and answers are lines of JSON. A request is [captions, references, number of the first
video to score]; the answers are the entries of the table that all captions and references have, and
then the statistics of the videos to score.
"""

import json
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from vidcap_jax.evaluation import meteor_words
from vidcap_jax.evaluation.java import MetricError, end_process, tail
from vidcap_jax.evaluation.meteor_paraphrases import Paraphrases
from vidcap_jax.evaluation.meteor_statistics import best_statistics, split_videos


class Worker:
  """The process, seen from the first one. It ends with the last reference to the object.

  Each request has its answers read in order. All methods but ``close`` raise MetricError if the
  process has ended.
  """

  def __init__(self) -> None:
    self._stderr = tempfile.TemporaryFile()  # a pipe would block the process if it is not read
    self._process = subprocess.Popen(
      [sys.executable, '-m', __name__],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._stderr,
      start_new_session=True,  # so Ctrl-C doesn't end it: training still scores its last step
    )
    self.close = weakref.finalize(self, end_process, self._process, self._stderr)

  def send(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], first: int
  ) -> None:
    """Requests the statistics of the videos from a number on.

    Args:
      hypotheses: one tokenised caption per video.
      references: each video's tokenised references, in the same order.
      first: the number.
    """
    assert self._process.stdin is not None
    request = json.dumps([list(hypotheses), [list(texts) for texts in references], first])
    try:
      self._process.stdin.write(request.encode() + b'\n')
      self._process.stdin.flush()
    except OSError:
      self._fail()

  def paraphrases(self) -> Paraphrases:
    """The first answer: the paraphrases of all videos."""
    return Paraphrases(self._answer())

  def statistics(self) -> np.ndarray:
    """The second answer: the statistics (videos, 23)."""
    return np.array(self._answer(), float)

  def _answer(self) -> Any:
    assert self._process.stdout is not None
    line = self._process.stdout.readline()
    if not line.endswith(b'\n'):
      self._fail()
    return json.loads(line)

  def _fail(self) -> None:
    status = self._process.wait()
    self._stderr.seek(0)
    stderr = tail(self._stderr.read())
    self.close()
    raise MetricError(f'{__name__} ended with exit status {status}: {stderr}')


def main() -> None:
  """Answers requests on standard input until it ends."""
  meteor_words.synsets('a')  # reads WordNet's sets while captions are still tokenised
  for request in sys.stdin:
    hypotheses, references, first = json.loads(request)
    videos = split_videos(hypotheses, references)
    paraphrases = videos.paraphrases()
    print(json.dumps(paraphrases.entries), flush=True)
    statistics = best_statistics(videos.from_video(first), paraphrases)
    print(json.dumps(statistics.tolist()), flush=True)


if __name__ == '__main__':
  main()
