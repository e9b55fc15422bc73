"""What is declared of feature streams reaches the records, and is checked before any work."""

import json
import pickle

import numpy as np
import pytest

from data_prep.build import main
from data_prep.dataset.builder import build
from tests.data_prep.building import arguments, options, values
from tests.data_prep.feature_files import npz
from vidcap_jax.data.batch import subsample
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import DataError


def records(source, split='train'):
  return {v.video_id: v.features for v in open_split(source / 'out', split)}


def write(source, stream, shape_of):
  (source / stream).mkdir(exist_ok=True)
  for n in range(1, 6):
    np.save(source / stream / f'v{n}.npy', shape_of(n))
  return str(source / stream)


@pytest.mark.parametrize('by', ['option', 'sidecar'])
def test_layout(source, by):
  write(source, 'image', lambda n: values(f'v{n}', (1, 4, n)))
  if by == 'sidecar':
    (source / 'image' / 'stream.json').write_text('{"layout": "1CT"}')
  build(options(source, layouts={'image': '1CT'} if by == 'option' else {}))
  expected = values('v3', (1, 4, 3))[0].T.astype(np.float16)
  np.testing.assert_array_equal(records(source)['v3']['image'], expected, strict=True)


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


def test_square_arrays_need_a_declaration(source):
  write(source, 'image', lambda n: values(f'v{n}', (4, 4)))
  with pytest.raises(DataError, match=r'like \(4, 4\): say which it is with --layout=image=TC'):
    build(options(source))
  build(options(source, layouts={'image': 'CT'}))
  assert np.array_equal(records(source)['v1']['image'], values('v1', (4, 4)).T.astype(np.float16))


def test_too_many_frames(source):
  write(source, 'image', lambda n: values(f'v{n}', (n * 4, 4)))
  manifest, _ = build(options(source, max_frames={'image': 8}))
  assert manifest.stream('image').longest == 8
  found = records(source)
  assert {name: len(f['image']) for name, f in found.items()} == {'v3': 8, 'v1': 4, 'v5': 8}
  whole = values('v3', (12, 4)).astype(np.float16)
  np.testing.assert_array_equal(found['v3']['image'], whole[subsample(12, 8)], strict=True)
  np.testing.assert_array_equal(found['v3']['image'][[0, -1]], whole[[0, -1]])


def test_streams_of_equal_length(source):
  features = {
    'image': write(source, 'image', lambda n: np.arange(20 * 4).reshape(20, 4)),
    'motion': write(source, 'motion', lambda n: np.arange((n + 4) * 3).reshape(n + 4, 3)),
    'audio': write(source, 'audio', lambda n: np.ones((n, 2))),
  }
  made = {'features': features, 'overwrite': True}
  with pytest.raises(
    DataError, match=r'5 of 5 .*motion has 7 frames, image has 20.*image=resample'
  ):
    build(options(source, **made, align={'motion+image': 'error'}))
  build(options(source, **made, align={'motion+image': 'truncate'}))
  v3 = records(source)['v3']
  assert {n: len(a) for n, a in v3.items()} == {'image': 7, 'motion': 7, 'audio': 3}
  assert v3['image'][:, 0].tolist() == list(range(0, 28, 4))
  build(
    options(
      source, **made, align={'motion+image': 'resample'}, max_frames={'motion': 3, 'image': 3}
    )
  )
  v3 = records(source)['v3']
  assert (v3['image'][:, 0] / 4).tolist() == [0, subsample(20, 7)[3], 19]
  assert (v3['motion'][:, 0] / 3).tolist() == [0, 3, 6]
  with pytest.raises(DataError, match='each in one group'):
    build(options(source, **made, align={'motion+image': 'error', 'image+audio': 'error'}))


def test_streams_on_one_clock_keep_the_same_units(source):
  # Frame i of each stream holds the unit it belongs to: 8, 2 and 1 frames of a unit.
  blocks = {'pool2': 8, 'pool4': 2, 'pool5': 1}
  for name, block in blocks.items():
    frames = lambda n, block=block: np.arange(11 * n * block - (block > 1)) // block  # noqa: E731
    write(source, name, lambda n, frames=frames: np.stack([frames(n)] * 3, axis=1))
  features = {name: str(source / name) for name in blocks}
  manifest, _ = build(
    options(source, features=features, blocks=blocks, max_frames={'pool2': 39, 'pool5': 6})
  )
  v3 = records(source)['v3']
  units = {name: array[:, 0].astype(int) for name, array in v3.items()}
  kept = units['pool5'].tolist()
  assert len(kept) == 4  # 39 frames of pool2 are four whole units, less than the six of pool5.
  assert (kept[0], kept[-1]) == (0, 32)
  for name, block in blocks.items():
    assert units[name].tolist() == np.repeat(kept, block).tolist()[: len(units[name])]
    assert len(units[name]) == 4 * block - (block > 1)  # The last unit is cut short.
  assert manifest.stream('pool2').longest == 31


