"""Which of a build's options concern which streams."""

import pytest

from vidcap_jax.data.provenance import aligned_with, options_of

OPTIONS = {
  'form': 'csv',
  'layouts': {'a': 'CT'},
  'align': {'a+b+c': 'error', 'd+e': 'truncate'},
  'max_frames': {'a': 9, 'f': 8},
  'blocks': {'e': 1, 'f': 2},
}


@pytest.mark.parametrize(
  ('names', 'all_of_them'), [('a', 'a'), ('ab', 'ab'), ('d', 'def'), ('f', 'def'), ('x', 'x')]
)
def test_aligned_streams(names, all_of_them):
  assert aligned_with(OPTIONS, names) == {*all_of_them}


def test_blocks_without_a_limit_of_frames_align_nothing():
  free = {**OPTIONS, 'max_frames': {'a': 9}}
  assert aligned_with(free, 'f') == {'f'}
  assert 'blocks' not in options_of(free, 'ef')


def test_options_of_some_streams():
  assert options_of(OPTIONS, 'ac') == {
    'layouts': {'a': 'CT'},
    'max_frames': {'a': 9},
    'align': {'a+c': 'error'},
  }
  assert options_of(OPTIONS, 'def') == {
    'max_frames': {'f': 8},
    'blocks': {'e': 1, 'f': 2},
    'align': {'d+e': 'truncate'},
  }
  assert options_of({}, 'a') == {}
