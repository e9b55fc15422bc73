import json
import time

import numpy as np
import pytest
from etils import epath

from tests.vidcap_jax.checkpoints.test_checkpoint import files_of_at_most
from vidcap_jax.errors import DataError
from vidcap_jax.training.metric_log import MetricLog, Sample, read_metric_log


def write(workdir, stage, start, steps, **options):
  log = MetricLog(workdir, stage, step=start, **options)
  for step in steps:
    log.write(step, 'train', {'loss': 1 / step})
    if step % 2 == 0:
      log.write(step, 'val', {'CIDEr': step / 10})
  log.close()


def places(workdir):
  return [(r['stage'], r['step'], r['kind']) for r in read_metric_log(workdir)]


def board(workdir, stage):
  """(tag, step) -> value of all TensorBoard files of a stage; each once."""
  scalars = {}
  for event in events(workdir / 'tensorboard' / stage):
    for value in event.summary.value:
      assert (value.tag, event.step) not in scalars
      scalars[value.tag, event.step] = value.simple_value
  return scalars


def events(folder):
  """The events of all TensorBoard files of a folder."""
  from tensorboardX.proto.event_pb2 import Event
  from tensorboardX.record_writer import masked_crc32c

  found = []
  for path in sorted(folder.iterdir()):
    data, at = path.read_bytes(), 0
    while at < len(data):
      # A record: its length (8 bytes) and that length's checksum (4), the event, its checksum (4).
      size = int.from_bytes(data[at : at + 8], 'little')
      body = data[at + 12 : at + 12 + size]
      check = int.from_bytes(data[at + 12 + size : at + 16 + size], 'little')
      assert check == masked_crc32c(body)
      at += 16 + size
      found.append(Event.FromString(body))
  return found


def captions_on_board(workdir):
  return [
    (event.step, value.tag, value.tensor.string_val[0].decode())
    for event in events(workdir / 'tensorboard' / 'xe')
    for value in event.summary.value
    if value.tensor.string_val
  ]


def test_captions_are_texts_of_the_board_and_stay_on_it(tmp_path):
  for steps in ([2, 4], [6]):
    log = MetricLog(tmp_path, 'xe', step=steps[0] - 2)
    for step in steps:
      log.write(step, 'val', {'CIDEr': 0.5})
      samples = [Sample('v0', f'caption {step}', 'a dog'), Sample('v1', 'left | right', 'a cat')]
      log.write_captions(step, 'val', samples)
    log.write_captions(steps[-1], 'test', [])
    log.close()
    time.sleep(1.1)  # files are named by the second
  shown = captions_on_board(tmp_path)
  assert [step for step, _, _ in shown] == [2, 4, 6]
  assert all(tag.startswith('val/captions') for _, tag, _ in shown)
  assert '| v0 | caption 4 | a dog |' in shown[1][2]
  assert r'left \| right' in shown[1][2]


def test_a_folder_without_a_board_gets_no_captions(tmp_path):
  log = MetricLog(tmp_path, 'xe', step=0, tensorboard=False)
  log.write_captions(2, 'val', [Sample('v0', 'a', 'b')])
  log.close()
  assert not (tmp_path / 'tensorboard').exists()


@pytest.mark.parametrize('tensorboard', [True, False])
def test_records_are_appended(tmp_path, tensorboard):
  write(tmp_path, 'xe', 0, [1, 2], tensorboard=tensorboard)
  assert read_metric_log(tmp_path) == [
    {'stage': 'xe', 'step': 1, 'kind': 'train', 'loss': 1.0},
    {'stage': 'xe', 'step': 2, 'kind': 'train', 'loss': 0.5},
    {'stage': 'xe', 'step': 2, 'kind': 'val', 'CIDEr': 0.2},
  ]
  assert (tmp_path / 'tensorboard').exists() == tensorboard


def test_a_resumed_stage_is_cut_back_to_its_step(tmp_path):
  write(tmp_path, 'first', 0, [1, 2, 3])
  write(tmp_path, 'second', 0, [1, 2, 3, 4, 5])
  write(tmp_path, 'second', 3, [4])
  assert places(tmp_path) == [
    ('first', 1, 'train'),
    ('first', 2, 'train'),
    ('first', 2, 'val'),
    ('first', 3, 'train'),
    ('second', 1, 'train'),
    ('second', 2, 'train'),
    ('second', 2, 'val'),
    ('second', 3, 'train'),
    ('second', 4, 'train'),
    ('second', 4, 'val'),
  ]
  write(tmp_path, 'second', 0, [])
  assert {stage for stage, *_ in places(tmp_path)} == {'first'}


def test_resumed_equals_uninterrupted(tmp_path):
  for name in 'ab':
    (tmp_path / name).mkdir()
  write(tmp_path / 'a', 'xe', 0, range(1, 8))
  write(tmp_path / 'b', 'xe', 0, range(1, 6))
  write(tmp_path / 'b', 'xe', 4, range(5, 8))
  files = [tmp_path / name / 'metrics.jsonl' for name in 'ab']
  assert files[0].read_bytes() == files[1].read_bytes()
  assert board(tmp_path / 'a', 'xe') == board(tmp_path / 'b', 'xe')


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path):
  write(tmp_path, 'xe', 0, [1, 2, 3])
  path = tmp_path / 'metrics.jsonl'
  whole = path.read_bytes()
  for cut in range(len(whole) - 1):
    path.write_bytes(whole[:cut])
    lines = [json.loads(line) for line in whole.splitlines()]
    kept = read_metric_log(tmp_path)
    # A line that only lacks its end-of-line is whole.
    assert kept == lines[: len(kept)]
    assert len(kept) in (whole[:cut].count(b'\n'), whole[: cut + 1].count(b'\n'))
  path.write_bytes(whole[:-9])
  write(tmp_path, 'xe', 2, [3])
  assert path.read_bytes() == whole


