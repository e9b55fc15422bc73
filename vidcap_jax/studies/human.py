r"""Captions judged by people (dualAFR, Table 3): draws sheets for raters, and scores their answers.

  vidcap studies human draw --runs=baseline=runs/pool4,dualAFR=runs/soft \
      --split=test --videos=100 --raters=25 --output=DIR
  vidcap studies human score --key=DIR/key.json --sheets=DIR/sheets --json=FILE

``draw`` writes for each rater a CSV sheet and an HTML page with the same questions to DIR/sheets,
which is what raters get; the page works without a network and saves the filled-in sheet. The
captions of a video stand in a random order, which DIR/key.json alone resolves: do not give it to
raters. ``--task=compare`` asks which caption is best, as the paper does, ``--task=rate`` for points
for each. ``score`` gives the share of answers that prefer each run, or its mean points, with
intervals, and the agreement between raters.
"""

import argparse
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError, UserError, first_few
from vidcap_jax.features import video, video_stills
from vidcap_jax.features.picture_files import Source
from vidcap_jax.files import check_output, write_json
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import human_page, human_scores, human_sheets, run_captions
from vidcap_jax.studies.drawing import bars, check_plot, figure
from vidcap_jax.studies.human_page import Media
from vidcap_jax.studies.human_sheets import Key, Questions

CRITERIA = 'relevance,coherence'  # of the paper
_PLAYABLE = ('.mp4', '.webm', '.m4v', '.ogv', '.mov')  # files that browsers show themselves
_STILLS, _STILL_SIZE = 8, 128  # pictures of other videos, and their rows and columns


def draw(options: argparse.Namespace) -> None:
  """The command ``draw``: writes the key, the sheets and the pages."""
  output = pathlib.Path(options.output)
  check_output('--output', output, folder=True)
  if (output / 'key.json').exists():
    raise UserError(
      f'--output={output}: it holds a key already, whose sheets may be out; give another folder'
    )
  runs = run_captions.read(options.runs.split(','), options.split)
  criteria = tuple(options.criteria.split(','))
  questions = Questions(options.task, criteria, len(runs), options.points)
  key = human_sheets.draw(
    runs, questions, videos=options.videos, raters=options.raters, seed=options.seed
  )
  sheets = output / 'sheets'
  drawn = [item.video_id for item in next(iter(key.items.values()))]
  sources = _find_videos(options.media, drawn) if options.media else {}
  sheets.mkdir(parents=True, exist_ok=True)
  media = {video_id: _show(source, sheets) for video_id, source in sources.items()}
  captions = {run.label: run.captions for run in runs}
  human_sheets.write_key(output / 'key.json', key)
  for rater in key.items:
    human_sheets.write_sheet(sheets / f'{rater}.csv', rater, key, captions)
    rows = human_sheets.as_rows(rater, key, captions)
    study = f'{output.absolute().name} {options.seed}'
    page = human_page.render(rater, rows, questions, media, study)
    (sheets / f'{rater}.html').write_text(page, encoding='utf-8')
  counts = f'{counted(len(key.items), "sheet")} with pages, of {counted(len(drawn), "video")}'
  print(f'written to {sheets}: {counts}')
  print(f'{output}/key.json has the order of the captions: keep it from raters')


def _find_videos(folder: str, video_ids: Sequence[str]) -> dict[str, Source]:
  """The file or folder of frames of each video.

  Raises:
    DataError: one is missing.
  """
  if not pathlib.Path(folder).is_dir():
    raise DataError(f'--media={folder}: no such folder')
  sources = video_stills.find_sources(folder, video_ids)
  if missing := [video_id for video_id in video_ids if video_id not in sources]:
    raise DataError(
      f'--media={folder}: no file of {len(missing)} of the {len(video_ids)} videos drawn: '
      f'{first_few(missing)}'
    )
  return sources


