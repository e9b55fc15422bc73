"""Features reach a model in prediction as they do in training; inputs that can't are refused."""

import dataclasses
import json

import numpy as np
import pytest

from data_prep.dataset.builder import Options, build
from tests import feature_files
from tests.feature_files import npz
from vidcap_jax.data.batch import default_sizes, fit
from vidcap_jax.data.provenance import FeatureProvenance, from_dict, provenance_of
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features import extractors
from vidcap_jax.inference.inputs import sources_of, split, videos_of

IDS = ('v0', 'v1', 'v2')


def numbers(*shape) -> np.ndarray:
  return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def folder(path, array_of) -> str:
  """ID.npy of each video, or ID.npz where there are several arrays."""
  path.mkdir()
  for i, name in enumerate(IDS):
    made = array_of(i)
    if isinstance(made, dict):
      (path / f'{name}.npz').write_bytes(npz(made))
    else:
      np.save(path / f'{name}.npy', made)
  return str(path)


def built(tmp_path, features, **options):
  """A data set's manifest and its only split, of the videos ``IDS``."""
  (tmp_path / 'captions.jsonl').write_text(
    ''.join(json.dumps({'video_id': name, 'caption': 'a cat'}) + '\n' for name in IDS)
  )
  made = Options(
    form='jsonl',
    annotations=(str(tmp_path / 'captions.jsonl'),),
    features=features,
    split='train',
    out=str(tmp_path / 'set'),
    min_count=1,
    **options,
  )
  return build(made)[0], open_split(tmp_path / 'set', 'train')


def carried(manifest, read) -> FeatureProvenance:
  """How streams of these names were made, as it comes out of a checkpoint."""
  streams = tuple(manifest.stream(name) for name in read)
  return from_dict(json.loads(json.dumps(provenance_of(manifest, streams).to_dict())), streams)


def assert_same(provenance, inputs, source, max_frames=None, blocks=None):
  """Prediction reads the same records and batches as training, bit for bit."""
  sizes = default_sizes(provenance.streams, max_frames, blocks or {})
  rows = [fit(provenance.streams, sizes, blocks or {}, video) for video in source]
  found = list(videos_of(provenance, inputs))
  assert [where for where, _ in found] == [video.video_id for video in source]
  for (_, video), record, row in zip(found, source, rows, strict=True):
    assert not isinstance(video, str), video
    for stream in provenance.streams:
      name = stream.name
      np.testing.assert_array_equal(video.features[name], record.features[name], strict=True)
    for name, array in fit(provenance.streams, sizes, blocks or {}, video).items():
      np.testing.assert_array_equal(array, row[name], strict=True)


ALIGNED = {
  'image': lambda i: numbers(8 + i, 4),
  'motion': lambda i: numbers(7 + i, 3),
}
OBJECTS = {'objects': lambda i: {k: numbers(2, 5 + i, *d) for k, d in SHAPES.items()}}
SHAPES = {'x': (3,), 'boxes': (4,), 'scores': ()}


@pytest.mark.parametrize(
  ('arrays', 'options', 'max_frames'),
  [
    (ALIGNED, {'align': {'image+motion': 'truncate'}}, None),
    (ALIGNED, {'align': {'image+motion': 'resample'}, 'max_frames': {'image': 6}}, 5),
    ({'image': lambda i: numbers(20 + i, 4)}, {'max_frames': {'image': 10}}, 5),
    ({'image': lambda i: numbers(4, 4)}, {'layouts': {'image': 'CT'}, 'dtype': 'float32'}, None),
    (OBJECTS, {'max_regions': {'objects': 2}, 'keys': {'objects': 'x'}}, None),
  ],
  ids=['truncate', 'resample', 'max_frames', 'layout', 'max_regions'],
)
def test_features_are_read_as_by_the_build(tmp_path, arrays, options, max_frames):
  features = {name: folder(tmp_path / name, of) for name, of in arrays.items()}
  manifest, source = built(tmp_path, features, **options)
  inputs = ','.join(f'{name}={path}' for name, path in features.items())
  provenance = carried(manifest, features)
  assert_same(provenance, inputs, source, max_frames)
  # The options do make a difference here.
  with pytest.raises(AssertionError):
    assert_same(
      FeatureProvenance(provenance.streams, options={'keys': {'objects': 'x'}}), inputs, source
    )


