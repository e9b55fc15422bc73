"""Rendered clips show their facts."""

import numpy as np
import pytest

from data_prep.synthetic import render, shapes
from tests.data_prep.synthetic.test_shapes import clip, seen
from vidcap_jax.features import video


@pytest.mark.parametrize('direction', list(shapes.DIRECTIONS))
@pytest.mark.parametrize('action', list(shapes.ACTIONS))
def test_clips_show_their_facts(direction, action):
  track = [seen(f) for f in render.frames(clip(direction=direction, action=action))]
  shown = np.array([t for t in track if t[2]])
  step = np.array(shapes.DIRECTIONS[direction])
  moved = shown[-1, :2] - shown[0, :2]
  assert moved @ step > 0.45 * render.SIZE
  sizes = shown[:, 2]
  assert (sizes[-1] / sizes[0] > 1.8) == (action == 'grows')
  assert (sizes[-1] / sizes[0] < 0.5) == (action == 'shrinks')
  assert (4 <= len(track) - len(shown) <= 16) == (action == 'blinks')
  assert (len(shown) == len(track)) == (action != 'blinks')


def test_spinning_turns_the_shape():
  def width(image):
    columns = np.nonzero((np.ptp(image.astype(int), axis=-1) > 60).any(0))[0]
    return columns[-1] - columns[0]

  still = [width(f) for f in render.frames(clip())]
  spinning = [width(f) for f in render.frames(clip(action='spins'))]
  assert np.ptp(still) <= 2
  assert np.ptp(spinning) >= 6
  # A circle would show nothing.
  assert not any((c.shape, c.action) == ('circle', 'spins') for c in shapes.plan(3000))


def test_order_of_rest_and_movement():
  def steps(order):
    places = np.array([seen(f)[0] for f in render.frames(clip(order=order))])
    return np.diff(places)

  waits, stops, moves = steps('waits first'), steps('stops last'), steps('')
  assert np.abs(waits[:6]).max() < 0.1 < waits[-6:].min()
  assert np.abs(stops[-6:]).max() < 0.1 < stops[:6].min()
  assert moves.min() > 0.1


@pytest.mark.parametrize('shape', shapes.SHAPES)
def test_shapes_differ(shape):
  def filled(name):
    return render.frames(clip(shape=name, order='waits first'))[0].astype(int)

  for other in shapes.SHAPES:
    difference = np.abs(filled(shape) - filled(other)).max(-1) > 60
    assert (difference.sum() > 40) == (other != shape)


def test_files_contain_the_frames(tmp_path):
  pytest.importorskip('av', reason='the extra "video" is not installed')
  green_clip = clip(colour='green')
  path = tmp_path / 'x.mp4'
  render.write(green_clip, path)
  decoded = [f.image for f in video.sample(path, {'every': 1}, render.SIZE)]
  assert len(decoded) == render.FRAMES
  error = np.abs(np.array(decoded).astype(int) - render.frames(green_clip))
  assert error.mean() < 6
  assert [p.name for p in tmp_path.iterdir()] == ['x.mp4']
  first = path.read_bytes()
  render.write(green_clip, path)
  assert path.read_bytes() == first
