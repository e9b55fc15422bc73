"""Lines of text about a build."""

from data_prep.report.summary import dropped_lines, stream_line
from vidcap_jax.data.schema import Dropped, Manifest, Stream


def test_stream_in_words():
  regions = Stream(
    'objects',
    'regions',
    (None, None, 6),
    extractor='net',
    version='2',
    optional=True,
    longest=9,
    most_regions=5,
  )
  line = stream_line(regions)
  for words in ('regions', 'float16', '9 frames', '5 regions', 'net 2', 'optional'):
    assert words in line
  assert 'frames' not in stream_line(Stream('clip', 'vector', (3,)))


def test_dropped_videos_are_counted_by_split_and_reason():
  dropped = (
    Dropped('v1', 'train', 'a/v1.npy: 3 of 8 values are NaN'),
    Dropped('v2', 'train', 'b/v2.npy: empty file'),
    Dropped('v3', 'train', 'no features in image'),
    Dropped('v4', '', 'in no split'),
  )
  manifest = Manifest('clips', streams=(), splits={}, vocabulary=None, dropped=dropped)
  bad, missing, unassigned = dropped_lines(manifest)
  assert '2 videos of train' in bad
  assert 'v1: a/v1.npy' in bad
  assert '1 video of train: no features in image' in missing
  assert '1 video: in no split' in unassigned
