"""The number of words that data_prep.build gives, by threshold, length and counted splits.

  python -m benchmarks.vocabularies --format=msvd --annotations=DIR --max_words=0,15,20

Needs no features. A row is for the training split, or for all splits (--leak_words_of of the
build); a column for a --min_count. The 4 special tokens are included, as in the build's summary.

``--write=FILE`` also adds how many words occur once, twice … to a JSON file, which holds no word.
The docstrings of the papers' configs are tested against such a file: tests/configs/word_counts.json
is made of the whole annotations of MSVD (lengths 0, 15) and MSR-VTT (0, 15, 21; for
--splits=msrvtt_dual_afr 0, 18).
"""

import argparse
import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax import command_errors
from vidcap_jax.annotations import read_annotations, splits
from vidcap_jax.annotations.model import Annotations
from vidcap_jax.data.tokenizers import TOKENIZERS
from vidcap_jax.data.vocabulary import SPECIAL, count_words, frequent_words
from vidcap_jax.errors import DataError

MOST = 10  # the largest --min_count that is listed


@dataclasses.dataclass(frozen=True)
class WordCounts:
  """How often the words of some captions occur.

  Attributes:
    form: of the annotations, as --format.
    splits: as --splits; '': the annotations' own.
    tokenizer: that split the captions.
    counted: the splits whose captions these are.
    max_words: at which captions were cut; 0: they were not.
    longest: words of the longest caption, after cutting.
    words_by_count: how many words occur once, twice …, the last one: ``MOST`` times or more.
  """

  form: str
  splits: str
  tokenizer: str
  counted: tuple[str, ...]
  max_words: int
  longest: int
  words_by_count: tuple[int, ...]

  def vocabulary_size(self, min_count: int) -> int:
    """The size of the vocabulary, special tokens included.

    Raises:
      ValueError: ``min_count`` is above ``MOST``.
    """
    if min_count > MOST:
      raise ValueError(f'min_count={min_count}: counts are known up to {MOST}')
    counts = {
      f'word {i} of {count}': count
      for count, words in enumerate(self.words_by_count, 1)
      for i in range(words)
    }
    return len(SPECIAL) + len(frequent_words(counts, min_count))


def read(path: str | pathlib.Path) -> list[WordCounts]:
  """The counts that ``--write`` wrote."""
  tuples = ('counted', 'words_by_count')
  rows = json.loads(pathlib.Path(path).read_text())
  return [WordCounts(**{k: tuple(v) if k in tuples else v for k, v in row.items()}) for row in rows]


def measure(
  annotations: Annotations, form: str, split_names: str, tokenizer: str, lengths: Sequence[int]
) -> Iterator[WordCounts]:
  """Counts the words of the training split, and of all splits, for each length.

  Args:
    annotations: as read.
    form: of them, as --format.
    split_names: as --splits; '': the annotations' own.
    tokenizer: a key of ``TOKENIZERS``.
    lengths: values of --max_words.

  Raises:
    DataError: there is no split train, or none of ``split_names``.
  """
  chosen = splits.choose(split_names, annotations, {}) if split_names else None
  videos, _ = splits.assign(annotations, chosen)
  if 'train' not in videos:
    raise DataError(f'the annotations have no split train but {", ".join(videos)}; give --splits')
  everything = ('train', *(name for name in videos if name != 'train'))
  for counted in dict.fromkeys([('train',), everything]):
    captions = [c for split in counted for video in videos[split] for c in video.captions]
    for max_words in lengths:
      counts, longest = count_words(captions, max_words, tokenizer)
      by_count = collections.Counter(min(count, MOST) for count in counts.values())
      words_by_count = tuple(by_count[n] for n in range(1, MOST + 1))
      yield WordCounts(form, split_names, tokenizer, counted, max_words, longest, words_by_count)


def table(found: Sequence[WordCounts]) -> str:
  """Sizes of vocabularies as text: a row for each of the counts, a column for each --min_count."""
  rows = [('counted', 'max_words', 'longest', *(f'>={n}' for n in range(1, MOST + 1)))]
  for counts in found:
    sizes = (f'{counts.vocabulary_size(n):,}' for n in range(1, MOST + 1))
    rows.append(('+'.join(counts.counted), str(counts.max_words), str(counts.longest), *sizes))
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  return '\n'.join(
    '  '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
  )


def add_to_file(found: Sequence[WordCounts], path: pathlib.Path) -> None:
  """Writes the counts, in place of those of the same annotations and settings in the file."""

  def settings(counts: WordCounts) -> tuple:
    return dataclasses.astuple(counts)[:5]

  before = read(path) if path.exists() else []
  rows = sorted(({settings(c): c for c in before} | {settings(c): c for c in found}).items())
  lines = (json.dumps(dataclasses.asdict(counts)) for _, counts in rows)
  path.write_text('[\n' + ',\n'.join(lines) + '\n]\n')


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.vocabularies',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--format', dest='form', required=True, metavar='NAME')
  parser.add_argument('--annotations', required=True, metavar='FILE[,FILE]')
  parser.add_argument('--language', metavar='CODE', help='as of the build')
  parser.add_argument('--splits', default='', metavar='FILE[,FILE]|NAME', help='as of the build')
  parser.add_argument('--tokenizer', default='ptb_like', choices=TOKENIZERS)
  parser.add_argument(
    '--max_words', type=_lengths, default=(0,), metavar='N[,N]', help='0: captions are not cut'
  )
  parser.add_argument('--write', type=pathlib.Path, metavar='FILE', help='JSON file to add to')
  options = parser.parse_args(arguments)
  paths = options.annotations.split(',')
  annotations = read_annotations(options.form, paths, options.language)
  settings = (options.form, options.splits, options.tokenizer, options.max_words)
  found = list(measure(annotations, *settings))
  print(table(found))
  if options.write:
    add_to_file(found, options.write)


def _lengths(text: str) -> tuple[int, ...]:
  if not all(part.isdecimal() for part in text.split(',')):
    raise argparse.ArgumentTypeError(f'{text!r}: not whole numbers')
  return tuple(map(int, text.split(',')))


if __name__ == '__main__':
  main()
