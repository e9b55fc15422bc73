"""Results as text, JSON and HTML."""

import json

import numpy as np

from vidcap_jax.inference.result import Candidate, Result, Results
from vidcap_jax.models.attention_axes import Attention, AttentionAxes

ONE = Result('a', 'a <b> dog', -1.25, captions=(Candidate('a <b> dog', -1.25),))
TWO = Result('b', 'x', -1.0, captions=(Candidate('x', -1.0), Candidate('y & z', -2.0)))
FAILED = Result('<c>', error='c.mp4: no such <file>', source='c.mp4')


def test_json():
  assert json.loads(json.dumps(ONE.to_dict())) == {
    'video_id': 'a',
    'caption': 'a <b> dog',
    'log_prob': -1.25,
  }
  assert [each['caption'] for each in TWO.to_dict()['captions']] == ['x', 'y & z']
  assert FAILED.to_dict() == {'video_id': '<c>', 'error': 'c.mp4: no such <file>'}


def test_a_table_in_notebooks():
  table = Results([ONE, TWO, FAILED])._repr_html_()
  assert table.count('<tr>') == 1 + 1 + 2 + 1
  assert 'a &lt;b&gt; dog' in table
  assert 'y &amp; z' in table
  assert 'no such &lt;file&gt;' in table
  assert '<b>' not in table
  assert '-1.250' in ONE._repr_html_()


def test_text():
  results = Results([ONE, FAILED])
  assert str(results).splitlines() == ['a: a <b> dog', '<c>: error: c.mp4: no such <file>']
  assert results.failed == [FAILED]
  assert 'captions=2' in repr(TWO)
  attention = Attention('t', AttentionAxes(('frames',), 'image'), np.ones((3, 2)), np.arange(2))
  assert "['t']" in repr(Result('a', 'a b c', -1.0, attention={'t': attention}))
  assert (ONE.words, FAILED.words, Result('a', '', -1.0).words) == (('a', '<b>', 'dog'), (), ())
