r"""Shows what a model attends to at each word of its captions (STaTS Figures 6 to 9 and others).

  vidcap studies attention --checkpoint=WORKDIR --split=test --ids=A,B \
      --videos=DIR --output=DIR
  vidcap studies attention --checkpoint=WORKDIR --inputs=clip.mp4 --output=DIR

Writes a picture of each video and its raw weights as .npz, attention.json, and index.html with all
of them. Weights over frames are strips below the video's pictures, over cells and boxes heat on the
frame, over layers bars, over branches curves; of several heads their mean, with --heads each head
too. --caption explains a given caption instead of the decoder's.
"""

import argparse
import logging
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import attention_figure, pages, videos
from vidcap_jax.studies.drawing import figure, shown
from vidcap_jax.studies.panels import load_gallery
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained, declared_axes, explain, unknown_words


def describe(attention: Attention, chosen: Chosen) -> dict:
  """An attention's axes and what they are over, for attention.json."""
  axes = attention.axes
  described: dict = {'axes': ['caption', *axes.axes], 'shape': list(attention.weights.shape)}
  if axes.stream:
    described['stream'] = axes.stream
  if axes.names:
    described['names'] = list(axes.names)
  if attention.grid:
    described['grid'] = list(attention.grid)
  if axes.frames:
    described['places_of_the_frame_chosen_by'] = axes.frames
  if 'frames' in axes.axes:
    frames = attention.weights.shape[1 + axes.axes.index('frames')]
    rows = attention.rows[:frames]
    described['rows'] = rows.tolist()
    if (times := chosen.times.get(axes.stream)) is not None and len(rows) == frames:
      described[times.unit] = [round(times.seconds[row], 4) for row in rows]
      described['times'] = times.how
    strongest = attention.over('frames').argmax(axis=-1)
    described['strongest_frame'] = strongest.tolist()
  return described


def report(explained: Explained, chosen: Chosen, files: dict[str, str]) -> dict:
  """A video's entry in attention.json."""
  return {
    'video_id': explained.video.video_id,
    'caption': explained.caption,
    'words': list(explained.words),
    'log_prob': explained.log_prob,
    'source': None if chosen.source is None else str(chosen.source),
    **files,
    'attentions': {n: describe(a, chosen) for n, a in explained.attentions.items()},
  }


def write(
  restored: Restored,
  explained: Sequence[Explained],
  chosen: Sequence[Chosen],
  output: pathlib.Path,
  log: Callable[[str], None],
) -> None:
  """Writes pictures, weights, attention.json and index.html.

  Args:
    restored: the checkpoint.
    explained, chosen: of the same videos.
    output: a folder, which is created.
    log: called with a line for each note.
  """
  pages.prepare(output, 'attention')
  extractor_of = {stream.name: stream.extractor for stream in restored.streams}
  entries, body = [], []
  names = pages.file_names([e.video.video_id for e in explained])
  for name, result, video in zip(names, explained, chosen, strict=True):
    streams = {a.axes.stream for a in result.attentions.values()}
    gallery = load_gallery(video, streams, extractor_of)
    for note in gallery.notes:
      log(note)
    picture = output / f'{name}.png'
    attention_figure.draw(result, video, gallery, picture)
    arrays = {n: a.weights for n, a in result.attentions.items()}
    _save_arrays(output / f'{name}.npz', {'caption': np.array(result.words, dtype=str), **arrays})
    entries.append(report(result, video, {'picture': f'{name}.png', 'weights': f'{name}.npz'}))
    body.append(
      pages.section(result.video.video_id, [shown(result.caption)], picture, result.video.captions)
    )
  title = f'Attention of {restored.path}'
  pages.write(output, 'attention', title, str(restored.path), entries, body)


def _save_arrays(path: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
  """Writes arrays by name, to be read by ``np.load``."""
  np.savez(path, **arrays)  # type: ignore[arg-type]  # its signature has no arrays by name


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.attention'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  videos.add_arguments(parser)
  add('--caption', metavar='TEXT', help='the caption to explain (default: the decoded ones)')
  add('--heads', action='store_true', help='also show each head of an attention by itself')
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


def run(options: argparse.Namespace, log: Callable[[str], None]) -> int:
  """Explains the chosen videos' captions and writes the results.

  Returns:
    The number of --inputs that could not be read.

  Raises:
    ConfigError: the checkpoint has no attention; a caption without words.
    DataError: no such videos, or data that does not fit the checkpoint.
  """
  figure()  # before the work: can pictures be drawn and written?
  pages.check_folder(options.output, 'attention')
  checkpoint = restore.find_checkpoint(options.checkpoint)
  restored = restore.restore(checkpoint, mesh.make_mesh(), options.decode)
  declared_axes(restored)
  if options.caption is not None:
    if not restored.vocabulary.tokenize(options.caption):
      raise ConfigError('--caption: give a caption with at least one word')
    if unknown := unknown_words(restored, options.caption):
      log(f'--caption: not in the vocabulary, read as <UNK>: {", ".join(unknown)}')
  chosen, failed = videos.choose(options, restored, log)
  of_video = [c.video for c in chosen]
  given = None if options.caption is None else {v.video_id: options.caption for v in of_video}
  explained = explain(restored, of_video, given, heads=options.heads)
  write(restored, explained, chosen, pathlib.Path(options.output), log)
  return failed


if __name__ == '__main__':
  main()