def test_short_videos_on_a_clock_stay_whole(source):
  features = {}
  for name, block in {'pool4': 2, 'pool5': 1}.items():
    features[name] = write(source, name, lambda n, block=block: np.ones((n * block, 3)))
  build(
    options(source, features=features, blocks={'pool4': 2, 'pool5': 1}, max_frames={'pool4': 10})
  )
  assert {n: len(a) for n, a in records(source)['v3'].items()} == {'pool4': 6, 'pool5': 3}


def test_a_stream_that_a_video_lacks_is_not_aligned(source):
  write(source, 'motion', lambda n: np.ones((2, 3)))
  (source / 'motion' / 'v3.npy').unlink()
  features = {n: str(source / n) for n in ('image', 'motion')}
  build(
    options(source, features=features, optional=('motion',), align={'image+motion': 'truncate'})
  )
  assert [len(a) for a in records(source)['v3'].values()] == [3, 0]


def test_the_best_regions_are_kept(source):
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
  found = records(source)
  expected = np.stack([regions[0, [1, 3]], regions[1, [0, 1]]])
  np.testing.assert_array_equal(found['v3']['objects'], expected)
  np.testing.assert_array_equal(found['v1']['objects'], regions[:, :2])
  build(options(source, **changes, max_regions={'objects': 9}))
  np.testing.assert_array_equal(records(source)['v3']['objects'], regions)
  for wrong, match in (
    (scores[:, :4], r'scores are float64 of shape \(2, 4\)'),
    (scores * np.nan, 'NaN'),
  ):
    (source / 'objects' / 'v5.npz').write_bytes(npz({'x': regions, 'scores': wrong}))
    with pytest.raises(DataError, match=f'v5: .*{match}'):
      build(options(source, **changes, max_regions={'objects': 2}))
  del changes['keys']
  with pytest.raises(DataError, match='holds 3 arrays .x, bbox, scores.*--keys=objects='):
    build(options(source, **changes))


def test_missing_and_bad_features_are_two_policies(source):
  (source / 'image' / 'v1.npy').unlink()
  np.save(source / 'image' / 'v3.npy', np.full((2, 4), np.inf))
  with pytest.raises(DataError, match='1 of 5 videos have no features.*--missing=skip'):
    build(options(source, bad='skip'))
  with pytest.raises(DataError, match='1 of 4 videos have bad features: v3: .*--bad=skip'):
    build(options(source, missing='skip', bad='fail'))
  manifest, _ = build(options(source, missing='skip'))
  assert [d.video_id for d in manifest.dropped] == ['v1', 'v3']


def test_coverage(source):
  (source / 'image' / 'v1.npy').unlink()
  np.save(source / 'image' / 'v3.npy', np.full((2, 4), 1e6))
  (source / 'clips.csv').open('a').write('\nv6,,train\nv7,x,val')
  write(source, 'audio', lambda n: np.ones((n % 2, 2)))
  np.save(source / 'image' / 'v6.npy', np.ones((2, 4)))
  np.save(source / 'audio' / 'v6.npy', np.ones((2, 2)))
  manifest, _ = build(
    options(
      source,
      features={n: str(source / n) for n in ('image', 'audio')},
      optional=('audio',),
      missing='skip',
    )
  )
  none = {'missing': 0, 'bad': 0, 'uncaptioned': 0}
  dropped = {'missing': 1, 'bad': 1, 'uncaptioned': 1}
  assert manifest.coverage == {
    'train': {'listed': 4, 'videos': 1, **dropped, 'streams': {'image': 1, 'audio': 1}},
    'val': {'listed': 2, 'videos': 1, **none, 'missing': 1, 'streams': {'image': 1, 'audio': 0}},
    'test': {'listed': 1, 'videos': 1, **none, 'streams': {'image': 1, 'audio': 0}},
  }
  assert json.loads((source / 'out' / 'manifest.json').read_text())['coverage'] == manifest.coverage


def test_unmatched_names_are_shown_from_both_sides(source):
  for n in (1, 2):
    (source / 'image' / f'v{n}.npy').rename(source / 'image' / f'clip{n}.npy')
  match = "v1 .train.*v2 .val.*features of image without video: 'clip1', 'clip2'; leave"
  with pytest.raises(DataError, match=match):
    build(options(source))


def test_options_of_the_command(source, capsys):
  arrays = {
    f'train/CLIP_V{n}.mp4': {'feat': values(f'v{n}', (4, n + 4)), 'fps': 25} for n in range(1, 6)
  }
  (source / 'all.pkl').write_bytes(pickle.dumps(arrays))
  given = [
    *(one for one in arguments(source) if not one.startswith('--features')),
    *(f'--features=image={source}/all.pkl', '--keys=image=feat'),
    *('--layout=image=CT', '--match=path,extension,case,prefix:CLIP_', '--max_frames=image=5'),
  ]
  assert main(given) == 0, capsys.readouterr().err
  found = records(source)['v3']['image']
  np.testing.assert_array_equal(found, values('v3', (4, 7)).T[subsample(7, 5)].astype(np.float16))
  for option, text in (
    ('--max_frames=image=many', '--max_frames: image=many: not a whole number'),
    ('--max_regions=3', "'3' is not of the form NAME=VALUE"),
    ('--match=none', 'no features in'),
  ):
    assert main([*given, option]) == 1
    assert text in capsys.readouterr().err
