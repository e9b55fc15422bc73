"""Where the time of a run went: ``goodput.json``, over all its starts.

Every second from the first start to the last is in one part of ``PARTS``, so that they add up. A
process that is killed leaves the file as its last heartbeat wrote it; the next start reads it,
counts the time until then as stopped, and moves the work since the restored checkpoint to
``lost``.
"""

import collections
import contextlib
import functools
import os
import pathlib
import threading
import time
from collections.abc import Callable, Iterator

import jax
from etils import epath

from vidcap_jax.distributed import activity
from vidcap_jax.distributed.hardware import describe_hardware
from vidcap_jax.errors import DataError
from vidcap_jax.files import read_json, write_json
from vidcap_jax.progress import duration

NAME = 'goodput.json'
BEAT_SECONDS = 10.0
# Parts that a kill undoes as far as nothing has been saved of them, and which are then lost.
WORK = ('stepping', 'waiting_for_input', 'saving', 'evaluating')
# Compiling is what the main thread compiles or waits for; restarting, all that a start after the
# first does before its work; stopped, the time in which no process ran.
PARTS = (*WORK, 'compiling', 'setting_up', 'restarting', 'lost', 'stopped')
# JAX's events of tracing, lowering and compiling begin with the first. The second is recorded by
# ``compiled`` while the main thread waits for another one to compile.
_COMPILE_EVENTS = ('/jax/core/compile/', WAIT_EVENT := '/vidcap_jax/wait_for_compilation')
_START = 'start'
_MOST_MARKS = 20


class Ledger:
  """Measures the time of one start and adds it to those before; a context.

  Attributes:
    starts: of the run, with this one.
  """

  def __init__(
    self, folder: epath.Path | None, log: Callable[[str], None], began: float | None = None
  ):
    """Reads the file of the starts before.

    Args:
      folder: of the run; None on processes that write nothing.
      log: prints a line.
      began: when the process began, in seconds since the epoch; None: now.
    """
    self._path, self._log = folder and folder / NAME, log
    self._hardware = describe_hardware() if folder else ''
    self._clock_zero = time.time() - time.perf_counter()
    self._thread = threading.get_ident()
    self._lock = threading.RLock()
    self._compilations: list[tuple[float, float]] = []  # beginning and seconds, none inside another
    self._seconds = dict.fromkeys(PARTS, 0.0)
    self._marks = collections.OrderedDict({_START: dict(self._seconds)})
    self._since = self._now() if began is None else began
    self._began, self.starts = self._since, 1
    self._finished = self._idle = False  # idle: a finished run, to which nothing is added
    self._load()
    self._before = dict(self._seconds)
    self._stack = ['setting_up' if self.starts == 1 else 'restarting']
    if self.starts > 1:
      self.resume(next(reversed(self._marks)))
    self._closed = threading.Event()
    self._heartbeat = threading.Thread(target=self._beat, name='ledger', daemon=True)

  def _load(self) -> None:
    if self._path is None or not self._path.is_file():
      return
    try:
      saved = read_json(self._path)
    except DataError as error:
      self._log(f'{error}; the ledger begins anew')
      return
    self._began, self.starts = saved['began'], saved['starts'] + 1
    self._seconds |= saved['seconds']
    self._marks = collections.OrderedDict(saved['marks'])
    self._idle = saved['finished']
    self._since = max(self._since, saved['updated'])
    self._seconds['stopped'] += self._since - saved['updated']

  def __enter__(self) -> 'Ledger':
    _listen()
    _open_ledgers.append(self)
    if self.starts > 1:
      self._write()  # even if it is killed before its first heartbeat, this start has been one
    self._heartbeat.start()
    return self

  def __exit__(self, *_) -> None:
    _open_ledgers.remove(self)
    self._closed.set()
    self._heartbeat.join()
    self._write()

  @contextlib.contextmanager
  def measure(self, part: str) -> Iterator[None]:
    """A context whose time goes to a part of ``PARTS``; for the thread that made the ledger.

    Inside another one, its time is not counted for the outer part.
    """
    with self._lock:
      self._count()
      self._stack[0] = 'setting_up'  # the restart is over
      self._stack.append(part)
      self._idle = self._idle and part != 'stepping'
    try:
      with activity.doing(part):
        yield
    finally:
      with self._lock:
        self._count()
        self._stack.pop()

  def read(self) -> dict[str, float]:
    """The seconds of each part until now."""
    with self._lock:
      self._count()
      return dict(self._seconds)

  def mark(self, name: str) -> None:
    """Notes that what was done until now can be read back: ``resume`` of this name loses nothing.

    Args:
      name: of a checkpoint or of another result that is kept.
    """
    with self._lock:
      self._marks.pop(name, None)
      self._marks[name] = self.read()
      while len(self._marks) > _MOST_MARKS:
        self._marks.popitem(last=False)
      self._idle = False
    self._write()

  def resume(self, name: str) -> None:
    """Counts the work that starts before this one did after a mark as lost.

    Args:
      name: of what this start goes on from; without a mark of this name nothing changes.
    """
    with self._lock:
      if name not in self._marks:
        return
      for part in WORK:
        lost = max(0.0, self._before[part] - self._marks[name][part])
        self._before[part] -= lost
        self._seconds[part] -= lost
        self._seconds['lost'] += lost
      while next(reversed(self._marks)) != name:
        self._marks.popitem()

  def finish(self) -> None:
    """Ends the run: prints where its time went, unless this start had nothing to do."""
    if self._idle:
      return
    self._finished = True
    self.mark('end')
    self._log(summary(self.read(), self.starts))

  def _now(self) -> float:
    return self._clock_zero + time.perf_counter()

  def _count(self) -> None:
    """Adds the time since the last call to the current part."""
    now = self._now()
    self._seconds[self._stack[-1]] += now - self._since
    self._since = now

  def move_compilation(self, seconds: float) -> None:
    """Moves the time of a compilation, which has just ended in this thread, to its part."""
    if threading.get_ident() != self._thread:
      return
    with self._lock:
      began, inside = self._now() - seconds, 0.0
      while self._compilations and self._compilations[-1][0] >= began:
        inside += self._compilations.pop()[1]
      self._compilations.append((began, max(seconds, inside)))
      self._seconds['compiling'] += max(0.0, seconds - inside)
      self._seconds[self._stack[-1]] -= max(0.0, seconds - inside)

  def _beat(self) -> None:
    while not self._closed.wait(BEAT_SECONDS):
      with contextlib.suppress(OSError):  # of which the main thread's own writing will report
        self._write()

  def _write(self) -> None:
    with self._lock:
      if self._path is None or self._idle:
        return
      seconds = self.read()
      contents = {
        'starts': self.starts,
        'began': self._began,
        'updated': self._since,
        'wall_seconds': self._since - self._began,
        'seconds': seconds,
        'finished': self._finished,
        'hardware': self._hardware,
        'marks': self._marks,
      }
      write_json(self._path, contents)


