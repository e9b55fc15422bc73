"""Data sets from Python are those of the command."""

import pathlib

import pytest

import vidcap_jax as vc
from data_prep import build as command
from vidcap_jax.data.schema import read_manifest


def test_keywords_are_the_flags_of_the_command(source):
  folder = source / 'image'
  flags = [
    *('--format=csv', f'--annotations={source}/clips.csv', f'--features=image={folder}'),
    *('--min_count=1', '--name=one', '--max_frames=image=3', '--optional=image', '--match=none'),
    *('--leak_words_of=val', '--missing=skip', '--shard_mb=2', f'--out={source}/one'),
  ]
  assert command.main(flags) == 0
  for number, (features, frames, listed) in enumerate(
    (
      ({'image': folder}, {'image': 3}, lambda value: [value]),
      (f'image={folder}', 'image=3', str),
    )
  ):
    built = vc.build(
      format='csv',
      annotations=source / 'clips.csv',
      features=features,
      output=source / str(number),
      name='one',
      min_count=1,
      max_frames=frames,
      optional=listed('image'),
      match=listed('none'),
      leak_words_of=listed('val'),
      missing='skip',
      shard_mb=2,
      language=None,
    )
    assert built.manifest.hash == read_manifest(source / 'one').hash
    assert built.folder == source / str(number)
    assert built.manifest.source == read_manifest(source / 'one').source
    assert str(built.folder) in repr(built)
    assert 'train' in repr(built)


def test_names_with_commas_and_lists(source):
  (source / 'clips.csv').rename(source / 'my, clips.csv')
  (source / 'image').rename(source / 'a,b')
  built = vc.build(
    format='csv',
    annotations=[pathlib.Path(source, 'my, clips.csv')],
    features={'image': source / 'a,b'},
    output=source / 'set',
    min_count=1,
  )
  assert not built.report.unchanged
  assert [stream.name for stream in built.manifest.streams] == ['image']


@pytest.mark.parametrize(
  ('change', 'error', 'words'),
  [
    ({'min_cuont': 1}, TypeError, 'min_cuont.*min_count'),
    ({'help': True}, TypeError, 'help'),
    ({'form': 'csv'}, TypeError, "'form'"),
    ({'format': 'cvs'}, vc.UserError, 'cvs.*csv'),
    ({'format': None}, TypeError, 'format'),
    ({'missing': 'ignore'}, vc.UserError, 'missing=ignore'),
    ({'features': {'image': '/nowhere'}}, vc.UserError, '/nowhere'),
    ({'min_count': 1.5}, vc.UserError, 'min_count=1.5'),
    ({'shard_mb': 'big'}, vc.UserError, 'shard_mb=big'),
    ({'features': 3}, vc.UserError, 'features.*3'),
    ({'max_frames': {'image': 'two'}}, vc.UserError, 'max_frames.*image=two'),
    ({'annotations': '/nowhere.csv'}, vc.UserError, '/nowhere.csv'),
    ({'vocabulary': 'other', 'min_count': 2}, vc.UserError, 'vocabulary.*min_count'),
  ],
)
def test_what_can_not_be_built(source, change, error, words):
  given = {
    'format': 'csv',
    'annotations': source / 'clips.csv',
    'features': {'image': source / 'image'},
    'output': source / 'set',
  }
  with pytest.raises(error, match=words):
    vc.build(**{**given, **change})
  assert not (source / 'set').exists()
