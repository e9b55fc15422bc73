"""Messages about wrong arrays of a state dict."""

from vidcap_jax.features.backbones.state import faults


def test_nothing_is_wrong():
  assert faults({'w': (2, 3)}, {'w': (2, 3)}) == ''


def test_missing_unknown_and_other_shapes():
  found, expected = {'w': (2, 3), 'new': (1,)}, {'w': (3, 2), 'b': (3,)}
  assert faults(found, expected) == 'missing b; unknown new; w is (2, 3), expected (3, 2)'


def test_long_lists_are_cut():
  names = [f'w{i}' for i in range(6)]
  assert faults({}, dict.fromkeys(names, (1,))) == 'missing w0, w1, w2, w3 and 2 more'
  message = faults(dict.fromkeys(names, (1,)), dict.fromkeys(names, (2,)))
  assert message.endswith('w3 is (1,), expected (2,); and 2 other shapes')
