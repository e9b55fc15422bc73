import io
import itertools

import pytest

from vidcap_jax import progress as module
from vidcap_jax.progress import duration, progress


class Terminal(io.StringIO):
  def isatty(self):
    return True


@pytest.fixture
def clock(monkeypatch):
  """Each reading of the clock is ten seconds later."""
  ticks = itertools.count(0, 10)
  monkeypatch.setattr(module.time, 'monotonic', lambda: float(next(ticks)))


def test_log_gets_a_line_at_intervals(clock):
  stream = io.StringIO()
  assert list(progress(range(6), 6, 'reading', stream=stream)) == list(range(6))
  assert stream.getvalue().splitlines() == [
    'reading: 2/6 videos, 0.1/s, 40s left',
    'reading: 4/6 videos, 0.1/s, 20s left',
    'reading: 6/6 videos, 0.1/s, 0s left',
  ]


def test_compilation_is_shown_and_not_part_of_the_rate(monkeypatch):
  ticks = iter([0, 60, 80, 100])  # the start, and the end of each item
  monkeypatch.setattr(module.time, 'monotonic', lambda: float(next(ticks)))
  stream = io.StringIO()
  items = progress(range(3), 50, 'captioning', each=20, first='compiling', stream=stream)
  next(items)
  assert stream.getvalue() == 'captioning: 0/50 videos, compiling\n'
  list(items)
  assert stream.getvalue().splitlines()[1:] == [
    'captioning: 40/50 videos, 1.0/s, 10s left',
    'captioning: 50/50 videos, 0.8/s, 0s left',
  ]


# What ipykernel's stream, which is no terminal, looks like.
Notebook = type('OutStream', (io.StringIO,), {'__module__': 'ipykernel.iostream'})


@pytest.mark.parametrize('kind', [Terminal, Notebook])
def test_terminal_line_is_rewritten_and_cleared(clock, kind):
  stream = kind()
  list(progress('ab', 2, 'writing', unit='shards', stream=stream))
  shown = stream.getvalue().split('\r')
  assert shown[1].rstrip() == 'writing: 1/2 shards, 0.1/s, 10s left'
  assert shown[-2:] == [' ' * 79, '']


def test_short_work_prints_nothing():
  stream = Terminal()
  assert list(progress([], 0, 'x', stream=stream)) == []
  list(progress(range(3), 3, 'x', stream=stream))
  assert stream.getvalue() == ''


def test_line_is_cleared_when_work_stops_early(clock):
  stream = Terminal()
  items = progress(range(3), 3, 'x', stream=stream)
  next(items)
  next(items)
  assert stream.getvalue().startswith('\rx: 1/3')
  items.close()
  assert stream.getvalue().endswith('\r')


def test_durations():
  assert [duration(s) for s in (0.4, 59, 59.6, 200, 7500)] == [
    *('0s', '59s', '1m00s', '3m20s', '2h05m')
  ]
