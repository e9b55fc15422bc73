"""Options for streams are applied to the records, and checked before any work."""

import numpy as np
import pytest

from data_prep.dataset.builder import build
from data_prep.report.summary import underflow_notes
from tests.building import options, read_features, values, write_stream
from tests.feature_files import npz
from vidcap_jax.data.batch import subsample
from vidcap_jax.errors import DataError


@pytest.mark.parametrize('by', ['option', 'sidecar'])
def test_layout(source, by):
  write_stream(source, 'image', lambda n: values(f'v{n}', (1, 4, n)))
  if by == 'sidecar':
    (source / 'image' / 'stream.json').write_text('{"layout": "1CT"}')
  build(options(source, layouts={'image': '1CT'} if by == 'option' else {}))
  expected = values('v3', (1, 4, 3))[0].T.astype(np.float16)
  np.testing.assert_array_equal(read_features(source)['v3']['image'], expected, strict=True)


def test_square_arrays_need_a_declaration(source):
  write_stream(source, 'image', lambda n: values(f'v{n}', (4, 4)))
  with pytest.raises(DataError, match=r'\(4, 4\).*--layout=image=TC'):
    build(options(source))
  build(options(source, layouts={'image': 'CT'}))
  assert np.array_equal(
    read_features(source)['v1']['image'], values('v1', (4, 4)).T.astype(np.float16)
  )


def test_too_many_frames(source):
  write_stream(source, 'image', lambda n: values(f'v{n}', (n * 4, 4)))
  manifest, _ = build(options(source, max_frames={'image': 8}))
  assert manifest.stream('image').longest == 8
  found = read_features(source)
  assert {name: len(f['image']) for name, f in found.items()} == {'v3': 8, 'v1': 4, 'v5': 8}
  whole = values('v3', (12, 4)).astype(np.float16)
  np.testing.assert_array_equal(found['v3']['image'], whole[subsample(12, 8)], strict=True)
  np.testing.assert_array_equal(found['v3']['image'][[0, -1]], whole[[0, -1]])


def test_regions_with_the_highest_scores_are_kept(source):
  regions = np.arange(1, 2 * 5 * 3 + 1, dtype=np.float32).reshape(2, 5, 3)
  regions[0, 4] = 0  # absent, whatever its score
  scores = np.array([[0.1, 0.9, 0.3, 0.9, 1.0], [5, 4, 3, 2, 1]])
  (source / 'objects').mkdir()
  for n in range(1, 6):
    arrays = {'x': regions, 'bbox': np.zeros((2, 5, 4)), 'scores': scores}
    if n == 1:
      del arrays['scores']
    (source / 'objects' / f'v{n}.npz').write_bytes(npz(arrays))
  changes = {
    'features': {'objects': str(source / 'objects')},
    'keys': {'objects': 'x'},
    'overwrite': True,
  }
  manifest, _ = build(options(source, **changes, max_regions={'objects': 2}))
  assert manifest.stream('objects').most_regions == 2
  found = read_features(source)
  expected = np.stack([regions[0, [1, 3]], regions[1, [0, 1]]])
  np.testing.assert_array_equal(found['v3']['objects'], expected)
  np.testing.assert_array_equal(found['v1']['objects'], regions[:, :2])
  build(options(source, **changes, max_regions={'objects': 9}))
  np.testing.assert_array_equal(read_features(source)['v3']['objects'], regions)
  for wrong, match in (
    (scores[:, :4], r'scores are float64 of shape \(2, 4\)'),
    (scores * np.nan, 'NaN'),
  ):
    (source / 'objects' / 'v5.npz').write_bytes(npz({'x': regions, 'scores': wrong}))
    with pytest.raises(DataError, match=f'v5: .*{match}'):
      build(options(source, **changes, max_regions={'objects': 2}))
  del changes['keys']
  with pytest.raises(DataError, match='x, bbox, scores.*--keys=objects='):
    build(options(source, **changes))


def test_values_too_small_for_float16_are_counted_and_named(source):
  logits = 10 * np.random.default_rng(0).normal(size=(3, 1000))
  softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
  write_stream(source, 'image', lambda n: softmax)
  manifest, _ = build(options(source))
  nonzero, lost = manifest.coverage['train']['underflow']['image']
  assert nonzero == 3 * 3000
  assert lost == 3 * (softmax.astype(np.float16) == 0).sum()
  (note,) = underflow_notes(manifest)
  assert 'image' in note
  assert '--dtype=float32' in note
  manifest, _ = build(options(source, dtype='float32', overwrite=True))
  assert 'underflow' not in manifest.coverage['train']
  assert underflow_notes(manifest) == []


def test_a_few_values_too_small_for_float16_are_counted_but_not_named(source):
  image = np.ones((3, 2000))
  image[1, 7] = 1e-10
  write_stream(source, 'image', lambda n: image)
  manifest, _ = build(options(source))
  assert manifest.coverage['val']['underflow'] == {'image': [6000, 1]}
  assert underflow_notes(manifest) == []
