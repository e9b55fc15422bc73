"""Whether a captioner uses its features: its CIDEr when videos swap their features.

  python -m benchmarks.swapped_features --checkpoint=WORKDIR [--split=test] [--json=FILE]

With the features of another video, a model that uses them falls to about the score of the best
constant caption (goal: under 1.2 times that score); a mere language model keeps its score.
"""

import argparse
import sys
from collections.abc import Sequence

import benchmarks
from vidcap_jax import command_errors
from vidcap_jax.checkpoints import restore
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.evaluation import metrics
from vidcap_jax.evaluation.constant import constant_baseline
from vidcap_jax.evaluation.swapped import swap_features
from vidcap_jax.inference import captioning


def measure(checkpoint: str, data: str | None, split: str, seed: int = 0) -> list[benchmarks.Row]:
  """CIDEr with own features, with swapped features, and of the best constant caption."""
  mesh = make_mesh()
  restored = restore.restore(restore.find_checkpoint(checkpoint), mesh)
  source = open_split(restored.data_folder(data), split)
  texts = list(pipeline.read_texts(source))
  ids = [video.video_id for video in texts]
  references = metrics.prepare_references(
    {v.video_id: list(v.captions) for v in texts}, by_character=restored.vocabulary.by_character
  )
  caption = captioning.captioner_of(restored)

  def cider(videos) -> float:
    hypotheses = {c['video_id']: c['caption'] for c in caption(videos, ids)}
    return metrics.score(hypotheses, references, metrics=('CIDEr',))[0]['CIDEr']

  constant = constant_baseline(references, restored.meta['top_captions'])[1]
  own, swapped = cider(source), cider(swap_features(source, seed))
  ratio = swapped / constant if constant else float('inf')
  return [
    benchmarks.Row('constant_CIDEr', constant),
    benchmarks.Row('CIDEr', own, ratio=own / constant if constant else None),
    benchmarks.Row('swapped_CIDEr', swapped, ratio=ratio, goal=1.2, met=ratio < 1.2),
  ]


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if the goal is missed."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.swapped_features',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--checkpoint', required=True, metavar='DIR', help='workdir or step folder')
  add('--data', metavar='DIR', help='data set (default: that of the training)')
  add('--split', default='test', help='default: %(default)s')
  add('--seed', type=int, default=0, help='of the swap (default: %(default)s)')
  benchmarks.add_json(parser)
  args = parser.parse_args(argv)
  rows = measure(args.checkpoint, args.data, args.split, args.seed)
  return 0 if benchmarks.report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
