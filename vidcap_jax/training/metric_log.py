"""The metrics of a run: ``metrics.jsonl``, and TensorBoard files made from it.

When a stage is resumed, its records after the restored step are removed from ``metrics.jsonl`` and
its TensorBoard files are written again from the remaining records.

Object stores can't append to a file: there ``flush`` writes the whole file, and no TensorBoard
files are made.
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


class MetricLog:
  """Appends records of a stage to WORKDIR/metrics.jsonl and WORKDIR/tensorboard/STAGE."""

  def __init__(self, workdir: epath.PathLike, stage: str, *, step: int, tensorboard: bool = True):
    """Opens for writing from ``step`` on: later records of this stage are removed."""
    workdir = epath.Path(workdir)
    self.path = workdir / 'metrics.jsonl'
    self.stage = stage
    records = [r for r in read_metric_log(workdir) if r['stage'] != stage or r['step'] <= step]
    self._lines = [json.dumps(r) + '\n' for r in records]
    self._file = self._board = None
    self.flush()
    if is_local(self.path):
      self._file = self.path.open('a')
    self._board_folder = workdir / 'tensorboard' / stage
    if tensorboard and self._file:
      # Not SummaryWriter: once its thread has ended, on a full disk, writing blocks for ever.
      from tensorboardX.event_file_writer import EventsWriter

      shutil.rmtree(self._board_folder, ignore_errors=True)
      self._board_folder.mkdir(parents=True, exist_ok=True)
      with named(self._board_folder):
        self._board = EventsWriter(str(self._board_folder / 'events'))
      for record in records:
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
    """Writes all records to the file; to be called before a checkpoint is saved."""
    if self._file is None:
      write_text(self.path, ''.join(self._lines))
    if self._board is not None:
      with named(self._board_folder):
        self._board.flush()

  def _to_board(self, record: Mapping) -> None:
    if self._board is None:
      return
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.summary import scalar

    for name, value in record.items():
      if isinstance(value, int | float) and name != 'step':
        summary = scalar(f'{record["kind"]}/{name}', value)
        with named(self._board_folder):
          self._board.write_event(
            Event(wall_time=time.time(), step=record['step'], summary=summary)
          )

  def close(self) -> None:
    """Flushes and closes all files, even if one of them fails."""
    with contextlib.ExitStack() as at_end:
      for writer, path in ((self._board, self._board_folder), (self._file, self.path)):
        if writer is not None:
          at_end.callback(named(path)(writer.close))
      self.flush()


def read_metric_log(workdir: epath.PathLike) -> list[dict]:
  """All records of a run's metrics.jsonl, without a last line that a kill has cut short.

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
        raise DataError(f'{path}, line {number}: no record of a run; correct or remove that line')
      records.append(record)
  return records


def _plain(value):
  """A value as JSON can hold it: Python's numbers for numpy's, None for one that is not finite."""
  value = value.item() if isinstance(value, np.generic) else value
  return None if isinstance(value, float) and not math.isfinite(value) else value
