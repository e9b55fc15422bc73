"""The Beam pipelines give the same bytes as the local commands."""

import json
import pathlib

import numpy as np
import pytest

from data_prep import apache_beam, build, extract
from tests import video_files
from tests.building import files_below

beam = pytest.importorskip('apache_beam', reason='the extra "beam" is not installed')

FLAGS = ('--', '--runner=DirectRunner')


@pytest.fixture(scope='module')
def videos(tmp_path_factory) -> pathlib.Path:
  return video_files.write_folder(tmp_path_factory.mktemp('videos'))


@pytest.fixture(scope='module')
def features(videos, tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path]:
  """Features extracted here and by Beam."""
  here, there = (tmp_path_factory.mktemp(name) for name in ('here', 'there'))
  flags = [f'--videos={videos}', '--streams=image:random_sequence@every=5,sound:random_sound']
  assert extract.main([*flags, f'--output={here}', '--pool=threads']) == 1
  assert apache_beam.main(['extract', *flags, f'--output={there}', *FLAGS]) == 1
  return here, there


def test_features_are_the_same(features):
  here, there = map(files_below, features)
  assert list(here) == list(there)
  assert len(here) == 2 * 6 + 1  # five videos and stream.json of two streams; failures.json
  for name in here:
    if name != 'failures.json':
      assert here[name] == there[name], name
  reports = [json.loads(files['failures.json']) for files in (here, there)]
  assert reports[0] == reports[1]
  assert list(reports[0]['failed']) == ['broken']
  assert reports[0]['absent'] == {'v1': ['sound']}


def test_beam_resumes_a_local_extraction(videos, features, capsys):
  here, _ = features
  before = files_below(here)
  (here / 'image' / 'v2.npy').unlink()
  flags = [f'--videos={videos}', '--streams=image:random_sequence@every=5,sound:random_sound']
  assert apache_beam.main(['extract', *flags, f'--output={here}', *FLAGS]) == 1
  assert '1 video extracted, 4 kept' in capsys.readouterr().out
  assert files_below(here) == before


@pytest.fixture
def flags(features, tmp_path) -> list[str]:
  rows = [
    {'video_id': f'v{i}', 'split': 'val' if i == 4 else 'train', 'caption': f'a cat of {i} lives'}
    for i in range(5)
  ]
  annotations = tmp_path / 'captions.jsonl'
  annotations.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  here, _ = features
  return [
    '--format=jsonl',
    f'--annotations={annotations}',
    f'--features=image={here}/image,sound={here}/sound',
    '--optional=sound',
    '--min_count=1',
    '--name=cats',
    '--shard_mb=0.003',
  ]


def test_records_are_the_same(flags, tmp_path, capsys):
  assert build.main([*flags, f'--output={tmp_path / "here"}']) == 0
  assert apache_beam.main(['build', *flags, f'--output={tmp_path / "there"}', *FLAGS]) == 0
  here, there = files_below(tmp_path / 'here'), files_below(tmp_path / 'there')
  assert sum('train.array_record' in name for name in here) > 1
  assert here == there


def test_bad_features_give_the_same_errors(flags, features, tmp_path, capsys):
  bad = features[0] / 'image' / 'v3.npy'
  good = bad.read_bytes()
  np.save(bad, np.full((3, 128), np.nan, np.float16))
  try:
    messages = []
    for name, program in (('here', build.main), ('there', apache_beam.main)):
      own = [*flags, f'--output={tmp_path / name}']
      assert program(own if name == 'here' else ['build', *own, *FLAGS]) == 1
      messages.append(capsys.readouterr().err.splitlines()[-1])
    assert messages[0] == messages[1]
    assert '1 of 5 videos have bad features: v3' in messages[0]
    for name, program in (('here', build.main), ('there', apache_beam.main)):
      own = [*flags, f'--output={tmp_path / name}', '--bad=skip']
      assert program(own if name == 'here' else ['build', *own, *FLAGS]) == 0
    assert files_below(tmp_path / 'here') == files_below(tmp_path / 'there')
  finally:
    bad.write_bytes(good)


def test_misspelt_beam_flag_is_an_error_before_any_work(videos, tmp_path, capsys):
  flags = [f'--videos={videos}', f'--output={tmp_path / "out"}', '--', '--runer=DirectRunner']
  assert apache_beam.main(['extract', *flags]) == 1
  assert '--runer' in capsys.readouterr().err
  assert not (tmp_path / 'out').exists()


def test_beams_own_dask_runner_is_refused(videos, tmp_path, capsys):
  flags = [f'--videos={videos}', f'--output={tmp_path / "out"}', '--', '--runner=DaskRunner']
  assert apache_beam.main(['extract', *flags]) == 1
  assert '--engine=dask://' in capsys.readouterr().err
  assert not (tmp_path / 'out').exists()


def test_results_that_a_runner_loses_are_an_error(videos, tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(beam.io, 'WriteToText', lambda path: beam.Map(str))
  flags = [f'--videos={videos}', f'--output={tmp_path}', '--streams=image:random_sequence@every=5']
  assert apache_beam.main(['extract', *flags, *FLAGS]) == 1
  assert '6 of 6 videos' in capsys.readouterr().err
