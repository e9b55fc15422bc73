"""Text of a command line and Python's own types give the same options."""

import pathlib

import pytest

from data_prep.build import make_parser
from data_prep.dataset.flag_values import of_keywords, to_options
from vidcap_jax.errors import DataError

TEXT = {
  'form': 'csv',
  'annotations': 'a.csv,b.csv',
  'features': 'image=x/,audio=y.h5',
  'out': 'z',
  'match': 'case,none',
  'optional': 'audio',
  'layouts': 'image=CT',
  'max_frames': 'image=3,audio=4',
  'align': 'image+audio=truncate',
  'bad': None,
}
TYPES = {
  'format': 'csv',
  'annotations': ['a.csv', pathlib.Path('b.csv')],
  'features': {'image': 'x/', 'audio': pathlib.Path('y.h5')},
  'output': pathlib.Path('z'),
  'match': ['case', 'none'],
  'optional': ('audio',),
  'layout': {'image': 'CT'},
  'max_frames': {'image': 3, 'audio': '4'},
  'align': {'image+audio': 'truncate'},
  'bad': None,
}


def test_options_are_the_same():
  options = to_options(of_keywords(make_parser(), TYPES))
  assert options == to_options(TEXT)
  assert (options.annotations, options.match) == (('a.csv', 'b.csv'), ('case',))
  assert options.max_frames == {'image': 3, 'audio': 4}
  number = of_keywords(make_parser(), {**TYPES, 'shard_mb': 2, 'min_count': 3.0})
  assert (repr(number['shard_mb']), repr(number['min_count'])) == ('2.0', '3')


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    ({'features': 'image'}, "features: 'image'"),
    ({'features': 'image=x,image=y'}, "features: 'image'.*twice"),
    ({'features': ['image=x']}, 'features: .*dictionary'),
    ({'max_frames': {'image': 2.5}}, 'max_frames: image=2.5'),
    ({'blocks': 'image=-1'}, 'blocks: image=-1'),
  ],
)
def test_values_of_another_form(change, words):
  with pytest.raises(DataError, match=words):
    to_options({**TEXT, **change})
