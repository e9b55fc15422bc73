"""What a run writes down: ``metrics.jsonl``, and TensorBoard files made from it.

``metrics.jsonl`` is the one source: when a stage is resumed, lines after the restored step are cut
off and the stage's TensorBoard files are written anew from what is left.

Nothing can be appended in an object store: there the whole file is written by ``flush``, and no
TensorBoard files are made.
"""

import contextlib
import json
import math
import shutil
import time
from collections.abc import Mapping

import numpy as np
from etils import epath

from vidcap_jax.errors import DataError
from vidcap_jax.files import is_local, named, write_text

# Fields that differ between equal runs; everything else is reproducible.
TIMING = ('captions_per_second', 'input_wait', 'seconds')


class Journal:
  """Appends records of a stage to WORKDIR/metrics.jsonl and WORKDIR/tensorboard/STAGE."""

  def __init__(self, workdir: epath.PathLike, stage: str, *, step: int, tensorboard: bool = True):
    """Opens for writing from ``step`` on: later records of this stage are removed."""
    workdir = epath.Path(workdir)
    self.path = workdir / 'metrics.jsonl'
    self.stage = stage
    kept = [r for r in read_journal(workdir) if r['stage'] != stage or r['step'] <= step]
    self._lines = [json.dumps(r) + '\n' for r in kept]
    self._file = self._board = None
    self.flush()
    if is_local(self.path):
      self._file = self.path.open('a')
    self._shown = workdir / 'tensorboard' / stage
    if tensorboard and self._file:
      # Not SummaryWriter: when its thread ends, on a full disk, the next records wait for ever.
      from tensorboardX.event_file_writer import EventsWriter

      shutil.rmtree(self._shown, ignore_errors=True)
      self._shown.mkdir(parents=True, exist_ok=True)
      with named(self._shown):
        self._board = EventsWriter(str(self._shown / 'events'))
      for record in kept:
        if record['stage'] == stage:
          self._to_board(record)

  def write(self, step: int, kind: str, values: Mapping[str, float]) -> None:
    """Adds a record; ``kind`` is 'train' or the name of a split. Not-finite values become null."""
    plain = {k: _plain(v) for k, v in values.items()}
    record = {'stage': self.stage, 'step': step, 'kind': kind, **plain}
    line = json.dumps(record) + '\n'
    if self._file:
      with named(self.path):
        self._file.write(line)
        self._file.flush()
    else:
      self._lines.append(line)
    self._to_board(record)

  def flush(self) -> None:
    """Afterwards all records are in the file: to be called before a checkpoint counts on them."""
    if self._file is None:
      write_text(self.path, ''.join(self._lines))
    if self._board is not None:
      with named(self._shown):
        self._board.flush()

  def _to_board(self, record: Mapping) -> None:
    if self._board is None:
      return
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.summary import scalar

    for name, value in record.items():
      if isinstance(value, int | float) and name != 'step':
        summary = scalar(f'{record["kind"]}/{name}', value)
        with named(self._shown):
          self._board.write_event(
            Event(wall_time=time.time(), step=record['step'], summary=summary)
          )

  def close(self) -> None:
    """Flushes and closes all, though one of them fails."""
    with contextlib.ExitStack() as at_end:
      for writer, path in ((self._board, self._shown), (self._file, self.path)):
        if writer is not None:
          at_end.callback(named(path)(writer.close))
      self.flush()


def read_journal(workdir: epath.PathLike) -> list[dict]:
  """All whole records of a run's metrics.jsonl; a last line cut short by a kill is left out.

  Raises:
    DataError: a damaged line before the last.
  """
  path = epath.Path(workdir) / 'metrics.jsonl'
  records = []
  if path.is_file():
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
      try:
        record = json.loads(line)
      except ValueError:
        if number == len(lines):
          break
        record = None
      if not isinstance(record, dict) or not {'stage', 'step'} <= record.keys():
        raise DataError(f'{path}, line {number}: no record of a run; mend or remove that line')
      records.append(record)
  return records


def _plain(value):
  """A value that JSON has: Python's numbers for numpy's, None for what is not finite."""
  value = value.item() if isinstance(value, np.generic) else value
  return None if isinstance(value, float) and not math.isfinite(value) else value
