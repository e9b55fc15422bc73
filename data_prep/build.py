"""Builds a data set folder from annotations and features.

    python -m data_prep.build --format=msrvtt --annotations=train_val_videodatainfo.json \\
        --features=image=features/ --splits=splits.json --missing=skip --output=data/msrvtt

Run again with the same options after an interruption, it resumes.

argparse, because tyro, jsonargparse and simple-parsing (tried) can't read NAME=VALUE,NAME=VALUE:
each flag would need a parser of its own, and its help and metavar, all the same.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.dataset import flag_values
from data_prep.dataset.builder import ShardBuilder, build
from data_prep.dataset.options import Options
from data_prep.report.summary import summary
from vidcap_jax import annotations, command_arguments, command_errors
from vidcap_jax.annotations.published import NUMBERED
from vidcap_jax.data.tokenizers import TOKENIZERS
from vidcap_jax.errors import DataError, UserError, error_text
from vidcap_jax.program_name import program_name

_EXAMPLES = """examples:
  own data, one caption a row, columns video_id, caption, split:
    --format=csv --annotations=clips.csv --features=image=features/ --output=data/clips
  MSVD with features named by YouTube id, two streams, one of which a video may lack:
    --format=msvd --annotations=msvd/ --id_map=youtube_mapping.txt \\
    --features=image=resnet/,audio=vggish.h5 --optional=audio --output=data/msvd
  a test set for a model that was trained elsewhere:
    --format=jsonl --annotations=new.jsonl --split=test --vocabulary=data/clips \\
    --features=image=new_features/ --output=data/new"""


@command_errors.exit_on_closed_pipe()
def main(argv: Sequence[str] | None = None, build_shards: ShardBuilder | None = None) -> int:
  """Entry point; returns the exit code. ``build_shards``: as of ``builder.build``."""
  out = ''
  try:
    options = parse_options(argv)
    out = options.out
    manifest, report = build(options, build_shards)
  except UserError as error:
    print(f'error: {error_text(error)}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('interrupted; run the same command again to resume', file=sys.stderr)
    return 130
  except OSError as error:
    print(f'error: {error.filename or out}: {error.strerror or error}', file=sys.stderr)
    return 1
  print(summary(manifest, report, out))
  return 0


def parse_options(argv: Sequence[str] | None) -> Options:
  """The options that a command's flags give; DataError for a value of another form."""
  given = vars(command_arguments.parse(make_parser(), argv))
  return flag_values.to_options({**given, 'features': ','.join(given['features'])})


def options_of(flags: Mapping[str, Any]) -> Options:
  """The options of keyword arguments, which are named as the flags of the command.

  Args:
    flags: values by name, see ``flag_values``.

  Raises:
    TypeError: an unknown name, or a required one that is missing.
    DataError: a value of another form.
  """
  values = flag_values.of_keywords(make_parser(), flags)
  annotations.find(values['form'])  # raises for an unknown form
  return flag_values.to_options(values)


def make_parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('data_prep.build'),
    description='Builds a data set folder (ArrayRecord shards and a manifest) from annotations '
    'and features. Run again after an interruption, it resumes.',
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
    epilog=_EXAMPLES,
  )
  _add_required_flags(parser.add_argument_group('required').add_argument)
  _add_split_flags(parser.add_argument_group('videos and splits').add_argument)
  _add_stream_flags(parser.add_argument_group('feature streams').add_argument)
  _add_caption_flags(parser.add_argument_group('captions and vocabulary').add_argument)
  _add_output_flags(parser.add_argument_group('output').add_argument)
  return parser


def _add_required_flags(add) -> None:
  add(
    '--format',
    dest='form',
    required=True,
    type=_annotation_form,
    metavar='NAME',
    help=f'form of the annotations: {", ".join(annotations.FORMATS)}, or package.module:read',
  )
  add('--annotations', required=True, metavar='FILE[,FILE]', help='annotation files (or folder)')
  add(
    '--features',
    required=True,
    action='append',
    metavar='NAME=PATH[,NAME=PATH]',
    help='named streams: a folder of ID.npy (.npz, .pkl, .pth), an .h5, .pkl, .pth or .npz file of '
    'all videos, WebDataset .tar files, an LMDB store or a TFDS folder',
  )
  add(
    '--output',
    '--out',
    dest='out',
    required=True,
    metavar='DIR',
    help='folder to write, of any name',
  )


def _annotation_form(name: str) -> str:
  try:
    annotations.find(name)
  except DataError as error:
    raise argparse.ArgumentTypeError(str(error)) from None
  return name


