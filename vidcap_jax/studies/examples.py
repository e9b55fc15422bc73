r"""Writes captions of several runs side by side, with references and pictures, as one HTML page.

  vidcap studies examples --runs=ST=runs/st,TS=runs/ts --split=test --ids=A,B \
      --videos=DIR --output=DIR

as in VATEX Figure 1, STaTS Figures 4 and 10 and dualAFR Figure 4. Writes index.html, which opens
from disk without network, and examples.json. Without --ids the first videos are shown whose
captions differ between the runs. --markdown=PAGE writes captions with ids beside references into a
Markdown page, without pictures; with it --output is not needed.
"""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.counts import counted
from vidcap_jax.errors import ConfigError, DataError, UserError, VideoError, first_few
from vidcap_jax.features import video_stills
from vidcap_jax.features.picture_files import Source
from vidcap_jax.features.video import clock_of
from vidcap_jax.files import write_json, write_text
from vidcap_jax.html_page import document, text
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import markdown, pages, run_captions
from vidcap_jax.studies.drawing import shown
from vidcap_jax.studies.run_captions import RunCaptions
from vidcap_jax.studies.videos import split_ids

COUNT = 12  # videos, if no ids are given
FRAMES = 4  # pictures of a video
REFERENCES = 3  # shown of a video
BLOCK = 'examples'  # the name of the marks in a Markdown page

_STYLE = """
.videos { display: grid; grid-template-columns: repeat(auto-fill, minmax(460px, 1fr));
  gap: 1.4em 2em; }
.videos img { width: 24%; margin-right: 1%; border-radius: 3px; }
dl { margin: .4em 0; display: grid; grid-template-columns: auto 1fr; gap: .1em .8em; }
dt { color: #656d76; } dd { margin: 0; overflow-wrap: anywhere; } .reference { color: #656d76; }
"""


@dataclasses.dataclass(frozen=True)
class Example:
  """A video with the captions of all runs.

  Attributes:
    video_id: its id.
    captions: label of a run -> caption.
    references: captions by people; empty if there are none.
    pictures: data URIs in order of time.
  """

  video_id: str
  captions: Mapping[str, str]
  references: Sequence[str] = ()
  pictures: Sequence[str] = ()


def choose_ids(runs: Sequence[RunCaptions], ids: str | None, count: int) -> list[str]:
  """The given videos, or the first ``count`` whose captions differ between the runs.

  Raises:
    ConfigError: no videos are asked for.
    DataError: the runs have no caption of a given video, or their captions are all equal.
  """
  known = runs[0].captions
  if count < 1:
    raise ConfigError(f'--count={count}: at least one')
  if ids:
    chosen = split_ids(ids, known)
    if unknown := [video_id for video_id in chosen if video_id not in known]:
      raise DataError(
        f'--ids: {runs[0].path} has no captions of {first_few(unknown)}; it has '
        f'{counted(len(known), "video")}, such as {first_few(list(known))}'
      )
    return chosen
  differ = [i for i in known if len({run.captions[i] for run in runs}) > min(1, len(runs) - 1)]
  if not differ:
    raise DataError('the runs have the same captions for all videos; choose videos with --ids')
  return differ[:count]


def pictures_of(source: Source, notes: list[str]) -> list[str]:
  """A few frames of a video as data URIs, at the middles of equal parts.

  Raises:
    VideoError: no frame can be decoded.
    ModuleNotFoundError: PyAV is not installed.
  """
  length = float(clock_of(source).length)
  times = [length * (i + 0.5) / FRAMES for i in range(FRAMES)]
  images = video_stills.pictures_at(source, times, whole=True, notes=notes)
  return [video_stills.jpeg_uri(image) for image in images]


def collect(
  runs: Sequence[RunCaptions],
  ids: Sequence[str],
  references: Mapping[str, Sequence[str]],
  folder: str | None,
  log: Callable[[str], None],
) -> list[Example]:
  """The examples, with pictures of the videos that are found in a folder.

  Args:
    runs: of ``run_captions.read``.
    ids: of the videos.
    references: by video id; may lack videos.
    folder: of video files or frames; None for no pictures.
    log: called with a line for videos without pictures.

  Raises:
    DataError: no such folder.
  """
  sources = video_stills.find_sources(folder, ids) if folder else {}
  if folder and (missing := [i for i in ids if i not in sources]):
    log(f'{len(missing)} of {len(ids)} videos have no file in {folder}: {first_few(missing)}')
  examples = []
  for video_id in ids:
    notes: list[str] = []
    pictures: list[str] = []
    if video_id in sources:
      try:
        pictures = pictures_of(sources[video_id], notes)
      except VideoError as error:
        notes.append(f'{video_id}: no pictures: {error}')
    for note in notes:
      log(note)
    captions = {run.label: run.captions[video_id] for run in runs}
    examples.append(Example(video_id, captions, references.get(video_id, ()), pictures))
  return examples


