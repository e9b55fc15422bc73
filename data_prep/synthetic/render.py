"""Draws the clips of ``data_prep.synthetic.shapes`` and writes them as video files."""

import pathlib

import numpy as np

from data_prep.synthetic.shapes import COLOURS, DIRECTIONS, Clip
from vidcap_jax.features import video_decoder

SIZE = 112  # rows and columns of a frame
FRAMES = 24
RATE = 12  # frames per second

_RADIUS = 0.3  # of a shape; the frame reaches from -1 to 1
_EDGE = 2 / SIZE  # width of the soft edge: one pixel


def _polygon(x, y, corners: np.ndarray):
  """Distance from a star-shaped polygon's edge in the direction of (x, y), positive inside."""
  angles = np.arctan2(corners[:, 1], corners[:, 0])
  order = np.argsort(angles)
  corners, angles = corners[order], angles[order]
  direction = np.arctan2(y, x)
  i = np.searchsorted(angles, direction) % len(corners)
  a, b = corners[i - 1], corners[i]  # the edge in this direction
  normal = np.stack([b[..., 1] - a[..., 1], a[..., 0] - b[..., 0]], -1)
  length = np.linalg.norm(normal, axis=-1)
  return ((a[..., 0] - x) * normal[..., 0] + (a[..., 1] - y) * normal[..., 1]) / length


def _corners(count: int, inner: float | None = None) -> np.ndarray:
  """The corners of a regular polygon, or with ``inner`` of a star, the first on top."""
  radii = np.ones(count) if inner is None else np.tile([1.0, inner], count)
  angles = -np.pi / 2 + np.arange(len(radii)) * 2 * np.pi / len(radii)
  return np.stack([np.cos(angles), np.sin(angles)], -1) * radii[:, None]


def _inside(shape: str, x, y):
  """Distance from the edge of a shape of radius 1 around 0, positive inside."""
  if shape == 'circle':
    return 0.9 - np.hypot(x, y)
  if shape == 'square':
    return 0.8 - np.maximum(np.abs(x), np.abs(y))
  if shape == 'triangle':
    return _polygon(x, y, 1.15 * _corners(3))
  if shape == 'star':
    return _polygon(x, y, 1.15 * _corners(5, 0.42))
  if shape == 'cross':
    x, y = np.abs(x), np.abs(y)
    return np.maximum(np.minimum(0.3 - x, 1 - y), np.minimum(1 - x, 0.3 - y))
  raise ValueError(f'unknown shape {shape!r}')


def _background(generator: np.random.Generator) -> np.ndarray:
  """A dark gray background with a gradient and blotches, (SIZE, SIZE, 1)."""
  rows, columns = np.mgrid[:SIZE, :SIZE] / SIZE - 0.5
  angle = generator.uniform(0, 2 * np.pi)
  gray = generator.uniform(45, 105)
  slope = generator.uniform(10, 40) * (np.cos(angle) * columns + np.sin(angle) * rows)
  blotches = generator.normal(0, 6, (8, 8)).repeat(SIZE // 8, 0).repeat(SIZE // 8, 1)
  blotches += generator.normal(0, 3, (SIZE, SIZE))
  return (gray + slope + blotches)[:, :, None]


def _draw(picture: np.ndarray, clip: Clip, colour, centre, size: float, angle: float) -> None:
  """Draws the clip's shape into a float picture (SIZE, SIZE, 3), in place."""
  middle = (np.asarray(centre) + 1) * SIZE / 2  # in pixels, x and y
  reach = 1.3 * size * SIZE / 2 + 1
  left, top = np.clip(np.floor(middle - reach), 0, SIZE).astype(int)
  right, bottom = np.clip(np.ceil(middle + reach), 0, SIZE).astype(int)
  y, x = np.mgrid[top:bottom, left:right] * (2 / SIZE) + (1 / SIZE - 1)
  dx, dy = (x - centre[0]) / size, (y - centre[1]) / size
  turned_x = np.cos(angle) * dx + np.sin(angle) * dy
  turned_y = np.cos(angle) * dy - np.sin(angle) * dx
  cover = np.clip(0.5 + _inside(clip.shape, turned_x, turned_y) * size / _EDGE, 0, 1)
  patch = picture[top:bottom, left:right]
  patch += (colour - patch) * cover[:, :, None]


def frames(clip: Clip) -> np.ndarray:
  """The clip's frames, uint8 (FRAMES, SIZE, SIZE, 3) RGB; they depend only on the clip."""
  generator = np.random.Generator(np.random.PCG64([clip.seed, 2, *clip.video_id.encode()]))
  background = _background(generator)
  colour = np.clip(np.array(COLOURS[clip.colour]) + generator.normal(0, 8, 3), 0, 255)
  radius = _RADIUS * generator.uniform(0.93, 1.07)
  tilt = generator.uniform(-0.15, 0.15)
  along = np.array(DIRECTIONS[clip.direction], float)
  aside = along[::-1]
  begin, end = -0.62 + generator.uniform(-0.08, 0.08), 0.62 + generator.uniform(-0.08, 0.08)
  lane = generator.uniform(-0.4, 0.4)
  phase = generator.uniform(0, 1)
  turn = generator.choice([-1, 1])
  rest = generator.uniform(0.3, 0.4) if clip.order else 0.0

  result = np.empty((FRAMES, SIZE, SIZE, 3), np.uint8)
  for i in range(FRAMES):
    time = i / (FRAMES - 1)
    # The share of the movement that is done; the shape rests at the beginning or at the end.
    done = (time - rest if clip.order == 'waits first' else time) / (1 - rest)
    done = min(max(done, 0.0), 1.0)
    centre = along * (begin + (end - begin) * done) + aside * lane
    size, angle, visible = radius, tilt, True
    if clip.action == 'spins':
      # About 35 degrees between 8 sampled frames, which is no symmetry of any shape.
      angle += turn * done * 1.5 * np.pi
    elif clip.action == 'grows':
      size *= 0.9 + 1.4 * done
    elif clip.action == 'shrinks':
      size *= 1.4 * 0.2**done
    elif clip.action == 'blinks' and 0 < done < 1:
      visible = (time * 4 + phase) % 1 < 0.5
    picture = np.repeat(background, 3, 2)
    if visible:
      _draw(picture, clip, colour, centre, size, angle)
    result[i] = np.clip(np.round(picture), 0, 255)
  return result


def write(clip: Clip, path: pathlib.Path) -> None:
  """Writes the clip as an mp4 file (H.264 if PyAV has the encoder), atomically."""
  av = video_decoder.import_av()
  codec = 'libx264' if 'libx264' in av.codecs_available else 'mpeg4'
  partial = path.with_name(path.name + '.partial')
  with av.open(str(partial), 'w', format='mp4') as container:
    stream = container.add_stream(codec, rate=RATE)
    stream.width = stream.height = SIZE
    stream.pix_fmt = 'yuv420p'
    stream.codec_context.thread_count = 1  # the same bytes on any machine
    if codec == 'libx264':
      stream.options = {'crf': '18', 'preset': 'ultrafast'}
    for image in frames(clip):
      container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
    container.mux(stream.encode())
  partial.replace(path)
