"""Every kind of attention has a panel, with pictures or without."""

import dataclasses

import matplotlib.image
import numpy as np
import pytest

from vidcap_jax.data.records import Video
from vidcap_jax.features import networks
from vidcap_jax.features.frame_times import FrameTimes
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.studies import attention_figure, place_panels
from vidcap_jax.studies.panels import Gallery, picture_form, picture_of
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained

WORDS = ('a', 'red', '$x^')  # no formulas are read from words
T = 4


def attention(name, axes, shape, stream='cells', grid=None, **options):
  rng = np.random.default_rng(0)
  rows = np.arange(T) if 'frames' in axes else np.zeros(0, int)
  values = rng.dirichlet(np.ones(int(np.prod(shape))), len(WORDS)).reshape(len(WORDS), *shape)
  return Attention(name, AttentionAxes(axes, stream, **options), values, rows, grid)


ATTENTIONS = (
  attention('temporal', ('frames',), (T,)),
  attention('st_spatial', ('places',), (6,), grid=(2, 3)),
  attention('ts_spatial', ('places',), (6,), grid=(2, 3), frames='temporal'),
  attention('all', ('frames', 'places'), (T, 6), grid=(2, 3)),
  attention('one_place', ('frames', 'places'), (T, 1), grid=None),
  attention('keyframe', ('picks', 'frames'), (2, T)),
  attention('spatial', ('picks', 'places'), (2, 5), frames='keyframe'),
  attention('layer', ('layers',), (2,), '', names=('pool4', 'pool5')),
  attention('branch', ('branches',), (2,), '', names=('ST', 'TS')),
  attention('words', ('words',), (3,), ''),
)
EXPLAINED = Explained(Video('v', (), {}), WORDS, {a.name: a for a in ATTENTIONS})
SECONDS = (0.0, 0.5, 1.0, 1.5)
TIMED = Chosen(EXPLAINED.video, times={'cells': FrameTimes(SECONDS, 'sampled')})
PICTURES = Gallery(
  {('cells', s): np.full((16, 16, 3), 40 * i, np.uint8) for i, s in enumerate(SECONDS)}
)
BOXES = np.tile([0.25, 0.25, 0.75, 0.75], (T, 5, 1))


@pytest.mark.parametrize(
  ('chosen', 'gallery'),
  [
    (Chosen(EXPLAINED.video), Gallery({})),
    (TIMED, Gallery({})),
    (TIMED, PICTURES),
    (Chosen(EXPLAINED.video, times=TIMED.times, boxes=BOXES), PICTURES),
  ],
  ids=['nothing known', 'times', 'pictures', 'boxes'],
)
def test_a_figure_of_all_attentions(chosen, gallery, tmp_path):
  path = tmp_path / 'a.png'
  attention_figure.draw(EXPLAINED, chosen, gallery, path)
  image = matplotlib.image.imread(path)
  assert image.std() > 0.05


def test_every_attention_has_its_panels():
  titles = {
    a.name: [p.title for p in attention_figure.panels_of(a, EXPLAINED, TIMED, PICTURES)]
    for a in ATTENTIONS
  }
  assert {name: len(found) for name, found in titles.items()} == {
    **dict.fromkeys(titles, 1),
    'all': 2,
  }
  assert '2 x 3' in titles['st_spatial'][0]
  assert '2 picks' in titles['spatial'][0]


def test_an_empty_caption_can_be_drawn(tmp_path):
  empty = {a.name: Attention(a.name, a.axes, a.weights[:0], a.rows, a.grid) for a in ATTENTIONS}
  attention_figure.draw(Explained(EXPLAINED.video, (), empty), TIMED, PICTURES, tmp_path / 'a.png')


def test_places_of_the_frame_with_the_largest_weight():
  by_name = EXPLAINED.attentions
  temporal = by_name['temporal'].weights
  for word, (place,) in enumerate(place_panels.strongest_places(by_name['ts_spatial'], by_name)):
    assert place.frame == temporal[word].argmax()
  for word, (place,) in enumerate(place_panels.strongest_places(by_name['all'], by_name)):
    frame = by_name['all'].weights[word].sum(1).argmax()
    assert place.frame == frame
    np.testing.assert_array_equal(place.weights, by_name['all'].weights[word, frame])
  for word, picks in enumerate(place_panels.strongest_places(by_name['spatial'], by_name)):
    assert [p.frame for p in picks] == by_name['keyframe'].weights[word].argmax(-1).tolist()
  assert place_panels.strongest_places(by_name['st_spatial'], by_name)[0][0].frame is None


def test_heat_is_where_the_weights_are():
  heat = place_panels.upsampled(np.array([[0.0, 0.0], [0.0, 1.0]]), 20, 40)
  assert heat.shape == (20, 40, 4)
  assert heat[:5, :10, 3].max() == 0
  assert heat[15:, 30:, 3].min() == heat[..., 3].max() == pytest.approx(0.75)


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
  monkeypatch.setitem(networks.NETWORKS, 'random', dataclasses.replace(plain, size=None))
  assert picture_form('random_grid') == (True, 1.0)
  assert picture_form(None) == picture_form('mine') == (False, 1.0)
