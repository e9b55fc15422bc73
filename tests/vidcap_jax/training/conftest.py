"""A split with a broken video, and a finished run of two stages."""

import dataclasses

import numpy as np
import pytest

from tests import tiny
from vidcap_jax.data.records import open_split
from vidcap_jax.training import train_data


@dataclasses.dataclass(frozen=True)
class WithInf:
  """A split in which the features of one video are infinite."""

  source: object
  video_id: str

  def __len__(self):
    return len(self.source)

  def __getitem__(self, index):
    video = self.source[index]
    if video.video_id != self.video_id:
      return video
    image = np.full_like(video.features['image'], np.inf)
    return dataclasses.replace(video, features={'image': image})


@pytest.fixture
def with_inf(monkeypatch):
  """v0, whose one caption comes in every second step, is broken."""

  def broken(directory, split):
    source = open_split(directory, split)
    return WithInf(source, 'v0') if split == 'train' else source

  monkeypatch.setattr(train_data, 'open_split', broken)


@pytest.fixture(scope='session')
def two_stages(tiny_data, tmp_path_factory):
  """A config of two stages, and the workdir of a finished run of it."""
  second = {'train': {'init_from': 'stage:first', 'epochs': 1.0}}
  config = tiny.staged_config(tiny_data, first={}, second=second)
  with tiny.without_java():
    return config, tiny.run(config, tmp_path_factory.mktemp('stages') / 'work')
