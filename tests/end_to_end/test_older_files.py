"""A data set, a stopped run and a finished one, written before modules moved, open as before.

``older_files.tar.xz`` was made by the code of commit a39d881 with jax 0.10.2: data/ and image/ as
``tests.tiny.build`` writes them; finished/, the workdir of a stage of cross entropy and one of
reinforcement, of which only the second's checkpoint is left; stopped/, a copy of that workdir when
the second stage had done 6 of its 8 steps; and predicted.jsonl, the captions of finished/.
"""

import json
import pathlib
import tarfile

import pytest
from etils import epath
from ml_collections import ConfigDict

from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import check_shard, open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.evaluation import evaluate
from vidcap_jax.inference import predict
from vidcap_jax.training import experiment

ARCHIVE = pathlib.Path(__file__).with_name('older_files.tar.xz')
# Other versions and processors round sums in another order.
CLOSE = {'rel': 1e-3, 'abs': 1e-5}


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The files in the working directory: their paths are relative."""
  # Python before 3.11.4 has no filters.
  with tarfile.open(ARCHIVE) as archive:
    archive.extractall(tmp_path, **({'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))
  monkeypatch.chdir(tmp_path)
  return tmp_path


def records(path: pathlib.Path) -> list[dict]:
  return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_archive_is_small():
  assert ARCHIVE.stat().st_size < 200_000


def test_the_data_set_is_read(folder):
  manifest = read_manifest('data')
  for split in manifest.splits.values():
    for shard in split.shards:
      check_shard(folder / 'data', shard)
  videos = list(open_split('data', 'train'))
  assert [video.video_id for video in videos] == [f'v{i}' for i in range(7)]
  assert videos[1].captions == ('a green ball rises', 'the green one rises')


def test_a_finished_run_evaluates_and_captions(folder, capsys):
  restored = restore.restore(restore.find_checkpoint('finished'), make_mesh())
  with tiny.without_java():
    evaluate.evaluate_command(restored, None, 'test', 'again')
  expected = json.loads((folder / 'finished' / 'eval' / 'test' / 'captions.json').read_text())
  captions = json.loads((folder / 'again' / 'captions.json').read_text())
  assert [c['caption'] for c in captions] == [c['caption'] for c in expected]
  assert [c['log_prob'] for c in captions] == pytest.approx(
    [c['log_prob'] for c in expected], **CLOSE
  )
  capsys.readouterr()
  assert predict.predict(restored, 'image=image') == 0
  predicted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  expected = records(folder / 'predicted.jsonl')
  assert [(p['video_id'], p['caption']) for p in predicted] == [
    (e['video_id'], e['caption']) for e in expected
  ]


def test_a_stopped_run_goes_on_with_the_same_losses(folder):
  config = ConfigDict(json.loads((folder / 'stopped' / 'config.json').read_text()))
  # Keys of today's config files that the run does not know.
  config.train.update({'first_epoch': 0.0, 'annealed': (0.0, 1.0)})
  config.stages.rl.train.annealed = (1.0, 1.0)
  with tiny.without_java():
    experiment.run(config, epath.Path('stopped'), make_mesh())
  expected, found = records(folder / 'finished' / 'metrics.jsonl'), {}
  for record in records(folder / 'stopped' / 'metrics.jsonl'):
    found[record['stage'], record['step'], record['kind']] = record
  assert len(found) == len(expected)
  for record in expected:
    again = found[record['stage'], record['step'], record['kind']]
    for name in ('loss', 'grad_norm', 'reward', 'log_prob', 'CIDEr'):
      if name in record:
        assert again[name] == pytest.approx(record[name], **CLOSE), (name, record)
