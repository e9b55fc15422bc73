r"""Shows the frames that a model chooses (refocus Figure 3; Global2Local's key frames).

  vidcap studies key_frames --checkpoint=WORKDIR --split=test --ids=A,B \
      --videos=DIR --output=DIR

Of a refocus model with two passes: the video's frames with the middle one, from which the first
pass reads (yellow), and the key frame that it chose, from which the second does (red), and the
captions after both passes. Of a Global2Local model: the frames picked for each word. Writes a
picture of each video, key_frames.json and index.html.
"""

import argparse
import dataclasses
import logging
import pathlib
import sys
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import pages, videos
from vidcap_jax.studies.drawing import figure, save, shown
from vidcap_jax.studies.panels import CELL, LINE, Gallery, load_gallery, picture_of, show
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained, declared_axes, explain

NAME = 'keyframe'  # of the attention whose largest weights are the key frames
MIDDLE, KEY = '#f2b701', '#d62728'  # yellow and red, as in the paper
COLUMNS = 10  # frames in a row of the picture
_TEXT_LINE = 0.22  # inches of a line above the frames


@dataclasses.dataclass(frozen=True)
class Choice:
  """The key frames of a video.

  Attributes:
    explained: its caption, with the attention that chooses.
    middle: the frame that the first pass reads from; None for a model that reads once.
    frames: frame -> the words for which it is chosen, none for a choice that all words share.
    first: the caption after the first pass; None for a model that reads once.
  """

  explained: Explained
  middle: int | None
  frames: dict[int, list[str]]
  first: str | None

  @property
  def attention(self) -> Attention:
    return self.explained.attentions[NAME]


def check_chooses(restored: Restored) -> None:
  """Raises ConfigError if a checkpoint's model chooses no key frame; names what it has."""
  declared = declared_axes(restored)
  if NAME not in declared:
    passes = getattr(restored.module.config, 'passes', None)
    why = f' with model.passes={passes}' if passes is not None else ''
    raise ConfigError(
      f'{restored.path}: the model {restored.config.model.name!r}{why} chooses no key frame; '
      f'vidcap_jax.studies.attention shows its attentions: {", ".join(declared)}'
    )
  if restored.config.decode.get('pass', 'last') == 'first':
    raise ConfigError('--decode=pass=first: both passes are shown; leave the setting out')


def choose(restored: Restored, chosen: Sequence[Chosen]) -> list[Choice]:
  """The key frames of videos, and of a model with passes both captions."""
  of_videos = [c.video for c in chosen]
  second_pass = explain(restored, of_videos)
  if 'picks' in declared_axes(restored)[NAME].axes:
    return [Choice(explained, None, _picked(explained), None) for explained in second_pass]
  first_pass = explain(after_first_pass(restored), of_videos)
  pairs = zip(first_pass, second_pass, strict=True)
  return [_refocused(restored, first, second) for first, second in pairs]


def after_first_pass(restored: Restored) -> Restored:
  """The same checkpoint, decoded after its first pass."""
  config = ConfigDict(restored.config.to_dict())
  config.decode['pass'] = 'first'
  return dataclasses.replace(restored, config=config)