def test_a_line_cut_short_is_noted_once(tmp_path, caplog):
  write(tmp_path, 'xe', 0, [1])
  path = tmp_path / 'metrics.jsonl'
  path.write_bytes(path.read_bytes() + b'{"stage": "x\0\0')
  for _ in range(2):
    assert places(tmp_path) == [('xe', 1, 'train')]
  (note,) = caplog.messages
  assert 'metrics.jsonl, line 2' in note


@pytest.mark.parametrize(
  'end', ['garbage', 'garbage\n', '{"stage": "xe", "st\n', '{"step": 3}', '\n', 'ÿ']
)
def test_a_last_line_that_no_kill_leaves_is_damage(tmp_path, end):
  write(tmp_path, 'xe', 0, [1])
  path = tmp_path / 'metrics.jsonl'
  path.write_bytes(path.read_bytes() + end.encode('latin-1'))
  with pytest.raises(DataError, match=r'metrics.jsonl, line 2:'):
    read_metric_log(tmp_path)


@pytest.mark.parametrize('line', ['{"stage": "xe", "st', 'null', '[]', '{"step": 1}', ''])
def test_a_damaged_line_is_named_and_nothing_removed(tmp_path, line):
  write(tmp_path, 'xe', 0, [1, 2, 3])
  path = tmp_path / 'metrics.jsonl'
  lines = path.read_text().splitlines()
  path.write_text('\n'.join([lines[0], line, *lines[2:]]))
  before = path.read_bytes()
  with pytest.raises(DataError, match=r'metrics.jsonl, line 2: no record of a run'):
    write(tmp_path, 'xe', 3, [4])
  assert path.read_bytes() == before


def test_no_run_yet(tmp_path):
  assert read_metric_log(tmp_path) == []


@pytest.mark.parametrize('bad', [float('nan'), float('inf'), np.float64('-inf')])
def test_what_is_not_finite_becomes_null(tmp_path, bad):
  log = MetricLog(tmp_path, 'xe', step=0)
  log.write(1, 'train', {'loss': bad, 'skipped': 3})
  log.close()
  (line,) = (tmp_path / 'metrics.jsonl').read_text().splitlines()
  assert 'NaN' not in line
  assert 'Infinity' not in line
  expected = {'stage': 'xe', 'step': 1, 'kind': 'train', 'loss': None, 'skipped': 3}
  assert json.loads(line) == expected
  assert board(tmp_path, 'xe') == {('train/skipped', 1): 3.0}


@pytest.mark.parametrize('tensorboard', [True, False])
def test_a_full_disk_is_named_and_all_is_closed(tensorboard, tmp_path):
  log = MetricLog(tmp_path, 'xe', step=0, tensorboard=tensorboard)
  log.write(1, 'train', {'loss': 0.5})
  with files_of_at_most(100):
    with pytest.raises(OSError, match=f"File too large: '{tmp_path / 'metrics.jsonl'}'"):
      log.write(2, 'train', {'text': 'x' * 200})
    with pytest.raises(OSError, match=f"File too large: '{tmp_path / 'metrics.jsonl'}'"):
      log.close()
  assert log._file.closed
  assert [r['step'] for r in read_metric_log(tmp_path)] == [1]


def test_a_full_disk_at_tensorboard_is_an_error_and_no_wait(tmp_path):
  log = MetricLog(tmp_path, 'xe', step=0)
  many = {f'x{i}': 0.5 for i in range(20)}  # which take more room there

  def write():
    for step in range(4):
      log.write(step, 'train', many)
    log.flush()

  message = f"File too large: '{tmp_path / 'tensorboard' / 'xe'}'"
  with files_of_at_most(2000), pytest.raises(OSError, match=message):
    write()


def test_numpy_numbers(tmp_path):
  log = MetricLog(tmp_path, 'xe', step=0, tensorboard=False)
  log.write(1, 'val', {'loss': np.float32(0.5), 'bad': np.float32('nan'), 'n': np.int64(3)})
  log.close()
  assert read_metric_log(tmp_path) == [
    {'stage': 'xe', 'step': 1, 'kind': 'val', 'loss': 0.5, 'bad': None, 'n': 3}
  ]


def test_tensorboard_shows_what_the_journal_holds(tmp_path):
  write(tmp_path, 'first', 0, [1, 2])
  write(tmp_path, 'second', 0, [1, 2, 3, 4])
  first = board(tmp_path, 'first')
  expected = {('train/loss', 1): 1.0, ('train/loss', 2): 0.5, ('val/CIDEr', 2): 0.2}
  assert first == pytest.approx(expected)
  write(tmp_path, 'second', 2, [3])
  second = board(tmp_path, 'second')
  assert second == pytest.approx({**expected, ('train/loss', 3): 1 / 3})
  assert board(tmp_path, 'first') == first


def test_journal_in_a_bucket(bucket):
  workdir = epath.Path('gs://runs/one')
  log = MetricLog(workdir, 'xe', step=0)
  log.write(1, 'train', {'loss': 0.5})
  assert read_metric_log(workdir) == []  # until something counts on it
  log.flush()
  assert [r['step'] for r in read_metric_log(workdir)] == [1]
  log.write(2, 'train', {'loss': 0.25})
  log.close()
  write(workdir, 'xe', 1, [2, 3])  # goes on from step 1
  assert [step for _, step, kind in places(workdir) if kind == 'train'] == [1, 2, 3]
  assert bucket.names() == ['/runs/one/metrics.jsonl']
