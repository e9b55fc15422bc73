"""Every second of a run is in one part, over kills and restarts."""

import json
import os
import threading

import jax
import jax.numpy as jnp
import pytest
from etils import epath

from vidcap_jax.training import ledger as ledger_module
from vidcap_jax.training.ledger import PARTS, Ledger, process_began, summary


class Run:
  """Starts of a run on a fake clock, in a folder.

  Attributes:
    lines: what was logged.
  """

  def __init__(self, folder, monkeypatch):
    self.folder, self.lines = epath.Path(folder), []
    self._seconds = 1000.0
    monkeypatch.setattr(ledger_module.time, 'perf_counter', lambda: self._seconds)
    monkeypatch.setattr(ledger_module.time, 'time', lambda: 1e9 + self._seconds)
    monkeypatch.setattr(ledger_module, 'BEAT_SECONDS', 1e6)  # nothing by itself

  def wait(self, seconds):
    self._seconds += seconds

  def start(self) -> Ledger:
    return Ledger(self.folder, self.lines.append)

  def saved(self) -> dict:
    return json.loads((self.folder / 'goodput.json').read_text())

  def parts(self) -> dict:
    """The saved parts that are not 0; all must add up to the time from the first start."""
    saved = self.saved()
    assert saved['seconds'].keys() == set(PARTS)
    assert sum(saved['seconds'].values()) == pytest.approx(saved['wall_seconds'])
    assert saved['wall_seconds'] == pytest.approx(saved['updated'] - saved['began'])
    return {part: pytest.approx(s) for part, s in saved['seconds'].items() if s}


@pytest.fixture
def run(tmp_path, monkeypatch):
  return Run(tmp_path, monkeypatch)


def work(run, ledger, *, wait=1.0, step=4.0, evaluate=0.0, save=0.0):
  """Part of a training loop; the time inside a part is not counted for the one around it."""
  with ledger.measure('stepping'):
    with ledger.measure('waiting_for_input'):
      run.wait(wait)
    run.wait(step)
    with ledger.measure('evaluating'):
      run.wait(evaluate)
      with ledger.measure('saving'):
        run.wait(save)


def test_the_parts_of_a_run_without_interruption(run):
  with run.start() as ledger:
    run.wait(10)
    work(run, ledger, evaluate=7, save=2)
    run.wait(3)
    ledger.finish()
  expected = {'setting_up': 13, 'stepping': 4, 'waiting_for_input': 1, 'evaluating': 7, 'saving': 2}
  assert run.parts() == expected
  assert (run.saved()['starts'], run.saved()['finished']) == (1, True)
  assert len(run.lines) == 1


def test_what_a_kill_undid_is_lost(run):
  """Steps, waiting and validation since the checkpoint; the time of compiling stays what it is."""
  ledger = run.start()  # not as a context: a process that is killed does not end it
  run.wait(10)
  ledger.mark('xe/0')
  work(run, ledger)
  ledger.mark('xe/5')
  work(run, ledger, evaluate=20)
  ledger.mark('xe/10')  # the save had begun, but was not finished at the kill
  work(run, ledger)
  ledger._write()  # the last heartbeat
  run.wait(100)
  with run.start() as ledger:
    run.wait(6)
    ledger.resume('xe/5')
    work(run, ledger)
    run.wait(2)
    ledger.finish()
  assert run.parts() == {
    'setting_up': 12,
    'stepping': 4 + 4,
    'waiting_for_input': 1 + 1,
    'lost': 2 * (4 + 1) + 20,
    'stopped': 100,
    'restarting': 6,
  }
  assert run.saved()['starts'] == 2


def test_a_kill_before_the_first_checkpoint_and_two_in_a_row(run):
  for lost in (5, 10, 15):
    ledger = run.start()
    ledger.resume('xe/0')
    ledger.mark('xe/0')
    work(run, ledger)
    ledger._write()
    del ledger
    with_lost = run.parts()
    assert with_lost.get('lost', 0) == lost - 5
    assert with_lost['stepping'] == 4


def test_without_a_resumed_checkpoint_the_work_since_the_last_result_is_lost(run):
  """A kill during the evaluation of a finished stage."""
  ledger = run.start()
  work(run, ledger)
  ledger.mark('stage xe')
  with ledger.measure('evaluating'):
    run.wait(30)
  ledger._write()
  with run.start() as ledger, ledger.measure('evaluating'):
    run.wait(40)
  expected = {'stepping': 4, 'waiting_for_input': 1, 'lost': 30, 'evaluating': 40}
  assert run.parts() == expected


