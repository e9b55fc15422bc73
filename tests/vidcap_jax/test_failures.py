"""One reason that all of the first inputs share is logged once."""

from vidcap_jax.failures import FIRST, FailureLog


def logged(*reasons):
  """The lines for inputs v0, v1, …, each with the reason why it failed, or None."""
  lines = []
  log = FailureLog(lines.append)
  for i, reason in enumerate(reasons):
    if reason is None:
      log.succeed()
    else:
      log.fail(f'v{i}', reason.format(id=f'v{i}'))
  log.close()
  return lines


def wrong_size(count):
  return ['features/{id}.npy: shape ' + f'({20 + i % 3}, 512)' for i in range(count)]


def test_a_reason_that_all_share_is_logged_once():
  first, count = logged(*wrong_size(900))
  assert first == 'v0: features/v0.npy: shape (20, 512)'
  assert count.startswith('900 inputs')


def test_fewer_inputs_are_all_logged():
  assert len(logged(*wrong_size(FIRST - 1))) == FIRST - 1
  assert len(logged(*wrong_size(FIRST))) == 2


def test_all_are_logged_if_one_of_the_first_inputs_differs():
  assert len(logged(*wrong_size(9), None, *wrong_size(90))) == 99
  assert len(logged(*wrong_size(9), '{id}.npy: damaged', *wrong_size(90))) == 100
  assert len(logged(None, *wrong_size(90))) == 90


def test_a_later_reason_is_logged_beside_the_shared_one():
  _, other, count = logged(*wrong_size(30), None, '{id}.npy: damaged', *wrong_size(5))
  assert 'damaged' in other
  assert count.startswith('35 inputs')


def test_nothing_is_logged_without_a_failure():
  assert logged() == logged(*[None] * 30) == []
