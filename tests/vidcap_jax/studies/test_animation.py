"""Animations of clips: what is drawn at each step, and what the command refuses."""

import dataclasses

import numpy as np
import pytest

from tests.vidcap_jax.studies.explained import EXPLAINED, TIMED
from vidcap_jax.errors import UserError
from vidcap_jax.studies import animation

Image = pytest.importorskip('PIL.Image')
pytest.importorskip('matplotlib')


@pytest.fixture(scope='module')
def tile():
  pictures = [np.full((8, 8, 3), value, np.uint8) for value in range(0, 250, 10)]
  weights = np.array([[0.0, 1.0], [1.0, 0.0]])
  return animation.Tile(('red', 'ball'), weights, np.array([0.25, 0.75]), pictures)


@pytest.mark.parametrize('suffix', animation.FORMATS)
def test_every_step_is_in_the_file(tile, tmp_path, suffix):
  pictures = list(animation.draw([tile, tile]))
  steps = animation.steps_of([tile.words])
  assert len(pictures) == steps
  path = tmp_path / f'clips{suffix}'
  animation.save(pictures, path)
  with Image.open(path) as written:
    assert (written.n_frames, written.size) == (steps, pictures[0].shape[1::-1])
    assert written.info['loop'] == 0


def test_the_bars_are_the_weights_of_the_last_word(tile):
  """The bar of the first frame is high at the second word, that of the second at the first."""
  pictures = list(animation.draw([tile]))
  rows, columns = pictures[0].shape[:2]
  blue = np.array([int(animation.BARS[i : i + 2], 16) for i in (1, 3, 5)])

  def sides_with_a_bar(picture):
    below = (picture[rows * 3 // 4 :] == blue).all(axis=-1).any(axis=0)
    return below[: columns // 2].any(), below[columns // 2 :].any()

  assert sides_with_a_bar(pictures[0]) == (False, True)
  assert sides_with_a_bar(pictures[animation.STEPS_PER_WORD]) == (True, False)
  assert (pictures[0][rows // 3, columns // 2] < pictures[-1][rows // 3, columns // 2]).all()


def test_a_clip_is_read_with_the_first_attention_over_frames(clips):
  (path, *_) = sorted(clips.iterdir())
  tile = animation.read_tile(EXPLAINED, dataclasses.replace(TIMED, source=path), 5)
  np.testing.assert_array_equal(tile.weights, EXPLAINED.attentions['temporal'].weights)
  assert tile.times.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
  assert np.shape(tile.pictures) == (5, animation.SIZE, animation.SIZE, 3)


@pytest.mark.parametrize(
  ('chosen', 'attentions', 'named'),
  [
    (TIMED, EXPLAINED.attentions, '--videos'),
    (dataclasses.replace(TIMED, source='clip.mp4'), {}, 'attention'),
    (dataclasses.replace(TIMED, source='clip.mp4', times={}), EXPLAINED.attentions, 'times'),
  ],
)
def test_videos_that_cannot_be_shown(chosen, attentions, named):
  explained = dataclasses.replace(EXPLAINED, attentions=attentions)
  with pytest.raises(UserError, match=f'^v: .*{named}'):
    animation.read_tile(explained, chosen, 5)


def test_an_unknown_format_is_refused_before_the_work(tmp_path):
  with pytest.raises(SystemExit, match='clips.avi.*webp'):
    animation.main(['--checkpoint=nowhere', f'--output={tmp_path}/clips.avi'])
