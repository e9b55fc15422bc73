"""What a report is made of, and what is missing of a run from another machine."""

import pytest

from tests.vidcap_jax.reporting import results
from vidcap_jax.errors import DataError
from vidcap_jax.reporting import evaluations, inputs
from vidcap_jax.reporting.settings import Options

IDS = ('v1.mp4', 'v2.mp4', 'v3.mp4')


@pytest.fixture
def own(tmp_path):
  return evaluations.read(results.write(tmp_path / 'results', IDS))


def read(own, **options):
  notes: list[str] = []
  return inputs.read(own, Options(**options), notes.append, None), '\n'.join(notes)


def test_a_data_set_and_a_checkpoint_that_are_not_there(own):
  found, notes = read(own)
  assert (found.data, found.boxes, list(found.members)) == (None, '', [])
  assert 'no data' in notes  # its folder
  assert '--data' in notes
  assert 'gone/checkpoints/xe/7' in notes
  assert 'copy' in notes
  assert '--videos' in notes


def test_a_given_data_set_must_be_there(own, tmp_path):
  with pytest.raises(DataError, match='--data.*no_data'):
    read(own, data=str(tmp_path / 'no_data'))


def test_videos_without_a_file(own, tmp_path):
  (tmp_path / 'clips').mkdir()
  (tmp_path / 'clips' / 'other.mp4').write_bytes(b'')
  _, notes = read(own, videos=str(tmp_path / 'clips'))
  assert '--videos' in notes
  assert 'v1.mp4' in notes
  (tmp_path / 'clips' / 'v2.mp4').write_bytes(b'')
  found, notes = read(own, videos=str(tmp_path / 'clips'))
  assert set(found.sources) == {'v2.mp4'}
  assert '2 of 3' in notes


@pytest.mark.parametrize(('name', 'words'), [('where', 'image'), ('image', 'sequence')])
def test_boxes_of_a_stream_that_has_none(evaluated_run, name, words):
  own = evaluations.find(str(evaluated_run), 'val')
  with pytest.raises(DataError, match=f'--boxes={name}.*{words}'):
    read(own, boxes=name)
