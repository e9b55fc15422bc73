"""The metrics of a run: ``metrics.jsonl``, and TensorBoard files made from it.

When a stage is resumed, its records after the restored step are removed from ``metrics.jsonl`` and
its TensorBoard files of numbers are written again from the remaining records. Those of captions
are kept; captions of a step that is computed again are the same.

Object stores can't append to a file: there ``flush`` writes the whole file, and no TensorBoard
files are made.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import math
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from vidcap_jax.errors import DataError
from vidcap_jax.files import is_local, named, write_text

# The beginnings of the names of TensorBoard files.
NUMBERS, CAPTIONS, PICTURES = 'events', 'captions', 'pictures'

# Fields that differ between equal runs; everything else is reproducible.
TIMING = ('captions_per_second', 'input_wait', 'seconds')


@dataclasses.dataclass(frozen=True)
class Sample:
  """A video's caption by the model, and one of its references."""

  video_id: str
  caption: str
  reference: str


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
    self._boards = contextlib.ExitStack()
    if tensorboard and self._file:
      for file in self._board_folder.glob(f'{NUMBERS}.*'):
        file.unlink()
      self._board = self._open_board(NUMBERS)
      for record in records:
        if record['stage'] == stage:
          self._to_board(record)

  def write(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
    """Adds a record; ``kind`` is 'train' or the name of a split. Not-finite values become null.

    Values are numbers; a validation's signature is text, which TensorBoard does not get.
    """
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

  def write_captions(self, step: int, kind: str, samples: Sequence[Sample]) -> None:
    """Adds captions beside references to TensorBoard's texts; ``kind`` is the name of a split."""
    if self._board is None or not samples:
      return
    from tensorboardX.summary import text

    rows = [('video', 'caption', 'reference'), ('---',) * 3, *map(dataclasses.astuple, samples)]
    table = ''.join(f'| {" | ".join(map(_cell, row))} |\n' for row in rows)
    self._write_event(self._captions_board, step, text(f'{kind}/captions', table))
    with named(self._board_folder):
      self._captions_board.flush()

  @functools.cached_property
  def _captions_board(self):
    """The writer of captions; its file is not among those that are written again."""
    return self._open_board(CAPTIONS)

  def _open_board(self, name: str):
    board = _open_events(self._board_folder, name)
    self._boards.callback(named(self._board_folder)(board.close))
    return board

  def _write_event(self, board, step: int, summary) -> None:
    with named(self._board_folder):
      _write_event(board, step, summary)

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
    from tensorboardX.summary import scalar

    for name, value in record.items():
      if isinstance(value, int | float) and name != 'step':
        self._write_event(self._board, record['step'], scalar(f'{record["kind"]}/{name}', value))

  def close(self) -> None:
    """Flushes and closes all files, even if one of them fails."""
    with contextlib.ExitStack() as at_end:
      at_end.callback(self._boards.close)
      if self._file is not None:
        at_end.callback(named(self.path)(self._file.close))
      self.flush()


def _cell(value: str) -> str:
  """A text as a cell of a Markdown table."""
  return value.replace('|', r'\|')


def write_picture(folder: pathlib.Path, step: int, tag: str, picture: pathlib.Path) -> None:
  """Adds a picture to TensorBoard's images.

  Args:
    folder: of a stage's TensorBoard files.
    step: that the picture is of.
    tag: its name in TensorBoard.
    picture: a PNG file.
  """
  from matplotlib.image import imread
  from tensorboardX.summary import image

  for older in folder.glob(f'{PICTURES}.*'):
    older.unlink()
  with named(folder):
    board = _open_events(folder, PICTURES)
    _write_event(board, step, image(tag, imread(picture)[..., :3], dataformats='HWC'))
    board.close()


def _open_events(folder, name: str):
  """A writer of a TensorBoard file whose name begins with ``name``."""
  # Not SummaryWriter: once its thread has ended, on a full disk, writing blocks for ever.
  from tensorboardX.event_file_writer import EventsWriter

  folder.mkdir(parents=True, exist_ok=True)
  with named(folder):
    return EventsWriter(str(folder / name))


def _write_event(board, step: int, summary) -> None:
  from tensorboardX.proto.event_pb2 import Event

  board.write_event(Event(wall_time=time.time(), step=step, summary=summary))


def read_metric_log(workdir: epath.PathLike) -> list[dict]:
  """All records of a run's metrics.jsonl, without a last line that a kill has cut short.

  Raises:
    DataError: a damaged line.
  """
  path = epath.Path(workdir) / 'metrics.jsonl'
  if not path.is_file():
    return []
  *lines, rest = path.read_bytes().split(b'\n')
  records = [_record(line, path, number) for number, line in enumerate(lines, 1)]
  if rest and _is_cut_short(rest):
    _note_cut_short(path, len(lines) + 1)
  elif rest:  # a record that only lacks its line end, or damage
    records.append(_record(rest, path, len(lines) + 1))
  return records


def _record(line: bytes, path: epath.Path, number: int) -> dict:
  """The record of a line; DataError if it has none."""
  try:
    record = json.loads(line)
  except ValueError:
    record = None
  if not isinstance(record, dict) or not {'stage', 'step'} <= record.keys():
    raise DataError(f'{path}, line {number}: no record of a run; correct or remove that line')
  return record


def _is_cut_short(line: bytes) -> bool:
  """Whether a line without end is the beginning of a record, or zeros, which a power cut leaves."""
  try:
    json.loads(line)
  except ValueError:
    return line.strip(b'\0')[:1] in (b'{', b'')
  return False


@functools.cache  # a file is read several times
def _note_cut_short(path: epath.Path, number: int) -> None:
  """Logs that the last line is left out."""
  logging.getLogger(__name__).warning(
    'note: %s, line %d: cut short, as by a kill; it is left out', path, number
  )


def _plain(value):
  """A value as JSON can hold it: Python's numbers for numpy's, None for one that is not finite."""
  value = value.item() if isinstance(value, np.generic) else value
  return None if isinstance(value, float) and not math.isfinite(value) else value
