"""The second process of METEOR in Python."""

import io
import json
import signal

import numpy as np
import pytest

from vidcap_jax.evaluation import meteor_statistics, meteor_worker
from vidcap_jax.evaluation.java import MetricError
from vidcap_jax.evaluation.meteor_statistics import best_statistics, split_videos
from vidcap_jax.evaluation.meteor_worker import Worker

HYPOTHESES = ['a man', 'a dog takes part in it', 'people run']
REFERENCES = [['a boy', 'one man'], ['a dog participates in it'], ['persons run', 'it runs']]


def test_each_request_is_answered_by_entries_and_statistics(monkeypatch, capsys):
  entries = {'takes part in': {'participates in': [(0, 7)]}}
  monkeypatch.setattr(meteor_statistics, 'read_entries', lambda phrases, words: entries)
  requests = [[HYPOTHESES, REFERENCES, 1], [HYPOTHESES[:1], REFERENCES[:1], 0]]
  monkeypatch.setattr('sys.stdin', io.StringIO(''.join(json.dumps(r) + '\n' for r in requests)))
  meteor_worker.main()
  answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert answers[0] == answers[2] == {'takes part in': {'participates in': [[0, 7]]}}
  videos = split_videos(HYPOTHESES, REFERENCES)
  table = best_statistics(videos, videos.paraphrases())
  np.testing.assert_array_equal(answers[1], table[1:])
  np.testing.assert_array_equal(answers[3], table[:1])
  assert table[1, 16:20].sum() == 5  # words of the paraphrases


def test_a_process_that_ends_is_an_error_wherever_it_is_asked():
  worker = Worker()
  worker._process.send_signal(signal.SIGKILL)
  worker._process.wait()
  with pytest.raises(MetricError, match='meteor_worker.* -9'):
    worker.send(HYPOTHESES, REFERENCES, 0)
  worker = Worker()
  worker.send(HYPOTHESES, REFERENCES, 0)
  worker._process.send_signal(signal.SIGKILL)
  with pytest.raises(MetricError, match='meteor_worker.* -9'):
    worker.paraphrases()
  worker.close()
