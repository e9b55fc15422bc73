"""ActivityNet Captions, by small files in its exact schema."""

import pytest

from tests.vidcap_jax.annotations.written import listing, refused, sources, write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError


def test_activitynet(tmp_path):
  data = {
    'v_Qa_b': {
      'duration': 55.15,
      'timestamps': [[0.28, 55.15], [13.79, 54.32]],
      'sentences': ['A man is in a gym. ', ' He lifts a bar.'],
    },
    'v_x': {'duration': 3, 'timestamps': [[0, 1.5]]},
  }
  train = write(tmp_path / 'train.json', data)
  found = read_annotations('activitynet', [train])
  assert listing(found) == [
    ('v_Qa_b_segment_00', 'train', ['A man is in a gym.']),
    ('v_Qa_b_segment_01', 'train', ['He lifts a bar.']),
    ('v_x_segment_00', 'train', []),
  ]
  assert sources(found) == ['v_Qa_b', 'v_Qa_b', 'v_x']
  other = write(tmp_path / 'val_1.json', {'v_x': data['v_Qa_b']})
  with pytest.raises(DataError, match=r'val_1.json: .*train.json .*v_x'):
    read_annotations('activitynet', [train, other])


@pytest.mark.parametrize(
  ('described', 'match'),
  [
    ([], "'v_x': not an object"),
    ({'sentences': ['a']}, '"timestamps" is not a list of pairs'),
    ({'timestamps': [[0, '1']]}, '"timestamps" is not a list of pairs'),
    ({'timestamps': [[0, 1]], 'sentences': ['a', 'b']}, '1 segments and 2 sentences'),
    ({'timestamps': [[0, 1]], 'sentences': [None]}, 'segment 0: captions are neither'),
  ],
)
def test_activitynet_faults(tmp_path, described, match):
  refused('activitynet', write(tmp_path / 'a.json', {'v_x': described}), match)