def _refocused(restored: Restored, first: Explained, second: Explained) -> Choice:
  frames = second.attentions[NAME].weights.shape[1]
  given = restored.key_frames.get(second.video.video_id, -1)
  key = given
  if given < 0 and second.words:  # the weights are the same at all words
    key = int(second.attentions[NAME].weights[0].argmax())
  chosen: dict[int, list[str]] = {} if key < 0 else {key: []}
  return Choice(second, frames // 2, chosen, first.caption)


def _picked(explained: Explained) -> dict[int, list[str]]:
  """Frame -> words, in order of time."""
  picks = explained.attentions[NAME].weights.argmax(axis=-1)  # (L, K)
  found: dict[int, list[str]] = {}
  for word, frames in zip(explained.words, picks):
    for frame in dict.fromkeys(frames.tolist()):
      found.setdefault(frame, []).append(word)
  return dict(sorted(found.items()))


def draw(choice: Choice, chosen: Chosen, gallery: Gallery, path: pathlib.Path) -> None:
  """Writes the picture of a video: its frames with the chosen ones framed."""
  attention = choice.attention
  T = attention.weights.shape[-1]
  columns, rows = min(T, COLUMNS), -(-T // COLUMNS)
  words = max((len(w) for w in choice.frames.values()), default=0)
  high = CELL + (1 + words) * LINE
  texts = [chosen.video.video_id, *lines_of(choice)]
  legend = _legend(choice)
  width = max(columns, 6) * CELL + 0.2
  head = (len(texts) + 1) * _TEXT_LINE
  height = head + rows * high + 0.3
  picture = figure(figsize=(width, height))
  picture.set_layout_engine('none')
  for i, (line, colour) in enumerate([*((t, 'black') for t in texts), *legend]):
    row, left = min(i, len(texts)), 0.1 + max(0, i - len(texts)) * width / 2
    place = (left / width, 1 - (0.1 + (row + 0.5) * _TEXT_LINE) / height)
    bold = 'bold' if i == 0 or colour != 'black' else 'normal'
    picture.text(
      *place, line, fontsize=9, va='center', color=colour, fontweight=bold, parse_math=False
    )
  for frame in range(T):
    row, column = divmod(frame, COLUMNS)
    bottom = height - head - 0.2 - row * high - CELL * 0.92
    box = (0.1 + column * CELL, bottom, CELL * 0.92, CELL * 0.92)
    axes = picture.add_axes(tuple(x / (width, height)[i % 2] for i, x in enumerate(box)))
    image, label = picture_of(chosen, gallery, attention, frame)
    show(axes, image)
    lines = [label, *choice.frames.get(frame, ())]
    axes.set_xlabel('\n'.join(lines), fontsize=7, labelpad=3, parse_math=False)
    border = KEY if frame in choice.frames else MIDDLE if frame == choice.middle else None
    if border:
      for spine in axes.spines.values():
        spine.set(color=border, linewidth=4)
  save(picture, path)


def _legend(choice: Choice) -> list[tuple[str, str]]:
  """What the borders mean, each in its colour."""
  if choice.middle is None:
    return [('red: picked, for the words below it', KEY)]
  middle = ('yellow: middle frame, read first', MIDDLE)
  key = ('red: key frame, read second', KEY)
  return [middle, key] if choice.middle not in choice.frames else [key]


def lines_of(choice: Choice) -> list[str]:
  """What the page says of a video, as the paper's figure does."""
  if choice.first is None:
    return [shown(choice.explained.caption)]
  same = ' (the middle frame was kept)' if choice.middle in choice.frames else ''
  return [
    f'First pass: {shown(choice.first)}',
    f'Second pass: {shown(choice.explained.caption)}{same}',
  ]


def report(choice: Choice, chosen: Chosen, picture: str) -> dict:
  """A video's entry in key_frames.json; frames are rows of the stored features."""
  rows = choice.attention.rows
  times = chosen.times.get(choice.attention.axes.stream)
  in_seconds = times is not None and times.unit == 'seconds'
  seconds = {int(r): round(times.seconds[r], 4) for r in rows} if times and in_seconds else None
  entry: dict = {
    'video_id': choice.explained.video.video_id,
    'caption': choice.explained.caption,
    'stream': choice.attention.axes.stream,
    'key_frames': [
      {'row': int(rows[f]), 'seconds': seconds and seconds[int(rows[f])], 'words': words}
      for f, words in choice.frames.items()
    ],
    'picture': picture,
  }
  if choice.middle is not None:
    entry |= {'first_caption': choice.first, 'middle_row': int(rows[choice.middle])}
  return entry


def run(options: argparse.Namespace, log: Callable[[str], None]) -> int:
  """Shows the key frames of the chosen videos.

  Returns:
    The number of --inputs that could not be read.

  Raises:
    ConfigError: the checkpoint's model chooses no key frames.
    DataError: no such videos, or data that does not fit the checkpoint.
  """
  figure()  # before the work: can pictures be drawn and written?
  pages.check_folder(options.output, 'key_frames')
  checkpoint = restore.find_checkpoint(options.checkpoint)
  restored = restore.restore(checkpoint, mesh.make_mesh(), options.decode)
  check_chooses(restored)
  chosen, failed = videos.choose(options, restored, log)
  choices = choose(restored, chosen)
  output = pathlib.Path(options.output)
  pages.prepare(output, 'key_frames')
  extractor_of = {stream.name: stream.extractor for stream in restored.streams}
  entries, body = [], []
  names = pages.file_names([c.video.video_id for c in chosen])
  for name, choice, video in zip(names, choices, chosen, strict=True):
    gallery = load_gallery(video, {choice.attention.axes.stream}, extractor_of)
    for note in gallery.notes:
      log(note)
    picture = output / f'{name}.png'
    draw(choice, video, gallery, picture)
    entries.append(report(choice, video, picture.name))
    body.append(
      pages.section(video.video.video_id, lines_of(choice), picture, video.video.captions)
    )
  title = f'Key frames of {restored.path}'
  pages.write(output, 'key_frames', title, str(restored.path), entries, body)
  return failed


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.key_frames'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  videos.add_arguments(parser)
  add('--output', '--out', required=True, metavar='DIR', help='folder to write to')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  logging.getLogger('absl').setLevel(logging.WARNING)  # Orbax logs each file it touches
  failed = run(options, log=lambda line: print(line, file=sys.stderr, flush=True))
  print(pathlib.Path(options.output) / 'index.html')
  if failed:
    sys.exit(1)


if __name__ == '__main__':
  main()
