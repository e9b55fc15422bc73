import pytest

from vidcap_jax.training import ledger as ledger_module
from vidcap_jax.training.clock import Clock
from vidcap_jax.training.ledger import Ledger


@pytest.fixture
def now(monkeypatch):
  """A fake clock: ``now(seconds)`` lets time pass."""
  seconds = [100.0]
  monkeypatch.setattr(ledger_module.time, 'perf_counter', lambda: seconds[0])

  def wait(more):
    seconds[0] += more

  return wait


@pytest.fixture
def ledger(now):
  """That of a training loop."""
  made = Ledger(None, print)
  with made.measure('stepping'):
    yield made


def test_clock_reads_rate_and_input_wait_since_the_last_reading(now, ledger):
  def batches():
    for _ in range(4):
      now(1.0)
      yield 'batch'

  clock = Clock(0, 100, ledger)
  readings = []
  for step, _ in enumerate(clock.watch(batches()), 1):
    now(3.0)
    clock.captions += 8
    if step % 2 == 0:
      readings.append(clock.read(step))
  expected = {'captions_per_second': 2.0, 'input_wait': 0.25, 'seconds': 8.0}
  assert readings == [pytest.approx(expected)] * 2


def test_clock_leaves_out_validation_saves_and_compilations(now, ledger):
  clock = Clock(0, 10, ledger)
  clock.captions = 10
  now(2.0)
  with ledger.measure('evaluating'):
    now(50.0)
    with ledger.measure('saving'):
      now(5.0)
  now(40.0)
  ledger.move_compilation(40.0)
  assert clock.read(1)['captions_per_second'] == pytest.approx(5.0)
  assert clock.line(1, RECORD).endswith('ETA 18s')


def test_the_first_step_is_left_out(now, ledger):
  clock = Clock(0, 10, ledger)
  clock.captions = 8
  now(100.0)
  clock.restart(1)
  clock.captions = 16
  now(2.0)
  assert clock.read(3)['captions_per_second'] == pytest.approx(8.0)
  assert clock.line(3, RECORD).endswith('ETA 7s')


RECORD = {
  'epoch': 1.5,
  'loss': 2.71828,
  'smooth_loss': 3.14159,
  'learning_rate': 4e-4,
  'captions_per_second': 123.4,
  'input_wait': 0.256,
}


def test_progress_line(now, ledger):
  clock = Clock(10, 100, ledger)
  now(20.0)
  clock.read(20)  # 2 s a step
  line = clock.line(20, RECORD)
  assert line == (
    'step 20/100 epoch 1.50 loss 2.718 (mean 3.142) lr 0.0004 | 123 captions/s, input wait 26 %, '
    'ETA 2m40s'
  )
  now(5.0)
  clock.read(30)  # 0.5 s a step
  assert clock.line(30, RECORD).endswith('ETA 35s')
