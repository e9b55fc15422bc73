"""The benchmark of scoring."""

import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import scoring
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import meteor_words


def test_made_captions_have_the_lengths_of_msrvtt_and_are_those_of_the_seed():
  hypotheses, references = scoring.made_captions(200, 20, 0)
  assert len(hypotheses) == len(references) == 200
  assert {len(captions) for captions in references.values()} == {20}
  lengths = [len(c.split()) for captions in references.values() for c in captions]
  assert 8 < np.mean(lengths) < 11  # MSR-VTT's have 9.3 words
  assert min(lengths) >= 3
  assert scoring.made_captions(3, 2, 0) == scoring.made_captions(3, 2, 0)
  assert scoring.made_captions(3, 2, 0) != scoring.made_captions(3, 2, 1)


def test_the_last_caption_of_annotations_is_scored(tmp_path):
  path = tmp_path / 'a.json'
  path.write_text(json.dumps({'v1': ['a', 'b', 'c', 'd'], 'v2': ['e'], 'v3': ['f', 'g', 'h']}))
  assert scoring.read_captions(str(path), 2, 2) == (
    {'v1': 'c', 'v3': 'h'},
    {'v1': ['a', 'b'], 'v3': ['f', 'g']},
  )
  with pytest.raises(DataError, match='2 videos .* not 3'):
    scoring.read_captions(str(path), 3, 2)


def test_goals_are_of_times_and_differences(monkeypatch):
  scores = {'CIDEr': np.array([1.0, 2.0])}
  monkeypatch.setattr(scoring, 'pycocoevalcap_scores', lambda *_: scores)
  monkeypatch.setattr(
    scoring, 'our_scores', lambda h, r, program: {'CIDEr': np.array([1.0, 2.0 + 1e-6])}
  )
  ticks = iter([0.0, 30.0, 30.0, 39.0, 39.0, 59.0, 59.0, 71.0])
  monkeypatch.setattr(scoring.time, 'perf_counter', lambda: next(ticks))
  processor_ticks = iter([0.0, 40.0, 40.0, 50.0, 50.0, 60.0, 60.0, 70.0])
  monkeypatch.setattr(scoring, '_processor_seconds', lambda: next(processor_ticks))
  rows = scoring.measure({'v': 'a'}, {'v': ['a']})
  assert [(row.value, row.ratio) for row in rows if row.unit == 's'] == [
    (30.0, None),
    (40.0, None),
    (9.0, pytest.approx(0.3)),
    (10.0, 0.25),
    (20.0, pytest.approx(2 / 3)),
    (10.0, 0.25),
    (12.0, pytest.approx(0.4)),
    (10.0, 0.25),
  ]
  assert [row.met for row in rows if row.unit != 's'] == [False, False, False]
  assert [row.met for row in rows if row.goal == scoring.GOAL] == [True]


def test_no_way_to_score_profits_from_the_one_before():
  meteor_words.stem_key('running')
  timed = scoring._timed(lambda: meteor_words.stem_key.cache_info().currsize)
  assert timed.scores == 0


def test_processor_time_is_that_of_other_processes_too():
  before = scoring._processor_seconds()
  subprocess.run([sys.executable, '-c', 'for _ in range(3_000_000): pass'], check=True)
  assert scoring._processor_seconds() > before + 0.02
