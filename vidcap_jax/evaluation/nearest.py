"""The captions of the most similar training videos, as a baseline that learns nothing."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from vidcap_jax.data.records import Video, VideoSource
from vidcap_jax.data.schema import Stream


def medoid(captions: Sequence[str]) -> str:
  """The caption with the highest mean F1 of words against all of them."""
  bags = [Counter(caption.lower().split()) for caption in captions]

  def shared(a: Counter, b: Counter) -> float:
    return 2 * (a & b).total() / max(1, a.total() + b.total())

  return captions[int(np.argmax([sum(shared(a, b) for b in bags) for a in bags]))]


def nearest(features: np.ndarray, others: np.ndarray) -> np.ndarray:
  """For every row of ``features`` the index of the row of ``others`` with the highest cosine.

  Both are standardised by the mean and deviation of ``others`` first.
  """
  mean, deviation = others.mean(axis=0), others.std(axis=0) + 1e-8
  a, b = (features - mean) / deviation, (others - mean) / deviation
  a /= np.maximum(1e-12, np.linalg.norm(a, axis=1, keepdims=True))
  b /= np.maximum(1e-12, np.linalg.norm(b, axis=1, keepdims=True))
  return np.argmax(a @ b.T, axis=1)


def mean_features(video: Video, streams: Sequence[Stream]) -> np.ndarray:
  """The mean of each stream's feature vectors, one after another: (D of all streams,).

  Vectors of zeros, as of absent regions, are left out; a stream that the video lacks is zeros.
  """
  means = []
  for stream in streams:
    vectors = video.features[stream.name].reshape(-1, stream.channels).astype(np.float32)
    vectors = vectors[vectors.any(axis=1)]
    means.append(vectors.mean(0) if len(vectors) else np.zeros(stream.channels, np.float32))
  return np.concatenate(means)


def nearest_captions(
  videos: VideoSource, training: VideoSource, streams: Sequence[Stream]
) -> dict[str, str]:
  """Video id -> the medoid caption of the training video with the closest mean features.

  Args:
    videos: to caption.
    training: with captions.
    streams: that are compared, all channels alike.
  """
  captions, others = [], []
  for i in range(len(training)):
    video = training[i]
    captions.append(video.captions)
    others.append(mean_features(video, streams))
  ids, features = [], []
  for i in range(len(videos)):
    video = videos[i]
    ids.append(video.video_id)
    features.append(mean_features(video, streams))
  closest = nearest(np.stack(features), np.stack(others))
  return {video_id: medoid(captions[i]) for video_id, i in zip(ids, closest, strict=True)}