def test_tables_without_ids(tmp_path):
  table = {'feats': numbers(3, 6, 4), 'lens': np.array([6, 6, 6])}
  path = feature_files.write_h5(tmp_path / 'a', table)
  build_options = {'keys': {'image': 'feats'}, 'rows': {'image': 'v0'}}
  manifest, source = built(tmp_path, {'image': str(path)}, **build_options)
  provenance = carried(manifest, ['image'])
  assert_same(provenance, str(path), source)
  # Kept in another form they need neither, and have ids of their own.
  each = {'v7': numbers(5, 4)}
  ids = np.array([b'v9'])
  for name, arrays, wanted in (
    ('b', each, 'v7'),
    ('c', {'feats': numbers(1, 6, 4), 'ids': ids}, 'v9'),
  ):
    file = feature_files.write_h5(tmp_path / name, arrays)
    ((video_id, video),) = videos_of(provenance, f'image={file}')
    assert (video_id, video.features['image'].shape[1]) == (wanted, 4)


CLOCK = {'pool2': lambda i: numbers(24 + 4 * i, 3), 'pool5': lambda i: numbers(6 + i, 4)}


@pytest.mark.parametrize(
  ('arrays', 'options', 'read', 'alignment'),
  [
    (ALIGNED, {'align': {'image+motion': 'truncate'}}, 'image', 'motion'),
    (CLOCK, {'blocks': {'pool2': 4, 'pool5': 1}, 'max_frames': {'pool2': 13}}, 'pool5', 'pool2'),
  ],
  ids=['align', 'clock'],
)
def test_alignment_streams_are_needed_too(tmp_path, arrays, options, read, alignment):
  features = {name: folder(tmp_path / name, of) for name, of in arrays.items()}
  manifest, source = built(tmp_path, features, **options)
  provenance = carried(manifest, [read])
  assert [s.name for s in provenance.alignment_streams] == [alignment]
  assert_same(provenance, ','.join(f'{name}={path}' for name, path in features.items()), source)
  with pytest.raises(DataError, match=f'{read},.* {alignment}; missing: {alignment}'):
    videos_of(provenance, f'{read}={features[read]}')
  # Where lengths have to agree there is nothing to decide.
  groups = {'align': {'image+motion': 'error'}, 'blocks': options.get('blocks', {})}
  lax = dataclasses.replace(manifest, source=groups)
  assert carried(lax, [read]) == FeatureProvenance((manifest.stream(read),))


IMAGE = FeatureProvenance((Stream('image', 'sequence', (None, 4), longest=9),))
BOTH = FeatureProvenance((*IMAGE.streams, Stream('motion', 'sequence', (None, 3))))


def test_features_of_one_stream_need_no_name(tmp_path):
  place = folder(tmp_path / 'image', lambda i: numbers(5 + i, 4))
  whole = feature_files.write_h5(tmp_path / 'whole', {'w': numbers(2, 4)}).rename(
    tmp_path / 'all.hdf5'
  )
  (tmp_path / 'image' / 'v1.npy').write_bytes(b'nothing')
  ids = lambda inputs: [(where, isinstance(v, str)) for where, v in videos_of(IMAGE, inputs)]  # noqa: E731
  expected = [('v0', False), ('v1', True), ('v2', False)]
  assert ids(place) == expected
  assert ids(','.join(f'{place}/{name}.npy' for name in IDS)) == expected
  assert ids(f'{place}/gone.npy,{whole},{place}/v2.npy') == [
    (f'{place}/gone.npy', True),
    ('w', False),
    ('v2', False),
  ]