_open_ledgers: list[Ledger] = []


@functools.cache
def _listen() -> None:
  """Makes JAX report its compilations; once, since not every version of it can undo that."""
  jax.monitoring.register_event_duration_secs_listener(_on_event)


def _on_event(event: str, duration_secs: float, **kwargs: str | int) -> None:
  if event.startswith(_COMPILE_EVENTS):
    for ledger in _open_ledgers:
      ledger.move_compilation(duration_secs)


def summary(seconds: dict[str, float], starts: int) -> str:
  """The line at the end of a run."""
  ran = sum(seconds.values()) - seconds['stopped']
  share = 100 * seconds['stepping'] / max(ran, 1e-9)
  rest = ', '.join(
    f'{part.replace("_", " ")} {duration(seconds[part])}'
    for part in PARTS
    if part not in ('stepping', 'stopped') and seconds[part] >= 0.5
  )
  often = f' in {starts} starts, stopped for {duration(seconds["stopped"])} between them'
  line = f'goodput {share:.0f} %: {duration(seconds["stepping"])} of {duration(ran)} were steps'
  return line + (often if starts > 1 else '') + (f'; {rest}' if rest else '')


def process_began() -> float:
  """When this process began, in seconds since the epoch; the time now where that is not known."""
  now = time.time()
  try:
    ticks = int(pathlib.Path('/proc/self/stat').read_text().rpartition(')')[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf('SC_CLK_TCK')
  except (OSError, ValueError, IndexError, AttributeError):
    return now
  return now - age if 0 <= age < 86400 else now