def _show(source: Source, sheets: pathlib.Path) -> Media:
  """Copies a video beside the pages if browsers play it; else makes pictures of it."""
  if isinstance(source, pathlib.Path) and source.suffix.lower() in _PLAYABLE:
    (sheets / 'media').mkdir(exist_ok=True)
    shutil.copyfile(source, sheets / 'media' / source.name)
    return Media(file=f'media/{source.name}')
  frames = video.sample(source, {'uniform': _STILLS}, _STILL_SIZE, [])
  return Media(pictures=[video_stills.jpeg_uri(frame.image) for frame in frames])


def score(options: argparse.Namespace) -> None:
  """The command ``score``: reads the sheets and prints and writes the scores."""
  if options.json:
    check_output('--json', options.json)
  if options.plot:
    check_plot('--plot', options.plot)
  key = human_sheets.read_key(options.key)
  files = human_sheets.sheet_files(options.sheets.split(','))
  answers = human_sheets.read_sheets(files, key, allow_missing=options.allow_missing)
  if not answers:
    raise DataError(f'--sheets={options.sheets}: no answers in {len(files)} sheets')
  result = human_scores.score(answers, key, options.seed)
  result |= {'sheets_drawn': len(key.items), 'runs': dict(key.runs)}
  print(human_scores.table(result))
  if options.json:
    write_json(options.json, result, ensure_ascii=False)
  if options.plot:
    plot(result, key, options.plot)


def plot(result: Mapping[str, Any], key: Key, path: str) -> None:
  """Draws the means of every criterion with their intervals.

  Raises:
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  criteria = list(result['criteria'])
  compare = result['task'] == 'compare'
  entries = {
    label: [result['criteria'][criterion]['runs'][label] for criterion in criteria]
    for label in (*key.runs, *([human_sheets.NEITHER] if compare else []))
  }
  heights = {label: [entry['mean'] for entry in row] for label, row in entries.items()}
  intervals = {
    label: [tuple(entry['interval'] or (0.0, 0.0)) for entry in row]
    for label, row in entries.items()
  }
  picture = figure(figsize=(2 + 1.8 * len(criteria), 3.4))
  panel = picture.subplots()
  bars(panel, criteria, heights, intervals)
  about = f'{counted(result["videos"], "video")}, {counted(result["raters"], "rater")}'
  panel.set(ylabel='share of answers' if compare else 'points', title=about)
  if not compare:
    panel.set_ylim(1, result['points'])
  picture.savefig(path, dpi=150)


def make_parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.human'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  commands = parser.add_subparsers(required=True, metavar='draw | score')
  command = commands.add_parser('draw', help='write sheets and pages for raters')
  command.set_defaults(run=draw)
  add = command.add_argument
  add('--runs', required=True, metavar='PATH,…', help=run_captions.HELP)
  add('--split', default='test', help='of the captions (default: %(default)s)')
  add('--videos', type=int, default=100, help='to draw (default: %(default)s)')
  add('--raters', type=int, default=25, help='number of sheets (default: %(default)s)')
  add('--task', default='compare', help='compare or rate (default: %(default)s)')
  add('--criteria', default=CRITERIA, metavar='NAME,…', help='default: %(default)s')
  add('--points', type=int, default=5, help='the most of --task=rate (default: %(default)s)')
  add('--media', metavar='DIR', help='videos or folders of frames to show, by id')
  add('--seed', type=int, default=0, help='of the draw (default: %(default)s)')
  add('--output', '--out', required=True, metavar='DIR', help='where to write')
  command = commands.add_parser('score', help='score the filled-in sheets')
  command.set_defaults(run=score)
  add = command.add_argument
  add('--key', required=True, metavar='FILE', help='key.json of the draw')
  add('--sheets', required=True, metavar='PATH,…', help='filled-in CSV sheets, or their folders')
  add('--allow_missing', action='store_true', help='accept rows and answers that are missing')
  add('--seed', type=int, default=0, help='of the intervals (default: %(default)s)')
  add('--json', metavar='FILE', help='write the scores there')
  add('--plot', metavar='FILE', help='draw the means there (.png, .pdf, .svg)')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  options.run(options)


if __name__ == '__main__':
  main()
