import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.models.captioner import Needs
from vidcap_jax.models.streams import select_streams, to_inputs

IMAGE = Stream('image', 'sequence', (None, 3), mean=(1.0, 0.0, -2.0), std=(2.0, 0.5, 4.0))
AUDIO = Stream('audio', 'vector', (2,), mean=(0.0, 1.0), std=(1.0, 2.0))
OBJECTS = Stream(
  'objects', 'regions', (None, None, 2), most_regions=2, mean=(1.0, 1.0), std=(1.0, 1.0)
)
STREAMS = (IMAGE, AUDIO, OBJECTS)


@pytest.fixture
def batch():
  rng = np.random.default_rng(0)
  draw = lambda *shape: rng.normal(size=shape).astype(np.float16)  # noqa: E731
  masks = {
    'image': np.array([[True, True], [True, False]]),
    'audio': np.array([True, False]),
    'objects': np.array([[[True, False]] * 2, [[False, False], [True, True]]]),
  }
  features = {'image': draw(2, 2, 3), 'audio': draw(2, 2), 'objects': draw(2, 2, 2, 2)}
  return {
    'features': features,
    'masks': masks,
    'category': np.array([3, -1], np.int32),
    'key_frame': np.array([-1, 1], np.int32),
  }


def test_standardised_where_valid_and_zero_elsewhere(batch):
  for x, mask in zip(batch['features'].values(), batch['masks'].values()):
    x[~mask] = np.nan
  inputs = jax.jit(lambda b: to_inputs(b, STREAMS, True))(batch)
  for stream in STREAMS:
    x, mask = batch['features'][stream.name].astype(np.float32), batch['masks'][stream.name]
    expected = (x - np.float32(stream.mean)) / np.float32(stream.std)
    expected[~mask] = 0
    assert inputs.features[stream.name].dtype == jnp.float32
    np.testing.assert_allclose(inputs.features[stream.name], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(inputs.masks[stream.name], mask)
  np.testing.assert_array_equal(inputs.category, [3, -1])
  np.testing.assert_array_equal(inputs.key_frame, [-1, 1])
  assert inputs.batch_size == 2


def test_not_asked_for_or_no_statistics(batch):
  bare = tuple(dataclasses.replace(stream, mean=(), std=()) for stream in STREAMS)
  for streams, standardise in ((STREAMS, False), (bare, True)):
    inputs = to_inputs(batch, streams, standardise)
    for name, x in batch['features'].items():
      np.testing.assert_array_equal(inputs.features[name], x.astype(np.float32))


def test_streams_that_the_model_does_not_read_are_left_out(batch):
  inputs = to_inputs(batch, (AUDIO,), True)
  assert set(inputs.features) == set(inputs.masks) == {'audio'}


def test_channels_that_were_constant_in_training_become_zeros(batch):
  """Also where a mean is rounded, and where another split is not constant."""
  batch['features']['image'][..., 1] = 123.4
  batch['features']['image'][0, 0, 1] = 130
  batch['features']['image'][..., 2] = 0.25
  stream = dataclasses.replace(IMAGE, mean=(1.0, 123.375, 0.0), std=(2.0, 1e-7, 0.0))
  x = to_inputs(batch, (stream,), True).features['image']
  assert (np.asarray(x)[..., 1:] == 0).all()
  np.testing.assert_allclose(x[0, :, 0], (batch['features']['image'][0, :, 0] - 1.0) / 2, 1e-3)


NEEDS = Needs({'image': ('sequence',), 'audio': ('sequence', 'vector')})


def test_streams_are_selected_in_the_order_of_the_needs():
  assert select_streams(NEEDS, (OBJECTS, AUDIO, IMAGE), 'here') == (IMAGE, AUDIO)


def test_a_stream_that_is_missing():
  message = (
    r"'audio' \(sequence or vector\).*DIR.*image: sequence \(T, 3\); objects: regions \(T, N, 2\)"
    r'.*config\.model.*docs/models\.md'
  )
  with pytest.raises(DataError, match=message):
    select_streams(NEEDS, (IMAGE, OBJECTS), 'DIR')
  with pytest.raises(DataError, match='DIR.*none.*config.model'):
    select_streams(NEEDS, (), 'DIR')


def test_a_stream_of_another_kind():
  grid = Stream('image', 'grid', (None, 7, 7, 3))
  message = r"'image'.*sequence.*DIR.*grid \(T, 7, 7, 3\).*docs/models\.md"
  with pytest.raises(DataError, match=message):
    select_streams(NEEDS, (grid, AUDIO), 'DIR')
