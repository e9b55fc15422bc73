"""Names of features are matched to videos by rules; ambiguous matches are errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.names import DEFAULT, match, normal_form


def matched(ids, found, rules=DEFAULT, aliases=None):
  return match(ids, found, aliases or {}, normal_form(rules), 'image')


@pytest.mark.parametrize(
  ('rules', 'video', 'found'),
  [
    (DEFAULT, 'video0', 'train/video0'),
    (DEFAULT, 'video0', 'C:\\clips\\video0.avi'),
    (DEFAULT, 'video0.mp4', 'video0'),
    (DEFAULT, 'clips/video0.webm', 'video0.mp4.npy'),
    (('case',), 'Video0', 'VIDEO0'),
    (('prefix:clip_',), 'v0', 'clip_v0'),
    (('prefix:video', 'path'), 'video0', 'x/0'),
    (('prefix:a', 'prefix:b'), 'av0', 'bv0'),
  ],
)
def test_rules(rules, video, found):
  assert matched([video], ['other', found], rules) == {video: found}
  assert matched([video], ['other', found], ()) == {}


def test_exact_match_wins():
  found = ['train/v0', 'test/v0', 'v0', 'v0.mp4']
  assert matched(['v0'], found) == {'v0': 'v0'}
  assert matched(['v0.mp4', 'v0'], found) == {'v0.mp4': 'v0.mp4', 'v0': 'v0'}


def test_ids_keep_their_dots_and_dashes():
  assert matched(['a.b', '-x_000001_000011'], ['a', 'x_000001_000011']) == {}


def test_other_names():
  assert matched(
    ['vid1', 'vid2'], ['yt1', 'clips/yt2.avi'], aliases={'vid1': 'yt1', 'vid2': 'yt2'}
  ) == {
    'vid1': 'yt1',
    'vid2': 'clips/yt2.avi',
  }
  # One video's features may be given to several by name.
  assert len(matched(['a', 'b'], ['x'], aliases={'a': 'x', 'b': 'x'})) == 2


def test_ambiguous_matches_are_errors():
  with pytest.raises(DataError, match="video 'v0' may have the features train/v0, test/v0"):
    matched(['v0'], ['train/v0', 'test/v0'])
  with pytest.raises(
    DataError, match="features 'v0' fit the videos 'V0' and 'v0'|by name, and fit"
  ):
    matched(['V0', 'v0'], ['v0'], ('case',))
  with pytest.raises(DataError, match="features 'x/v0' fit the videos 'v0.mp4' and 'v0.avi'"):
    matched(['v0.mp4', 'v0.avi'], ['x/v0'])


@pytest.mark.parametrize('rule', ['lower', 'prefix:', 'prefix'])
def test_unknown_rules(rule):
  with pytest.raises(DataError, match='--match: unknown rule'):
    normal_form((rule,))


NAMES = st.lists(st.text('aA./\\_', min_size=1, max_size=6), max_size=6, unique=True)


@given(NAMES, NAMES, st.sets(st.sampled_from(['path', 'extension', 'case', 'prefix:a'])))
def test_matches_are_of_equal_form_and_one_to_one(ids, found, rules):
  normal = normal_form(sorted(rules))
  try:
    pairs = match(ids, found, {}, normal, 'image')
  except DataError:
    return
  assert len(set(pairs.values())) == len(pairs)
  forms = [normal(name) for name in found]
  for video in ids:
    if video in found:
      assert pairs[video] == video
    else:
      assert (video in pairs) == (normal(video) in forms)
      assert video not in pairs or normal(pairs[video]) == normal(video)
