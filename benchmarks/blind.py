"""Does a captioner look? Its CIDEr when every video is given another one's features.

  python -m benchmarks.blind --checkpoint=WORKDIR [--data=DIR] [--split=test] [--json=FILE]

A model that looks falls to about the score of the best constant caption (goal: under 1.2 times
it); one that has only learned what captions sound like keeps its score.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

import benchmarks
from vidcap_jax.checkpoints import restore
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import Subset, VideoSource, open_split
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import metrics
from vidcap_jax.evaluation.constant import constant_baseline
from vidcap_jax.inference import captioning


def swapped(source: VideoSource, seed: int = 0) -> Subset:
  """The split with another video in each one's place: features, category and key frame are its."""
  return Subset(source, partners(len(source), seed))


def partners(count: int, seed: int = 0) -> Sequence[int]:
  """A random cycle through all videos: nobody keeps their own place."""
  if count < 2:
    raise UserError(f'a split of {count} video has nobody to swap features with')
  cycle = np.random.default_rng(seed).permutation(count)
  partner = np.empty(count, int)
  partner[cycle] = np.roll(cycle, 1)
  return partner.tolist()


def measure(checkpoint: str, data: str | None, split: str, seed: int = 0) -> list[benchmarks.Row]:
  """CIDEr with own and with swapped videos, and the best constant caption's."""
  mesh = make_mesh()
  restored = restore.restore(restore.find_checkpoint(checkpoint), mesh)
  source = open_split(data or restored.config.data.dir, split)
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
  own, blind = cider(source), cider(swapped(source, seed))
  ratio = blind / constant if constant else float('inf')
  return [
    benchmarks.Row('constant_CIDEr', constant),
    benchmarks.Row('CIDEr', own, ratio=own / constant if constant else None),
    benchmarks.Row('swapped_CIDEr', blind, ratio=ratio, goal=1.2, met=ratio < 1.2),
  ]


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if the goal is missed."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.blind',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--checkpoint', required=True, metavar='DIR', help='workdir or step folder')
  add('--data', metavar='DIR', help='data set (default: the one trained on)')
  add('--split', default='test', help='default: %(default)s')
  add('--seed', type=int, default=0, help='of the swap (default: %(default)s)')
  benchmarks.add_json(parser)
  args = parser.parse_args(argv)
  try:
    rows = measure(args.checkpoint, args.data, args.split, args.seed)
  except UserError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return 0 if benchmarks.report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
