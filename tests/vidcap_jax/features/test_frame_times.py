"""The times of features' rows are those at which the networks read the frames."""

import pathlib
from fractions import Fraction

import numpy as np
import pytest

from tests.video_files import ramp, write_video
from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.schema import Stream
from vidcap_jax.features import frame_times, sampling, video
from vidcap_jax.features.picture_files import FrameFiles

FRAMES = 25


@pytest.fixture(scope='module')
def clip(tmp_path_factory):
  return write_video(tmp_path_factory.mktemp('clip') / 'v.mp4', ramp(FRAMES))


def stream(how, name='image'):
  return Stream(name, 'sequence', (None, 4), longest=99, sampling=how)


def times_of(how, rows, source, **options):
  provenance = FeatureProvenance((stream(how),), (), {k: {'image': v} for k, v in options.items()})
  return frame_times.times_of(provenance, {'image': rows}, source)['image']


@pytest.mark.parametrize(
  'how', [{'uniform': 8}, {'every': 4}, {'fps': 3.0}, {'every': 2, 'one_in': 3}]
)
def test_times_are_those_of_the_frames_read(clip, how):
  read = [frame.time for frame in video.sample(clip, how, 16)]
  assert sampling.sampled_times(how, video.clock_of(clip)) == pytest.approx(read)
  found = times_of(how, len(read), clip)
  assert found.seconds == pytest.approx(read)
  assert found.how == 'sampled'


def test_windows_have_the_time_of_their_middle_frame(clip):
  how = {'every': 1, 'window': 8, 'stride': 8}
  assert sampling.sampled_times(how, video.clock_of(clip)) == pytest.approx([0.3, 1.1, 1.9])
  long = {**how, 'window': 99}
  assert sampling.sampled_times(long, video.clock_of(clip)) == pytest.approx([2.4])


def test_frames_that_a_build_left_out(clip):
  found = times_of({'every': 2}, 5, clip, max_frames=5)
  np.testing.assert_allclose(found.seconds, [0.0, 0.6, 1.2, 1.8, 2.4])


def test_rows_made_of_several_frames_are_spread(clip):
  # Changes from each frame to the next stand between the two.
  np.testing.assert_allclose(
    times_of({'every': 8}, 3, clip).seconds, (np.arange(3) + 0.5) * 4 / 3 * 0.8 - 0.4
  )


def test_unknown_samplings_are_assumed_even(clip):
  found = times_of(None, 5, clip)
  np.testing.assert_allclose(found.seconds, [0.25, 0.75, 1.25, 1.75, 2.25])
  assert found.how == 'assumed'


@pytest.mark.parametrize(
  ('how', 'expected'),
  [
    ({'fps': 2.0}, (0.0, 0.5, 1.0)),
    ({'fps': 2.0, 'one_in': 3}, (0.5, 2.0, 3.5)),
    ({'fps': 2.0, 'window': 4, 'stride': 2}, (0.5, 1.5, 2.5)),
  ],
)
def test_without_the_video_a_rate_is_enough(clip, how, expected):
  assert times_of(how, 3, None).seconds == expected
  provenance = FeatureProvenance((stream(how),), (), {'max_frames': {'image': 3}})
  assert frame_times.times_of(provenance, {'image': 3}, None) == {}
  assert (
    frame_times.times_of(FeatureProvenance((stream({'uniform': 3}),)), {'image': 3}, None) == {}
  )


def test_without_the_video_rates_agree_with_the_file(clip):
  for how in ({'fps': 5.0}, {'fps': 10.0, 'one_in': 3}, {'fps': 10.0, 'window': 5, 'stride': 3}):
    known = times_of(how, 4, None).seconds
    assert sampling.sampled_times(how, video.clock_of(clip))[:4] == pytest.approx(known)


def test_frames_in_files_have_times_by_their_rate():
  files = tuple(pathlib.Path(f'{i}.png') for i in range(20))
  rated = FrameFiles('v', files, Fraction(10))
  assert times_of({'fps': 2.0}, 4, rated).seconds == (0.0, 0.5, 1.0, 1.5)
  unknown = times_of({'fps': 2.0}, 4, FrameFiles('v', files))
  assert unknown.how == 'assumed'
  assert unknown.seconds == (2.5, 7.5, 12.5, 17.5)
  assert unknown.unit == 'pictures'
  assert times_of({'every': 5}, 4, FrameFiles('v', files)).seconds == (0.0, 5.0, 10.0, 15.0)


def test_streams_that_a_video_lacks_have_no_times(clip):
  provenance = FeatureProvenance((stream({'uniform': 3}), stream({'hop': 1.0}, 'audio')))
  assert set(frame_times.times_of(provenance, {'image': 3, 'audio': 0}, clip)) == {'image'}
