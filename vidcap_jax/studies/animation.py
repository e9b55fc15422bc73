r"""Animates clips as a model captions them, word by word, with its attention over the frames.

  vidcap studies animation --checkpoint=WORKDIR --split=test --ids=A,B \
      --videos=DIR --output=clips.webp

Clips stand side by side. Each plays once while its caption appears; bars below it are the weights
over the frames at the last word, at the times of these frames. Files are .webp or .gif.
"""

import argparse
import dataclasses
import logging
import pathlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import UserError, VideoError
from vidcap_jax.features import picture_files, video_stills
from vidcap_jax.files import check_output
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import videos
from vidcap_jax.studies.drawing import figure
from vidcap_jax.studies.panels import BARS
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Explained, explain

FORMATS = ('.webp', '.gif')
STEPS_PER_WORD, STEPS_AT_END = 3, 12  # pictures of the animation
MILLISECONDS = 110  # of a picture
SIZE = 224  # rows and columns of a clip
LINE_CHARACTERS, LINES = 27, 2  # of a caption


@dataclasses.dataclass(frozen=True)
class Tile:
  """A clip of the animation.

  Attributes:
    words: of its caption.
    weights: (L, T) over the frames at each word, of the model's first attention over frames.
    times: (T,) of these frames, as fractions of the clip.
    pictures: uint8 (N, SIZE, SIZE, 3), over the clip.
  """

  words: Sequence[str]
  weights: np.ndarray
  times: np.ndarray
  pictures: Sequence[np.ndarray]


def steps_of(captions: Sequence[Sequence[str]]) -> int:
  """The number of pictures that the words of the captions take."""
  return STEPS_PER_WORD * max(1, *map(len, captions)) + STEPS_AT_END


def read_tile(explained: Explained, chosen: Chosen, pictures: int) -> Tile:
  """A clip with its caption and attention.

  Args:
    explained: its caption and attentions.
    chosen: its file and times.
    pictures: N, how many of its pictures are shown.

  Raises:
    UserError: the model has no attention over frames whose times are known, or the clip has no
      pictures; the message names the video.
  """
  video_id = explained.video.video_id
  if chosen.source is None:
    raise UserError(f'{video_id}: no file or frames to show; give --videos=DIR or --inputs=FILE')
  for attention in explained.attentions.values():
    times = chosen.times.get(attention.axes.stream)
    if 'frames' in attention.axes.axes and times:
      seconds = np.array([times.seconds[row] for row in attention.rows])
      break
  else:
    raise UserError(f'{video_id}: the model has no attention over frames whose times are known')
  weights = attention.over('frames')  # (L, [K,] T)
  weights = weights.max(axis=1) if weights.ndim == 3 else weights
  end = max(seconds[-1], 1e-9)
  try:
    shown = video_stills.pictures_at(chosen.source, np.linspace(0, end, pictures).tolist(), SIZE)
  except VideoError as error:
    raise UserError(f'{video_id}: no pictures: {error}') from error
  return Tile(explained.words, weights, seconds[: weights.shape[1]] / end, shown)


def draw(tiles: Sequence[Tile]) -> Iterator[np.ndarray]:
  """The pictures of the animation, uint8 (rows, columns, 3), one after another."""
  from matplotlib.backends.backend_agg import FigureCanvasAgg

  steps = steps_of([tile.words for tile in tiles])
  picture = figure(figsize=(2.4 * len(tiles), 3.5), dpi=100)
  canvas = FigureCanvasAgg(picture)
  grid = picture.subplots(2, len(tiles), squeeze=False, height_ratios=(5, 1))
  update = [_prepare(above, below, tile) for (above, below), tile in zip(grid.T, tiles)]
  for step in range(steps):
    for each in update:
      each(step, steps)
    canvas.draw()
    yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _prepare(above: Any, below: Any, tile: Tile) -> Callable[[int, int], None]:
  """Draws the parts of a clip that stay; returns a function (step, steps) that draws the others."""
  above.set(xticks=[], yticks=[])
  image = above.imshow(tile.pictures[0])
  caption = above.set_xlabel('\n' * (LINES - 1), fontsize=9, ha='left', x=0.0, parse_math=False)
  below.set(xlim=(-0.08, 1.08), ylim=(0, 1.05 * max(tile.weights.max(initial=0), 1e-9)), yticks=[])
  below.set(xticks=[])
  below.spines[['top', 'right', 'left']].set_visible(False)
  bars = below.bar(tile.times, np.zeros(len(tile.times)), 0.6 / len(tile.times), color=BARS)
  now = below.axvline(0, color='#888888', linewidth=1)

  def update(step: int, steps: int) -> None:
    shown = min(len(tile.words), 1 + step // STEPS_PER_WORD)
    share = step / (steps - 1)
    image.set_data(tile.pictures[round(share * (len(tile.pictures) - 1))])
    lines = textwrap.wrap(' '.join(tile.words[:shown]), LINE_CHARACTERS)
    caption.set_text('\n'.join([*lines, *[''] * (LINES - len(lines))]))
    for bar, weight in zip(bars, tile.weights[shown - 1] if shown else ()):
      bar.set_height(weight)
    now.set_xdata([share, share])

  return update


def save(pictures: Sequence[np.ndarray], path: pathlib.Path) -> None:
  """Writes an animation that repeats, in the format of the file's suffix."""
  module, _ = picture_files.import_pillow()
  first, *others = (module.fromarray(each) for each in pictures)
  options = {'quality': 75, 'method': 6} if path.suffix.lower() == '.webp' else {'optimize': True}
  first.save(path, save_all=True, append_images=others, duration=MILLISECONDS, loop=0, **options)


def make_parser() -> argparse.ArgumentParser:
  """The parser of the command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.animation'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  videos.add_arguments(parser)
  add('--output', '--out', required=True, metavar='FILE', help='.webp or .gif')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  logging.getLogger('absl').setLevel(logging.WARNING)  # Orbax logs each file it touches
  run(options, log=lambda line: print(line, file=sys.stderr, flush=True))
  print(options.output)


def run(options: argparse.Namespace, log: Callable[[str], None]) -> None:
  """Captions the chosen videos and writes the animation.

  Raises:
    UserError: an unknown format; no such videos; a model without attention over frames.
    ModuleNotFoundError: matplotlib, PyAV or Pillow is not installed.
  """
  path = pathlib.Path(options.output)
  if path.suffix.lower() not in FORMATS:
    raise UserError(f'--output={path}: unknown format; known: {", ".join(FORMATS)}')
  check_output('--output', options.output)
  figure()
  picture_files.import_pillow()
  checkpoint = restore.find_checkpoint(options.checkpoint)
  restored = restore.restore(checkpoint, mesh.make_mesh(), options.decode)
  chosen, _ = videos.choose(options, restored, log)
  explained = explain(restored, [each.video for each in chosen])
  pictures = steps_of([each.words for each in explained])
  tiles = [read_tile(*each, pictures) for each in zip(explained, chosen, strict=True)]
  save(list(draw(tiles)), path)


if __name__ == '__main__':
  main()