def _add_split_flags(add) -> None:
  add(
    '--splits',
    metavar='FILE[,FILE]|NAME',
    help="instead of the annotation's splits: JSON {split: [ids]}; lists of ids named by split, "
    f'text or CSV; or the published ones of {" or ".join(NUMBERED)}, by number',
  )
  add('--split', metavar='NAME', help='put all videos into this one split')
  add(
    '--counts',
    choices=('fail', 'warn'),
    default=Options.counts,
    help='what to do if a published split does not have its published number of videos '
    '(default: %(default)s)',
  )
  add(
    '--missing',
    choices=('fail', 'skip'),
    default=Options.missing,
    help='what to do with videos that lack features: fail and name them, or skip: leave them out, '
    'counted and named in the manifest (default: %(default)s)',
  )
  add(
    '--bad',
    choices=('fail', 'skip'),
    help='what to do with videos whose features are unusable (default: as --missing)',
  )
  add('--id_map', metavar='FILE', help='lines "other_name id": features may have either name')


def _add_stream_flags(add) -> None:
  add('--optional', metavar='NAME[,NAME]', help='streams that a video may lack')
  add(
    '--kinds',
    metavar='NAME=KIND[,…]',
    help='vector, sequence, grid or regions (default: by number of axes; 1: vector, 2: sequence, '
    '3: regions, 4: grid)',
  )
  add(
    '--layout',
    dest='layouts',
    metavar='NAME=AXES[,…]',
    help='order of axes: C, TC, CT, 1TC, TNC, THWC, TCHW … (T frames, C channels, N regions, H W '
    'rows and columns, 1 an axis of size 1; default by number of axes: C, TC, TNC, THWC)',
  )
  add(
    '--rows',
    metavar='NAME=ID[,…]',
    help='for an .h5 table without ids: the id of its first row (video0); later rows count up',
  )
  add(
    '--readers',
    metavar='NAME=MODULE:CLASS[,…]',
    help='features of a form of your own: the class that reads them (docs/extending.md)',
  )
  add('--keys', metavar='NAME=KEY[,…]', help='which array to read where a video has several')
  add(
    '--match',
    metavar='RULE[,RULE]',
    help='how names of features and videos may differ: path, extension, case, prefix:TEXT, none '
    '(default: path,extension)',
  )
  add(
    '--max_frames',
    metavar='NAME=N[,…]',
    help='keep at most N frames, evenly spaced, the first and the last among them',
  )
  add(
    '--blocks',
    metavar='NAME=N[,…]',
    help='streams on one clock, such as the layers of a 3D network: frames of each in one unit of '
    'the clock; --max_frames then keeps the same whole units of all of them',
  )
  add(
    '--max_regions',
    metavar='NAME=N[,…]',
    help='keep at most N regions of a frame: those with the highest scores, or the first N',
  )
  add(
    '--align',
    metavar='NAME+NAME=POLICY[,…]',
    help='streams of equal length; where they differ: error, truncate or resample to the shortest',
  )
  add(
    '--dtype',
    choices=('float16', 'float32'),
    default=Options.dtype,
    help='of stored features (default: %(default)s)',
  )


def _add_caption_flags(add) -> None:
  add('--language', metavar='CODE', help='which captions to read (vatex: en or zh)')
  # Without defaults here: with --vocabulary, these four must not be given.
  add(
    '--min_count',
    type=int,
    metavar='N',
    help=f'fewest occurrences of a word in the vocabulary (default: {Options.min_count})',
  )
  add(
    '--max_words',
    type=int,
    metavar='N',
    help='words of a caption to learn, longer ones are cut; 0: none is cut '
    f'(default: {Options.max_words})',
  )
  add(
    '--leak_words_of',
    metavar='SPLIT[,SPLIT]',
    help="count the words of these splits too, not of train alone: val's and test's words leak "
    'into the vocabulary. Only to repeat a paper that did so (default: none)',
  )
  add(
    '--tokenizer',
    choices=TOKENIZERS,
    help='how captions become words (default: ptb_like, or by_character for --language=zh)',
  )
  add(
    '--vocabulary',
    metavar='FILE|DIR',
    help='use this vocabulary, or that of a data set, instead of making one',
  )


def _add_output_flags(add) -> None:
  add(
    '--name',
    help="of the data set, with which its files' names begin: small letters, digits and "
    'underscores, first a letter (default: from the name of --output)',
  )
  add(
    '--shard_mb',
    type=float,
    default=Options.shard_mb,
    help='approximate size of a shard in MiB (default: %(default)g)',
  )
  add('--overwrite', action='store_true', help='replace a data set built from other inputs')


if __name__ == '__main__':
  sys.exit(main())
