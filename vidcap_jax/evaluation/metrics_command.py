"""The command ``python -m vidcap_jax.evaluation.metrics``: scores a captions file."""

import argparse
import contextlib
import functools
import json
import logging
import pathlib
import sys
from collections.abc import Mapping, Sequence

from vidcap_jax.annotations import caption_files
from vidcap_jax.errors import DataError, UserError, error_text, first_few
from vidcap_jax.evaluation import meteor
from vidcap_jax.evaluation.java import require_java
from vidcap_jax.evaluation.metrics import (
  METRICS,
  Scores,
  check_metrics,
  different_note,
  prepare_references,
  score,
  split_words,
)
from vidcap_jax.evaluation.zero_scores import zero_notes
from vidcap_jax.files import check_output
from vidcap_jax.program_name import program_name


def make_parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.evaluation.metrics'),
    description='Scores captions against references: BLEU-1..4, METEOR, ROUGE-L, CIDEr.',
    epilog=caption_files.FORMS,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--hypotheses', required=True, metavar='FILE', help='one caption per video')
  parser.add_argument('--references', required=True, metavar='FILE', help='one or more per video')
  parser.add_argument(
    '--metrics', default=','.join(METRICS), help='comma-separated, of: %(default)s'
  )
  parser.add_argument(
    '--split', help='score only this split of the references (default: all their videos)'
  )
  parser.add_argument(
    '--splits',
    metavar='FILE',
    help="json {split: [ids]}, or a list of ids, in place of the references' own splits",
  )
  parser.add_argument(
    '--format',
    metavar='NAME',
    help='of the references, one of those of data_prep.build (default: recognized)',
  )
  parser.add_argument(
    '--language', help='which captions of the references to score, where --format has several'
  )
  parser.add_argument(
    '--by_character', action='store_true', help='compare Chinese captions by character'
  )
  parser.add_argument('--json', metavar='FILE', help='write the corpus scores there')
  parser.add_argument('--per_video', metavar='FILE', help='write the scores of every video there')
  parser.add_argument(
    '--meteor_time_limit',
    type=float,
    default=meteor.TIME_LIMIT,
    metavar='SECONDS',
    help='time limit of METEOR (default: %(default).0f)',
  )
  return parser


def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = make_parser().parse_args(arguments)
  logging.basicConfig(format='%(message)s')
  names = options.metrics.split(',')
  try:
    check_metrics(names)
    for flag, file in (('--json', options.json), ('--per_video', options.per_video)):
      if file:
        check_output(flag, file)
    require_java()
    hypotheses = caption_files.read_hypotheses(options.hypotheses)
    references = caption_files.read_references(
      options.references,
      options.split,
      options.splits,
      form=options.format,
      language=options.language,
    )
    if options.split and not options.splits:
      _check_split(options, hypotheses, references)
    split = functools.partial(split_words, by_character=options.by_character)
    for note in zero_notes(list(references.values()), names, split):
      print(note, file=sys.stderr)
    with contextlib.ExitStack() as stack:
      process = None
      if 'METEOR' in names:  # it starts while references are tokenised
        process = stack.enter_context(meteor.Meteor(options.meteor_time_limit))
      prepared = prepare_references(references, by_character=options.by_character)
      if prepared.different:
        print(different_note(prepared), file=sys.stderr)
      corpus, per_video = score(hypotheses, prepared, names, meteor_process=process)
    if options.json:
      counts = {'different_references': prepared.different} if prepared.different else {}
      _write(options.json, {**corpus, 'videos': len(per_video), **counts})
    if options.per_video:
      _write(options.per_video, per_video)
  except (UserError, OSError) as error:
    sys.exit(f'error: {error_text(error)}')
  print(table(corpus))
  print(f'{len(per_video)} videos, {len(set(hypotheses.values()))} distinct captions')


def _check_split(options: argparse.Namespace, hypotheses: Mapping, references: Mapping) -> None:
  """Raises DataError for captions of videos that are in another split than ``--split``."""
  if all(video_id in references for video_id in hypotheses):
    return
  splits = caption_files.find_splits(
    options.references, form=options.format, language=options.language
  )
  others = {v: splits[v] for v in hypotheses if v not in references and v in splits}
  if others:
    items = [f'{video_id}: {split}' for video_id, split in others.items()]
    raise DataError(
      f'--split={options.split}: {len(others)} of {len(hypotheses)} captions are of videos in '
      f'other splits of {options.references} ({first_few(items)})',
      items,
    )


def table(corpus: Scores) -> str:
  """Scores as lines of name and value, aligned."""
  width = max(len(name) for name in corpus)
  return '\n'.join(f'{name:<{width}}  {value:7.4f}' for name, value in corpus.items())


def _write(path: str, data) -> None:
  text = json.dumps(data, indent=1, ensure_ascii=False) + '\n'
  pathlib.Path(path).write_text(text, encoding='utf-8')
