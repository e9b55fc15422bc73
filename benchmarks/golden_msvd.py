"""Checks our metrics on the captions of a published system for the MSVD test videos.

  python -m benchmarks.golden_msvd --predictions=FILE --references=sents_test_lc_nopunc.txt

The predictions are plain text, one caption a line, in the order of the references' 670 videos
(vid1301 to vid1970). The goals are the scores of pycocoevalcap 1.2 with its own tokeniser and
METEOR wrapper; the paper of the system reports .810 .697 .606 .511, .335, .706 and .777.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from benchmarks import Row, add_json, report
from vidcap_jax import command_errors
from vidcap_jax.annotations import caption_files
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import metrics, signature

GOALS = {
  'BLEU_1': 0.8098,
  'BLEU_2': 0.6970,
  'BLEU_3': 0.6059,
  'BLEU_4': 0.5110,
  'METEOR': 0.3354,
  'ROUGE_L': 0.7055,
  'CIDEr': 0.7767,
}


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--predictions', required=True, metavar='FILE', help='one caption per line')
  parser.add_argument('--references', required=True, metavar='FILE', help='id, tab, caption')
  add_json(parser)
  options = parser.parse_args(arguments)
  references = caption_files.read_references(options.references)
  captions = pathlib.Path(options.predictions).read_text(encoding='utf-8').rstrip('\n').split('\n')
  if len(captions) != len(references):
    raise DataError(
      f'{options.predictions} has {len(captions)} lines, {options.references} names '
      f'{len(references)} videos'
    )
  corpus, _ = metrics.score(dict(zip(references, captions, strict=True)), references)
  print(f'signature: {signature.of_captions(references)}')
  rows = [
    Row(name, value, goal=GOALS[name], met=round(value, 4) == GOALS[name])
    for name, value in corpus.items()
  ]
  if not report(rows, options.json):
    sys.exit('error: the scores differ from the published ones')


if __name__ == '__main__':
  main()
