"""Each video of damaged features is in the data set or named with its reason."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.dataset.builder import build
from tests.building import options
from tests.feature_files import npy, temporary_folder
from vidcap_jax.data.records import open_split

ARRAYS = {f'v{n}': np.arange(n * 4, dtype=np.float32).reshape(n, 4) for n in (1, 2, 3)}


WRONG = {
  'nan': np.full((2, 4), np.nan),
  'inf': np.full((2, 4), -np.inf),
  'overflow': np.full((2, 4), 1e5),
  'scalar': np.array(1.0),
  'objects': np.array([None]),
  'text': np.array(['x']),
  'empty': np.zeros((0, 4)),
  'width': np.ones((2, 5)),
  'rank': np.ones((2, 2, 4)),
}

FAULTS = st.sampled_from(['fine', 'absent', 'zero bytes', 'truncated', *WRONG])


@settings(max_examples=15)
@given(st.lists(FAULTS, min_size=6, max_size=6))
def test_each_video_is_in_the_data_set_or_named_with_its_reason(faults):
  """Most videos are fine: they say what the others should be like."""
  faults = ['fine'] * 7 + faults
  with temporary_folder() as path:
    rows = [f'v{n},a dog,train' for n in range(len(faults))]
    (path / 'clips.csv').write_text('\n'.join(['video_id,caption,split', *rows]))
    (path / 'image').mkdir()
    for n, fault in enumerate(faults):
      data = npy(WRONG.get(fault, ARRAYS['v2']))
      if fault != 'absent':
        cut = {'zero bytes': 0, 'truncated': -3}.get(fault)
        (path / 'image' / f'v{n}.npy').write_bytes(data[:cut] if cut is not None else data)
    fine = {f'v{n}' for n, fault in enumerate(faults) if fault == 'fine'}
    manifest, _ = build(
      options(path, missing='skip', kinds={'image': 'sequence'}, layouts={'image': 'TC'})
    )
    assert {v.video_id for v in open_split(path / 'out', 'train')} == fine
    reasons = {d.video_id: d.reason for d in manifest.dropped}
    assert set(reasons) == {f'v{n}' for n in range(len(faults))} - fine
    for video, reason in reasons.items():
      absent = faults[int(video[1:])] == 'absent'
      assert reason == 'no features in image' if absent else f'{video}.npy: ' in reason
    counts = manifest.coverage['train']
    assert counts['missing'] == faults.count('absent')
    assert counts['bad'] == len(reasons) - counts['missing']
