import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vidcap_jax.data.batches import SIZES, STREAMS
from vidcap_jax.data.batch import default_sizes, read_row, stack, subsample
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import build_vocabulary
from vidcap_jax.distributed.mesh import check_batch_size
from vidcap_jax.errors import DataError

VOCABULARY = build_vocabulary(['a cat'], min_count=1, max_words=3)


def one_video(video, stream, size):
  """A batch of one video with one stream."""
  form = ((stream,), {stream.name: size}, 1, 4)
  return stack(*form, [read_row([video], VOCABULARY, *form, {}, (0, None))])


@given(st.integers(0, 3000), st.integers(1, 200))
def test_subsampling(frames, size):
  kept = subsample(frames, size)
  assert len(kept) == min(frames, size)
  assert len(set(kept.tolist())) == len(kept)
  assert (np.diff(kept) > 0).all()
  if frames:
    assert 0 <= kept[0] <= kept[-1] < frames
  if min(frames, size) >= 2:
    assert (kept[0], kept[-1]) == (0, frames - 1)
    assert np.diff(kept).max() - np.diff(kept).min() <= 1  # evenly
    np.testing.assert_allclose(kept, np.linspace(0, frames - 1, len(kept)), atol=0.5)


def test_subsampling_to_one_frame_takes_the_middle():
  assert [subsample(n, 1).tolist() for n in (1, 2, 3, 8, 9)] == [[0], [1], [1], [4], [4]]


@pytest.mark.parametrize(
  ('frames', 'size', 'kept'),
  [(7, 9, [0, 1, 2, 3, 4, 5, 6]), (7, 6, [0, 1, 2, 6]), (12, 6, [0, 1, 2, 9, 10, 11])],
)
def test_subsampling_whole_blocks(frames, size, kept):
  assert subsample(frames, size, 3).tolist() == kept
  # A stream of one frame a block keeps those of the same blocks.
  units = sorted({i // 3 for i in kept})
  assert subsample(-(-frames // 3), size // 3).tolist() == units


def test_default_sizes():
  assert default_sizes(STREAMS) == {'audio': (), 'image': (7,), 'map': (4, 6), 'objects': (4, 5)}
  assert default_sizes(STREAMS, max_frames=5)['image'] == (5,)
  # 7 images are 3 units of 3 and 4 frames of objects 4 units: both get the longer.
  clock = {'image': 3, 'objects': 1}
  assert default_sizes(STREAMS, blocks=clock) == {
    'audio': (),
    'image': (12,),
    'map': (4, 6),
    'objects': (4, 5),
  }
  assert default_sizes(STREAMS, 7, clock)['image'] == (6,)
  assert default_sizes(STREAMS, 2, clock)['image'] == (3,)
  # A stream that no video has still gets a size.
  nothing = Stream('objects', 'regions', (None, None, 6), longest=0, most_regions=0)
  assert default_sizes([nothing], blocks={'objects': 16}) == {'objects': (16, 1)}


def test_a_grid_has_fixed_rows_and_columns():
  with pytest.raises(DataError, match="'map': a grid needs fixed rows and columns"):
    default_sizes([Stream('map', 'grid', (None, None, None, 5))])


@pytest.mark.parametrize('dtype', ['float16', 'float32'])
def test_negative_zero_is_zero_and_nan_is_not(dtype):
  rows = np.array([[[-0.0, 0], [0, np.nan], [0, 6e-8]]])
  stream = Stream('o', 'regions', (None, None, 2), dtype=dtype, most_regions=3)
  batch = one_video(Video('v', (), {'o': rows.astype(dtype)}), stream, (1, 3))
  assert batch['masks']['o'].tolist() == [[[False, True, True]]]


@pytest.mark.parametrize(
  ('size', 'hosts', 'message'),
  [
    (10, 4, 'batch size of 10 does not divide over 4 hosts; the nearest that does: 8 or 12'),
    (3, 4, 'the nearest that does: 4$'),
    (4, 0, '0 hosts: at least 1'),
  ],
)
def test_batch_sizes_that_do_not_divide(size, hosts, message):
  with pytest.raises(DataError, match=message):
    check_batch_size(size, hosts)


@pytest.mark.parametrize(
  ('name', 'array', 'message'),
  [
    ('image', None, "video 'v' has no stream 'image'; it has: other"),
    ('image', np.ones((2, 1)), r"'v', stream 'image': shape \(2, 1\) does not fit a sequence"),
    ('image', np.ones((2, 2, 4)), r'shape \(2, 2, 4\)'),
    ('audio', np.ones(3), r'shape \(3,\) does not fit a vector of shape \(None, 3\)'),
    ('audio', np.ones((2, 3)), r'shape \(2, 3\) does not fit a vector'),
    ('map', np.ones((2, 3, 2, 5)), r'shape \(2, 3, 2, 5\) does not fit a grid'),
  ],
)
def test_records_that_do_not_fit(name, array, message):
  stream = next(s for s in STREAMS if s.name == name)
  features = {'other': np.ones((1, 4))} if array is None else {name: array}
  with pytest.raises(DataError, match=message):
    one_video(Video('v', (), features), stream, SIZES[name])