def test_a_stop_after_a_save_loses_nothing(run):
  with run.start() as ledger:
    work(run, ledger, save=1)
    ledger.mark('xe/5')
  run.wait(50)
  with run.start() as ledger:
    ledger.resume('xe/5')
    work(run, ledger)
  assert run.parts() == {'stepping': 8, 'waiting_for_input': 2, 'saving': 1, 'stopped': 50}


def test_a_finished_run_is_left_as_it_is_until_there_is_work(run):
  with run.start() as ledger:
    work(run, ledger)
    ledger.finish()
  before = run.saved()
  run.wait(1000)
  with run.start() as ledger:
    run.wait(5)
    ledger.finish()
  assert run.saved() == before
  assert len(run.lines) == 1
  with run.start() as ledger:
    with ledger.measure('evaluating'):
      run.wait(3)
    ledger.mark('scores of xe on test')
    ledger.finish()
  assert run.parts()['evaluating'] == 3
  assert run.parts()['stopped'] == 1005
  assert len(run.lines) == 2


def test_compilations_are_moved_to_their_part(run):
  def compile_program(seconds):
    run.wait(seconds)
    jax.monitoring.record_event_duration_secs('/jax/core/compile/some_duration', seconds)

  with run.start() as ledger:
    compile_program(2)
    with ledger.measure('stepping'):
      run.wait(1)
      compile_program(3)  # inside the next one
      run.wait(1)
      jax.monitoring.record_event_duration_secs('/jax/core/compile/whole_duration', 4.5)
      run.wait(1)
      jax.monitoring.record_event_duration_secs('/jax/other_duration', 1)
      # what another thread compiles meanwhile does not keep this one waiting
      other = threading.Thread(target=compile_program, args=(0,))
      other.start()
      other.join()
  assert run.parts() == {'compiling': 2 + 4.5, 'stepping': 6 - 4.5}


def test_jax_reports_its_compilations(tmp_path):
  """In real time: without this event the time would silently be that of steps."""
  with Ledger(epath.Path(tmp_path), print) as ledger, ledger.measure('stepping'):
    before = ledger.read()
    jax.jit(lambda x: jnp.tanh(x) @ x)(jnp.ones(11))
    after = ledger.read()
  compiling, stepping = (after[part] - before[part] for part in ('compiling', 'stepping'))
  assert compiling > 0.001
  assert stepping < 5 * compiling


def test_heartbeats_are_written_while_the_main_thread_works(tmp_path, monkeypatch):
  monkeypatch.setattr(ledger_module, 'BEAT_SECONDS', 0.01)
  with Ledger(epath.Path(tmp_path), print), Ledger(None, print):
    waited = threading.Event()
    for _ in range(1000):
      waited.wait(0.01)
      if (tmp_path / 'goodput.json').is_file():
        break
  assert json.loads((tmp_path / 'goodput.json').read_text())['seconds']['setting_up'] > 0
  assert os.listdir(tmp_path) == ['goodput.json']


def test_a_damaged_file_begins_anew(run):
  (run.folder / 'goodput.json').write_text('{"starts": 1')
  with run.start() as ledger:
    run.wait(2)
    ledger.mark('xe/0')
  assert 'goodput.json' in run.lines[0]
  assert run.parts() == {'setting_up': 2}


def test_only_a_few_marks_are_kept(run):
  with run.start() as ledger:
    for step in range(100):
      ledger.mark(f'xe/{step}')
  marks = run.saved()['marks']
  assert len(marks) == 20
  assert list(marks)[-1] == 'xe/99'


def test_the_line_at_the_end():
  seconds = dict.fromkeys(PARTS, 0.0) | {
    'stepping': 3600,
    'lost': 300,
    'compiling': 60,
    'stopped': 9,
  }
  line = summary(seconds, 3)
  assert line.startswith('goodput 91 %: 1h00m of 1h06m')
  assert all(part in line for part in ('3 starts', 'lost 5m00s', 'compiling 1m00s', '9s'))
  assert 'saving' not in line


def test_when_this_process_began():
  age = ledger_module.time.time() - process_began()
  assert 0 < age < 86400
