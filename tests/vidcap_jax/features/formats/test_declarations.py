"""Wrong declarations are errors before any work."""

import pytest

from data_prep.dataset.builder import build
from tests.building import options
from vidcap_jax.errors import DataError


@pytest.mark.parametrize(
  ('changes', 'match'),
  [
    ({'layouts': {'image': 'CT'}}, 'as CT, its arrays .* have no common number of channels'),
    ({'layouts': {'image': '1TC'}}, 'declared as sequence, with axes 1TC, but .* 2 axes'),
    ({'layouts': {'image': 'TNC'}}, 'with axes TNC, but its arrays have 2 axes'),
    ({'layouts': {'image': 'TX'}}, "unknown layout 'TX'"),
    ({'layouts': {'image': 'TC'}, 'kinds': {'image': 'grid'}}, 'is a sequence, --kinds says grid'),
    ({'layouts': {'motion': 'TC'}}, "--layout: no stream 'motion'"),
    ({'max_frames': {'image': 0}}, '--max_frames=image=0: at least 1'),
    ({'blocks': {'image': 0}}, '--blocks=image=0: at least 1'),
    (
      {'blocks': {'image': 4}, 'max_frames': {'image': 3}},
      '--max_frames=image=3: at least one unit of the clock, 4 frames by --blocks',
    ),
    ({'rows': {'image': 'v1'}}, '--rows is for tables in an .h5 file'),
    ({'max_regions': {'boxes': 3}}, "--max_regions: no stream 'boxes'"),
    ({'align': {'image': 'truncate'}}, 'two or more streams'),
    ({'align': {'image+motion': 'truncate'}}, "--align: no stream 'motion'"),
    ({'match': ('caps',)}, "unknown rule 'caps'"),
    ({'bad': 'drop'}, '--bad=drop: fail or skip'),
    ({'keys': {'motion': 'x'}}, "--keys: no stream 'motion'"),
  ],
)
def test_wrong_declarations_are_found_before_any_work(source, changes, match):
  with pytest.raises(DataError, match=match):
    build(options(source, **changes))
  assert not (source / 'out').exists()
