"""Decoding settings are shown as the keywords that would set them."""

import pytest

from tests import tiny
from vidcap_jax.api.described import decode_text

SAVED = {**tiny.get_config().decode, 'method': 'greedy', 'beam': 5}


@pytest.mark.parametrize(
  ('settings', 'text'),
  [
    ({}, "method='greedy'"),
    ({'min_length': 3}, "method='greedy', min_length=3"),
    ({'method': 'beam'}, "method='beam', beam=5"),
    ({'method': 'beam', 'n_best': 2}, "method='beam', beam=5, captions=2"),
    ({'method': 'beam', 'force': ['dog']}, "method='beam', beam=5, force=('dog',)"),
    ({'method': 'beam', 'groups': 5}, "method='beam', beam=5, diversity=0.5, groups=5"),
    ({'method': 'sample', 'top_p': 0.9, 'n_best': 3}, "method='sample', captions=3, top_p=0.9"),
  ],
)
def test_settings_that_change_something(settings, text):
  assert decode_text({**SAVED, **settings}) == text