def page(title: str, examples: Collection[Example], most_references: int) -> str:
  """The HTML page."""
  body = [f'<h1>{text(title)}</h1>', '<div class="videos">']
  for example in examples:
    images = ''.join(f'<img alt="" src="{uri}">' for uri in example.pictures)
    rows = [f'<dt>{text(k)}</dt><dd>{text(shown(v))}</dd>' for k, v in example.captions.items()]
    rows += [
      f'<dt class="reference">reference</dt><dd class="reference">{text(caption)}</dd>'
      for caption in example.references[:most_references]
    ]
    body.append(
      f'<div><b>{text(example.video_id)}</b>'
      + (f'<div>{images}</div>' if images else '')
      + f'<dl>{"".join(rows)}</dl></div>'
    )
  return document(title, [*body, '</div>'], _STYLE)


def markdown_table(examples: Sequence[Example], most_references: int) -> str:
  """The captions of each video by its id, beside references if there are any to show."""
  head = ['video', *examples[0].captions, 'references']
  rows = [
    [e.video_id, *map(shown, e.captions.values()), '; '.join(e.references[:most_references])]
    for e in examples
  ]
  cells = [[markdown.escaped(cell) for cell in row] for row in (head, *rows)]
  if not any(row[-1] for row in rows):
    cells = [row[:-1] for row in cells]
  return markdown.table(cells, left=range(len(cells[0])))


def run(options: argparse.Namespace, log: Callable[[str], None]) -> None:
  """Writes the page and examples.json, or the block of a Markdown page.

  Raises:
    UserError: no captions of a run; DataError: no such videos, or an unknown folder.
  """
  if not (options.output or options.markdown):
    raise UserError('give --output=DIR, --markdown=PAGE or both')
  if options.references_shown < 0:
    raise UserError(f'--references_shown={options.references_shown}: 0 for none, or more')
  if options.markdown:
    markdown.check_page('--markdown', options.markdown, BLOCK)
  if options.output:
    pages.check_folder(options.output, 'examples')
  runs = run_captions.read(options.runs.split(','), options.split)
  ids = choose_ids(runs, options.ids, options.count)
  try:
    references = run_captions.references_of(runs, options.references, options.split)
  except DataError as error:
    if options.references:
      raise
    log(f'no references are shown: {error}')
    references = {}
  examples = collect(runs, ids, references, options.videos, log)
  if options.markdown:
    table = markdown_table(examples, options.references_shown)
    markdown.write_block(options.markdown, BLOCK, table)
  if options.output:
    _write_folder(options, runs, examples)


def _write_folder(
  options: argparse.Namespace, runs: Sequence[RunCaptions], examples: Sequence[Example]
) -> None:
  output = pathlib.Path(options.output)
  pages.prepare(output, 'examples')
  title = f'Captions of {", ".join(run.label for run in runs)}'
  write_text(output / 'index.html', page(title, examples, options.references_shown))
  rows = [
    {'video_id': e.video_id, 'captions': dict(e.captions), 'references': list(e.references)}
    for e in examples
  ]
  files = {run.label: str(run.path) for run in runs}
  write_json(output / 'examples.json', {'runs': files, 'videos': rows}, False)


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.examples'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--runs', required=True, metavar='[LABEL=]PATH,…', help=run_captions.HELP)
  add('--split', default='test', help='whose captions, of workdirs (default: %(default)s)')
  add('--ids', metavar='ID,…', help='videos to show (default: the first whose captions differ)')
  add('--count', type=int, default=COUNT, help='videos without --ids (default: %(default)s)')
  add('--references', metavar='FILE', help='or data set (default: that of the first run)')
  add(
    '--references_shown', type=int, default=REFERENCES, metavar='N',
    help='of each video; 0 for none (default: %(default)s)',
  )  # fmt: skip
  add('--videos', metavar='DIR', help='folder of the video files or frames, named by id')
  add('--output', '--out', metavar='DIR', help='folder of the page with pictures')
  add(
    '--markdown',
    metavar='PAGE',
    help=f'page to write to, between {" and ".join(markdown.marks(BLOCK))}',
  )
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  run(options, log=lambda line: print(line, file=sys.stderr, flush=True))
  if options.markdown:
    print(options.markdown)
  if options.output:
    print(pathlib.Path(options.output) / 'index.html')


if __name__ == '__main__':
  main()
