"""Every kind of attention has a panel, with pictures or without."""

import matplotlib.image
import pytest

from tests.vidcap_jax.studies.explained import (
  ATTENTIONS,
  BOXES,
  EXPLAINED,
  PICTURES,
  TIMED,
)
from vidcap_jax.studies import attention_figure
from vidcap_jax.studies.panels import Gallery
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained


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
