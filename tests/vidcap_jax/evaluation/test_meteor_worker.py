"""The second process of METEOR in Python."""

import io
import json
import sys

import numpy as np

from vidcap_jax.evaluation import meteor_worker


def test_json_in_and_an_array_out(monkeypatch):
  monkeypatch.setattr(
    meteor_worker, 'best_statistics', lambda h, r: np.array([[len(h), len(r[0])]], float)
  )
  out = io.TextIOWrapper(io.BytesIO())
  monkeypatch.setattr(sys, 'stdin', io.StringIO(json.dumps([['a', 'b'], [['x', 'y', 'z'], ['u']]])))
  monkeypatch.setattr(sys, 'stdout', out)
  meteor_worker.main()
  assert np.load(io.BytesIO(out.buffer.getvalue())).tolist() == [[2, 3]]