def test_commas_in_the_names_of_files(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name in ('a, b.npy', 'c.npy', 'd,e,f.mp4'):
    (tmp_path / name).touch()
  assert split('a, b.npy') == ['a, b.npy']
  assert split('gone,a, b.npy,,c.npy,gone') == ['gone', 'a, b.npy', 'c.npy', 'gone']
  assert split('image=a, b.npy,motion=c.npy') == ['image=a, b.npy', 'motion=c.npy']
  assert split('d,e,f.mp4,d,e') == ['d,e,f.mp4', 'd', 'e']


def test_sources_are_the_files_of_videos_but_not_of_features(tmp_path):
  (tmp_path / 'frames').mkdir()
  for name in ('a.mp4', 'features.npy', 'frames/1.png', 'frames/2.png'):
    (tmp_path / name).touch()
  found = sources_of(f'{tmp_path}/a.mp4,{tmp_path}/frames', frame_rate='10')
  assert found['a'] == tmp_path / 'a.mp4'
  assert [file.name for file in found['frames'].files] == ['1.png', '2.png']
  assert found['frames'].rate == 10
  assert sources_of(f'{tmp_path}/features.npy') == {}
  assert sources_of(f'image={tmp_path}/features.npy') == {}


@pytest.mark.parametrize(
  ('provenance', 'inputs', 'message'),
  [
    (IMAGE, ',', '--inputs: .*files or folders'),
    (BOTH, 'IN', r'several streams.* image=PATH,motion=PATH'),
    (BOTH, 'IN/v0.npy,IN/v1.npy', r'several streams.* image=PATH,motion=PATH'),
    (BOTH, 'image=IN', 'image, motion; missing: motion$'),
    (IMAGE, 'image=IN,sound=IN', 'image; unknown: sound$'),
    (IMAGE, 'image=IN,image=IN', 'image; .*twice: image$'),
    (IMAGE, 'image=IN,clip.mp4', 'NAME=FEATURES'),
    (IMAGE, 'IN/v0.npy,clip.mp4', 'v0.npy .*clip.mp4'),
    (IMAGE, 'image=/nowhere', "stream 'image': /nowhere: "),
    (IMAGE, 'image=IN/words.txt', "stream 'image': .*words.txt: "),
  ],
)
def test_inputs_that_do_not_fit_the_model(tmp_path, provenance, inputs, message):
  place = folder(tmp_path / 'in', lambda i: numbers(5, 4))
  (tmp_path / 'in' / 'words.txt').touch()
  with pytest.raises(DataError, match=message):
    videos_of(provenance, inputs.replace('IN', place))


@pytest.mark.parametrize(
  ('field', 'trained', 'given'),
  [
    ('extractor', 'resnet', 'vgg'),
    ('version', '1', '2'),
    ('sampling', {'uniform': 20}, {'every': 5}),
  ],
)
def test_features_extracted_differently_are_refused(tmp_path, field, trained, given):
  place = folder(tmp_path / 'in', lambda i: numbers(5, 4))
  provenance = FeatureProvenance((dataclasses.replace(IMAGE.streams[0], **{field: trained}),))
  assert len(list(videos_of(provenance, place))) == 3
  for made in (trained, given):
    (tmp_path / 'in' / 'stream.json').write_text(json.dumps({field: made}))
    if made == trained:
      assert len(list(videos_of(provenance, f'{place}/v0.npy'))) == 1
      continue
    for inputs in (place, f'{place}/v0.npy'):
      with pytest.raises(DataError, match=f"stream 'image': .*{field}"):
        videos_of(provenance, inputs)


@pytest.mark.parametrize(
  ('made', 'message'),
  [
    ({}, "stream 'image': .*extractor.*--inputs=image=DIR"),
    ({'extractor': 'resnet', 'sampling': {'every': 5}}, "stream 'image': unknown extractor"),
    (
      {'extractor': 'random_sequence', 'version': '0', 'sampling': {'every': 5}},
      "stream 'image': made by random_sequence version '0', this program has version",
    ),
    ({'extractor': 'random_sequence'}, "stream 'image': .*sampling"),
  ],
)
def test_streams_that_cannot_be_extracted(made, message):
  provenance = FeatureProvenance((dataclasses.replace(IMAGE.streams[0], **made),))
  with pytest.raises(DataError, match=message):
    videos_of(provenance, 'clip.mp4')


def test_older_frames_are_named(capsys):
  older = dataclasses.replace(
    IMAGE.streams[0], extractor='random_sequence', version='1', sampling={'every': 5}
  )
  videos_of(FeatureProvenance((older,)), 'missing.mp4')
  noted = capsys.readouterr().err
  assert 'stream image' in noted
  assert '+clock-2' in noted


def test_frames_in_files_need_a_rate_to_be_sampled_by_time(tmp_path):
  image = pytest.importorskip('PIL.Image')
  for i in range(6):
    image.fromarray(np.full((32, 32, 3), 40 * i, np.uint8)).save(tmp_path / f'{i}.png')
  made = extractors.describe('random_sequence', {'fps': 2})
  del made['kind']
  stream = dataclasses.replace(IMAGE.streams[0], shape=(None, 128), **made)
  provenance = FeatureProvenance((stream,))
  with pytest.raises(DataError, match=f"{tmp_path}: stream 'image' .*--frame_rate"):
    videos_of(provenance, str(tmp_path))
  for rate, frames in (('2', 6), ('4', 3)):
    ((_, video),) = videos_of(provenance, str(tmp_path), frame_rate=rate)
    assert video.video_id == tmp_path.name
    assert len(video.features['image']) == frames
  # A single picture is on screen at 0 seconds.
  ((_, video),) = videos_of(provenance, str(tmp_path / '3.png'))
  assert len(video.features['image']) == 1
