"""The videos of a split in a cycle, each with the features of another one."""

import dataclasses

import pytest

from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation.swapped import partners, swap_features


@pytest.mark.parametrize('count', [2, 3, 10])
def test_partners_form_one_cycle(count):
  for seed in range(5):
    partner = partners(count, seed)
    place, visited = 0, []
    for _ in range(count):
      place = partner[place]
      visited.append(place)
    assert sorted(visited) == list(range(count))
    assert place == 0
  assert partners(10, 0) != partners(10, 1)


@pytest.mark.parametrize('count', [0, 1])
def test_one_video_has_no_partner(count):
  with pytest.raises(UserError, match=f'split has {count}'):
    partners(count)


def test_features_category_and_key_frame_are_swapped(tiny_data):
  videos = [dataclasses.replace(v, category=i) for i, v in enumerate(open_split(tiny_data, 'val'))]
  frames = {video.video_id: 10 + i for i, video in enumerate(videos)}
  swapped = attach(swap_features(videos), frames)
  partner = partners(len(videos))
  assert len(swapped) == len(videos)
  for i, k in enumerate(partner):
    assert (swapped[i].category, swapped[i].key_frame) == (k, 10 + k)
    assert swapped[i].features is videos[k].features
