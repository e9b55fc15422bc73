"""The nearest training video by mean features, and the caption that stands for its captions."""

import numpy as np

from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.evaluation import nearest

STREAMS = (Stream('image', 'sequence', (None, 2)), Stream('boxes', 'regions', (None, None, 1)))


def test_the_medoid_shares_most_words():
  captions = ['a red car', 'A man sings loudly', 'a man sings a song', 'a man is singing a song']
  assert nearest.medoid(captions) == 'a man sings a song'


def test_nearest_compares_directions_after_standardising():
  others = np.array([[0.0, 1000.0], [1.0, 2000.0], [2.0, 1000.0]])
  assert nearest.nearest(np.array([[1.9, 1010.0], [1.0, 9000.0]]), others).tolist() == [2, 1]


def video(name, image, boxes=(), captions=()):
  features = {
    'image': np.reshape(np.asarray(image, np.float16), (-1, 2)),
    'boxes': np.reshape(np.asarray(boxes, np.float16), (-1, 2, 1)),
  }
  return Video(name, tuple(captions), features)


def test_means_leave_out_absent_regions_and_streams():
  means = nearest.mean_features(video('v', [[1, 3], [3, 5]], [[4, 0], [2, 0]]), STREAMS)
  assert means.tolist() == [2, 4, 3]
  assert nearest.mean_features(video('v', []), STREAMS).tolist() == [0, 0, 0]


def test_a_video_gets_the_medoid_of_the_nearest_training_video():
  training = [
    video('a', [[1, 0]], captions=('a red car', 'a man sings', 'a man sings now')),
    video('b', [[0, 1]], captions=('a dog runs',)),
  ]
  videos = [video('c', [[0.1, 0.8]]), video('d', [[5, 1]])]
  captions = nearest.nearest_captions(videos, training, STREAMS[:1])
  assert captions == {'c': 'a dog runs', 'd': 'a man sings'}
