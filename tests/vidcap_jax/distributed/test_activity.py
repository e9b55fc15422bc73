"""How long the main thread has worked on a part of a run."""

import pytest

from vidcap_jax.distributed import activity
from vidcap_jax.training.ledger import PARTS, WORK


@pytest.fixture
def clock(monkeypatch):
  """The seconds that ``time.monotonic`` returns."""
  now = [100.0]
  monkeypatch.setattr(activity.time, 'monotonic', lambda: now[0])
  return now


def test_a_part_may_take_its_share_of_the_time(clock):
  for part, share in activity.SHARES.items():
    with activity.doing(part):
      clock[0] += 10 * share
      assert activity.find_stall(10) == ''
      clock[0] += 1
      assert activity.find_stall(10) == f'{10 * share + 1} s of {part.replace("_", " ")}'
      assert activity.find_stall(0) == ''


def test_the_outer_part_begins_anew_after_an_inner_one(clock):
  with activity.doing('stepping'):
    clock[0] += 9
    with activity.doing('saving'):
      clock[0] += 9
    clock[0] += 9
    assert activity.find_stall(10) == ''
    clock[0] += 2
    assert activity.find_stall(10) == '11 s of stepping'


def test_other_parts_have_no_limit(clock):
  with activity.doing('setting_up'):
    clock[0] += 1e6
    assert activity.find_stall(10) == ''


def test_a_process_that_was_suspended(clock):
  with activity.doing('stepping'):
    clock[0] += 1000
    activity.restart()
    assert activity.find_stall(10) == ''


def test_all_work_of_a_run_has_a_limit():
  assert set(activity.SHARES) <= set(PARTS)
  assert set(WORK) <= set(activity.SHARES)
