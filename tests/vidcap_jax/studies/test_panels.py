"""The pictures of frames, and what part of a frame they show."""

import dataclasses

from tests.vidcap_jax.studies.explained import (
  ATTENTIONS,
  EXPLAINED,
  PICTURES,
  SECONDS,
  TIMED,
)
from vidcap_jax.features import networks
from vidcap_jax.features.frame_times import FrameTimes
from vidcap_jax.studies.panels import picture_form, picture_of
from vidcap_jax.studies.videos import Chosen


def test_pictures_are_those_of_the_frames():
  temporal = ATTENTIONS[0]
  picture, label = picture_of(TIMED, PICTURES, temporal, 2)
  assert (int(picture[0, 0, 0]), label) == (80, '1.0 s')
  assert picture_of(Chosen(EXPLAINED.video), PICTURES, temporal, 2) == (None, 'frame 2')
  counted = {'cells': FrameTimes(SECONDS, 'sampled', 'pictures')}
  assert picture_of(Chosen(EXPLAINED.video, times=counted), PICTURES, temporal, 2)[1] == 'picture 1'
  middle, label = picture_of(TIMED, PICTURES, ATTENTIONS[1], None)
  assert (int(middle[0, 0, 0]), label) == (80, 'all frames')


def test_pictures_show_what_the_network_read(monkeypatch):
  plain = networks.NETWORKS['random']
  monkeypatch.setitem(networks.NETWORKS, 'random', dataclasses.replace(plain, size=224, scale=256))
  assert picture_form('random_grid') == (False, 256 / 224)
  for whole in ({'size': None}, {'stretch': True}):
    monkeypatch.setitem(networks.NETWORKS, 'random', dataclasses.replace(plain, **whole))
    assert picture_form('random_grid') == (True, 1.0)
  assert picture_form(None) == picture_form('mine') == (False, 1.0)
