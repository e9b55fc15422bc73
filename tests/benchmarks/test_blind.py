"""Whether a captioner looks: whose features, category and key frame a video is given."""

import dataclasses

import pytest

from benchmarks import blind
from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import metrics
from vidcap_jax.inference import captioning


@pytest.mark.parametrize('count', [2, 3, 10])
def test_partners_are_one_cycle(count):
  for seed in range(5):
    partner = blind.partners(count, seed)
    place, seen = 0, []
    for _ in range(count):
      place = partner[place]
      seen.append(place)
    assert sorted(seen) == list(range(count))
    assert place == 0
  assert blind.partners(10, 0) != blind.partners(10, 1)


@pytest.mark.parametrize('count', [0, 1])
def test_one_video_has_no_partner(count):
  with pytest.raises(UserError, match=f'a split of {count} video'):
    blind.partners(count)


def test_nothing_of_the_video_itself_is_left(tiny_data):
  videos = [dataclasses.replace(v, category=i) for i, v in enumerate(open_split(tiny_data, 'val'))]
  frames = {video.video_id: 10 + i for i, video in enumerate(videos)}
  lent = attach(blind.swapped(videos), frames)
  partner = blind.partners(len(videos))
  assert len(lent) == len(videos)
  for i, k in enumerate(partner):
    assert (lent[i].category, lent[i].key_frame) == (k, 10 + k)
    assert lent[i].features is videos[k].features


def test_captions_stay_those_of_the_place(restored, tiny_data, monkeypatch):
  """One who says the first reference of what it is shown is right of its own videos alone."""
  said = {video.video_id: video.captions[0] for video in open_split(tiny_data, 'val')}

  def seer(_):
    return lambda source, ids: [
      {'video_id': v, 'caption': said[source[i].video_id]} for i, v in enumerate(ids)
    ]

  monkeypatch.setattr(restore, 'restore', lambda *_: restored)
  monkeypatch.setattr(captioning, 'captioner_of', seer)
  with tiny.without_java():
    rows = {row.name: row for row in blind.measure(str(restored.path), tiny_data, 'val')}
    references = {v.video_id: list(v.captions) for v in open_split(tiny_data, 'val')}
    shown = [list(said.values())[k] for k in blind.partners(3)]
    wanted = metrics.score(dict(zip(references, shown)), references, ('CIDEr',))[0]['CIDEr']
  assert rows['swapped_CIDEr'].value == wanted < rows['CIDEr'].value


def test_chinese_is_compared_by_character(restored, tiny_data, monkeypatch):
  def noted(references, *, by_character=False):
    raise UserError(f'by_character={by_character}')

  vocabulary = dataclasses.replace(restored.vocabulary, tokenizer='by_character')
  assert vocabulary.by_character
  chinese = dataclasses.replace(restored, vocabulary=vocabulary)
  monkeypatch.setattr(restore, 'restore', lambda *_: chinese)
  monkeypatch.setattr(metrics, 'prepare_references', noted)
  with pytest.raises(UserError, match='by_character=True'):
    blind.measure(str(restored.path), tiny_data, 'val')
