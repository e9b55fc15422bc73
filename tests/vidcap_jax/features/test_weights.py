"""Weights files: how they are found, errors, and versions."""

import numpy as np
import pytest

from data_prep import extract
from vidcap_jax.features import extractors, networks, weights


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """An empty folder for weights, and a network 'mine' that needs some."""
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path / 'weights'))
  find = lambda: (weights.find('mine', 'mine.pth of its authors'),)  # noqa: E731
  network = networks.Network(8, lambda path: None, weights=find)
  extractor = extractors.Extractor(
    'sequence', (None, 3), 'mine-1/{weights}', 'mine', ('x',), np.asarray
  )
  monkeypatch.setitem(networks.NETWORKS, 'mine', network)
  monkeypatch.setitem(extractors.REGISTRY, 'mine', extractor)
  yield tmp_path / 'weights'
  weights.set_paths({})


def test_error_names_what_to_fetch_and_where_to_put_it(folder, tmp_path, capsys):
  (tmp_path / 'videos').mkdir()
  (tmp_path / 'videos' / 'a.mp4').touch()
  flags = [f'--videos={tmp_path / "videos"}', f'--output={tmp_path / "out"}', '--streams=a:mine']
  assert extract.main(flags) == 1
  error = capsys.readouterr().err
  assert error.count('\n') == 1
  for output in ('mine.pth of its authors', str(folder), weights.VARIABLE, '--weights=mine=PATH'):
    assert output in error
  assert not (tmp_path / 'out').exists()  # found before any work
  assert extract.main([*flags, '--weights=mine']) == 1
  assert 'NAME=PATH' in capsys.readouterr().err
  assert extract.main([*flags, '--weights=mine=nowhere.pth']) == 1
  assert 'nowhere.pth: no such file' in capsys.readouterr().err


def test_version_depends_on_the_weights(folder, tmp_path):
  folder.mkdir()
  (folder / 'mine.pth').write_bytes(b'abc')
  assert extractors.describe('mine')['version'] == 'mine-1/ba7816bf+clock-2'
  (tmp_path / 'other.npz').write_bytes(b'abcd')
  weights.set_paths({'mine': tmp_path / 'other.npz'})
  assert extractors.describe('mine')['version'] == 'mine-1/88d4266f+clock-2'
  with pytest.raises(
    extractors.ExtractorError, match="'a'.*'mine-1/ba7816bf'.*'mine-1/88d4266f\\+clock-2'"
  ):
    extractors.check(
      'a', {'extractor': 'mine', 'version': 'mine-1/ba7816bf', 'sampling': {'every': 1}}
    )


def test_two_weights_files_are_an_error(folder):
  folder.mkdir()
  for name in ('mine.pth', 'mine.npz', 'minestrone.pth'):
    (folder / name).touch()
  with pytest.raises(weights.WeightsError, match='mine.npz, mine.pth; keep one'):
    extractors.describe('mine')
