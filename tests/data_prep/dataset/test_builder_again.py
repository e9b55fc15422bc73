"""Builds that are repeated, interrupted or changed."""

import subprocess
import sys

import numpy as np
import pytest

from data_prep.dataset import plan, writer
from data_prep.dataset.builder import build
from tests.building import contents, options
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError, UserError


def test_same_inputs_give_the_same_bytes(source):
  first, _ = build(options(source))
  command = [
    *(sys.executable, '-m', 'data_prep.build', '--format=csv', '--min_count=1', '--name=out'),
    *(f'--annotations={source}/clips.csv', f'--features=image={source}/image'),
    f'--output={source}/again',
  ]
  done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
  second = read_manifest(source / 'again')
  assert second.hash == first.hash
  one, two = contents(source / 'out'), contents(source / 'again')
  assert one.keys() == two.keys()
  assert all(one[n] == two[n] for n in one if n != 'manifest.json')
  for expected in ('train            3 videos, 4 captions', '1 caption: empty', first.hash):
    assert expected in done.stdout


def test_repeated_build_does_nothing(source):
  manifest, _ = build(options(source))
  before = {p.name: p.stat().st_mtime_ns for p in (source / 'out').iterdir()}
  again, report = build(options(source))
  assert report.unchanged
  assert again == manifest
  assert before == {p.name: p.stat().st_mtime_ns for p in (source / 'out').iterdir()}


@pytest.mark.parametrize(
  'change',
  [
    {'min_count': 2},
    {'dtype': 'float32'},
    {'missing': 'skip'},
    {'optional': ('image',)},
    {'max_frames': {'image': 2}},
  ],
)
def test_other_options_need_overwrite(source, change):
  manifest, _ = build(options(source, shard_mb=1e-5))
  (name,) = change
  match = f'--overwrite.*{name}.* there, .* now'
  with pytest.raises(DataError, match=match):
    build(options(source, **change))
  assert read_manifest(source / 'out') == manifest
  _, report = build(options(source, overwrite=True, **change))
  assert not report.unchanged
  # Nothing of the earlier one's shards is left.
  shards = [n for n in contents(source / 'out') if 'array_record' in n]
  assert len(shards) == 3
  assert len(open_split(source / 'out', 'train')) == 3


def test_another_spelling_of_a_path_is_no_difference(source):
  build(options(source))
  features = {'image': f'{source}/image/'}
  assert build(options(source, features=features))[1].unchanged
  with pytest.raises(DataError, match='min_count') as raised:
    build(options(source, features=features, min_count=2))
  assert 'image' not in str(raised.value).partition('Different')[2]


def test_other_files_need_overwrite(source):
  build(options(source))
  np.save(source / 'image' / 'v3.npy', np.zeros((2, 4), np.float32))
  with pytest.raises(DataError, match='--overwrite.*same.*files'):
    build(options(source))


def test_folder_of_other_files_is_refused(source):
  (source / 'out').mkdir()
  (source / 'out' / 'thesis.tex').write_text('x')
  with pytest.raises(DataError, match='not empty and no data set'):
    build(options(source, overwrite=True))
  assert contents(source / 'out') == {'thesis.tex': b'x'}
  with pytest.raises(UserError, match='--output=: an empty path'):
    build(options(source, out=''))
  with pytest.raises(DataError, match='is a file'):
    build(options(source, out=str(source / 'clips.csv')))


def test_interrupted_build_resumes(source, monkeypatch):
  # About one video a shard.
  made = options(source, shard_mb=4 * 4 * 2 / 2**20)
  whole, _ = build(options(source, shard_mb=made.shard_mb, out=str(source / 'whole'), name='out'))
  assert len(whole.splits['train'].shards) > 1
  real = writer.read_features

  def stop_at_v5(video_id, *arguments):
    if video_id == 'v5':
      raise KeyboardInterrupt
    return real(video_id, *arguments)

  monkeypatch.setattr(plan, 'check_features', lambda *arguments: None)
  with monkeypatch.context() as patch:
    patch.setattr(writer, 'read_features', stop_at_v5)
    with pytest.raises(KeyboardInterrupt):
      build(made)
  out = source / 'out'
  finished = {p.name: p.stat().st_mtime_ns for p in out.glob('*array_record-*[0-9]')}
  assert finished
  assert not (out / 'manifest.json').exists()
  with pytest.raises(DataError, match='not a data set'):
    open_split(out, 'train')

  manifest, report = build(made)
  assert report.reused == len(finished)
  assert all((out / n).stat().st_mtime_ns == t for n, t in finished.items())
  assert manifest.hash == whole.hash
  shards = {n: d for n, d in contents(out).items() if n != 'manifest.json'}
  assert shards == {n: d for n, d in contents(source / 'whole').items() if n != 'manifest.json'}


def test_damaged_shard_of_a_finished_data_set_is_an_error(source):
  build(options(source))
  path = source / 'out' / 'out-val.array_record-00000-of-00001'
  path.write_bytes(path.read_bytes()[:-9])
  with pytest.raises(DataError, match='found no records, expected 1'):
    build(options(source))
  build(options(source, overwrite=True))
  assert len(open_split(source / 'out', 'val')) == 1
