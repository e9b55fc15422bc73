import os
import signal
import threading
import time

import pytest

from vidcap_jax.training.signals import StopSignal


def _until(condition):
  """Handlers run between two steps of the interpreter, soon but not at once."""
  for _ in range(1000):
    if condition():
      return
    time.sleep(0.001)


@pytest.mark.parametrize(
  ('number', 'name'), [(signal.SIGTERM, 'SIGTERM'), (signal.SIGINT, 'Ctrl-C')]
)
def test_a_signal_is_noted_and_the_handlers_put_back(number, name, capfd):
  before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
  with StopSignal() as stop:
    assert not stop.received
    os.kill(os.getpid(), number)
    _until(lambda: stop.received)
    assert stop.received == number
  assert f'{name}: stopping after this step' in capfd.readouterr().err
  assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_second_ctrl_c_ends_at_once():
  def interrupt_twice():
    with StopSignal() as stop:
      os.kill(os.getpid(), signal.SIGINT)
      _until(lambda: stop.received)
      os.kill(os.getpid(), signal.SIGINT)
      _until(lambda: False)

  with pytest.raises(KeyboardInterrupt):
    interrupt_twice()


def test_outside_the_main_thread_nothing_is_caught():
  before, seen = signal.getsignal(signal.SIGTERM), []

  def run():
    with StopSignal() as stop:
      seen.append((stop.received, signal.getsignal(signal.SIGTERM)))

  thread = threading.Thread(target=run)
  thread.start()
  thread.join()
  assert seen == [(0, before)]
