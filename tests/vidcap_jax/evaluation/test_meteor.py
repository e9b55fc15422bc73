"""The METEOR child process: protocol, time limit, failures and its end."""

import os
import time

import pytest

from vidcap_jax.evaluation import meteor, scorers
from vidcap_jax.evaluation.java import MetricError

# Answers each SCORE line with the number of its fields as the first of 23 statistics, EVAL with
# those and their sum.
ECHO = """
for line in sys.stdin:
  head, *fields = line.rstrip('\\n').split(' ||| ')
  if head == 'SCORE':
    print(len(fields), *[0.0] * 22, flush=True)
  else:
    numbers = [int(field.split()[0]) for field in fields]
    for number in [*numbers, sum(numbers)]:
      print(number, flush=True)
"""


def gone(pid: int) -> bool:
  try:
    os.kill(pid, 0)
  except ProcessLookupError:
    return True
  return False


def test_one_answer_per_video_then_the_corpus(fake_java):
  fake_java(ECHO)
  with meteor.Meteor() as process:
    for _ in range(2):  # the process serves any number of scorings
      assert process.score(['a', 'b ||| c'], [['x'], ['y', 'z', 'w']]) == (6.0, [2.0, 4.0])
    pid = process._process.pid
    assert not gone(pid)
  assert gone(pid)


def test_progress_over_the_videos(fake_java, monkeypatch):
  shown = []

  def progress(items, total, label, first):
    shown.append((total, label, first))
    return items

  monkeypatch.setattr(meteor, 'progress', progress)
  fake_java(ECHO)
  with meteor.Meteor() as process:
    for label in ('', 'scoring test'):
      found = process.score_with_statistics(['a', 'b'], [['x'], ['y']], label)
      assert found[:2] == (4.0, [2.0, 2.0])
      assert found[2].shape == (2, 23)
  assert shown == [(2, 'scoring test', 'starting METEOR')]  # its start is not part of the rate


def test_a_run_over_the_time_limit_is_ended(fake_java):
  fake_java("print('loading', file=sys.stderr, flush=True)\ntime.sleep(60)")
  began = time.monotonic()
  with meteor.Meteor(time_limit=1.0) as process:
    pid = process._process.pid
    with pytest.raises(MetricError, match=r'2 videos within 1 s .*stderr: loading'):
      process.score(['a', 'b'], [['x'], ['y']])
    assert gone(pid)
  assert time.monotonic() - began < 10


@pytest.mark.parametrize(
  ('body', 'message'),
  [
    ("sys.exit('no heap')", r'METEOR failed: .* \(stderr: no heap\)'),
    (
      "sys.stdin.readline(); print('1 2', flush=True); sys.exit('died')",
      '(output ended|Broken pipe).*died',
    ),
    ("[print('0,5', flush=True) for _ in sys.stdin]", "could not convert string to float: '0,5'"),
  ],
)
def test_errors_contain_stderr(fake_java, body, message):
  fake_java(body)
  process = meteor.Meteor()
  pid = process._process.pid
  with pytest.raises(MetricError, match=message):
    process.score(['a'], [['x']])
  assert gone(pid)


def test_the_process_ends_with_the_object(fake_java):
  fake_java('time.sleep(60)')
  process = meteor.Meteor()
  pid = process._process.pid
  del process
  assert gone(pid)


def test_an_error_of_another_metric_ends_a_hanging_meteor(fake_java, monkeypatch):
  from vidcap_jax.evaluation import metrics, ptb_tokenizer

  fake_java('time.sleep(60)')
  monkeypatch.setattr(ptb_tokenizer, 'tokenize', lambda captions, **_: list(captions))
  monkeypatch.setitem(scorers.SCORERS, 'numpy', lambda *a: 1 / 0)
  began = time.monotonic()
  with pytest.raises(ZeroDivisionError):
    metrics.score({'v': 'a'}, {'v': ['a']})
  assert time.monotonic() - began < 10


def test_java_runs_in_an_english_locale(fake_java):
  """Java takes options before the program; after it they would be METEOR's."""
  fake_java(f"""
options = sys.argv[:sys.argv.index('-jar')]
english = {{'-Duser.language=en', '-Duser.country=US'}} <= set(options)
if not english: sys.exit('0,5')
{ECHO}""")
  with meteor.Meteor() as process:
    assert process.score(['a'], [['x']]) == (2.0, [2.0])


@pytest.mark.slow
def test_statistics_give_the_scores_of_videos_and_of_the_corpus(running_meteor):
  hypotheses = ['a dog runs', 'a dog runs fast', '', 'the man plays the guitar on a stage', 'zebra']
  references = [
    ['a dog runs', 'it runs'],  # the same words in the same order
    ['a dog is running quickly', 'dogs run'],  # a stem, a synonym or a paraphrase
    ['a cat'],
    ['on a stage a man is playing guitar'],
    ['two dogs'],
  ]
  corpus, videos, statistics = running_meteor.score_with_statistics(hypotheses, references)
  assert meteor.score_of_statistics(statistics) == pytest.approx(videos, abs=1e-12)
  assert meteor.score_of_statistics(statistics.sum(axis=0)) == pytest.approx(corpus, abs=1e-12)
  assert 0 < corpus < 1
  assert statistics[0, 20] == 0  # no chunk


@pytest.mark.slow
def test_real_scores_ignore_a_comma_locale(running_meteor):
  corpus, videos = running_meteor.score(['a dog runs', ''], [['a dog is running'], ['a cat']])
  assert 0 < corpus < 1
  assert videos[0] > corpus
  assert videos[1] == 0
