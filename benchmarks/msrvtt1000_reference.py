"""Scores that need no captioner, on the first 1,000 videos of MSR-VTT.

  python -m benchmarks.msrvtt1000_reference --annotations=train_val_videodatainfo.json \
      --splits=splits.json --features=DIR

Two baselines for a trained model, on the validation split:
- constant: the same caption for every video: the best by CIDEr of the most frequent training
  captions, and the captions given by --constant;
- nearest: the medoid caption (which shares most words with the others) of the training video with
  the closest mean feature, by cosine similarity of features standardised over the training videos.
"""

import argparse
import pathlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from benchmarks import Row, add_json, report
from vidcap_jax import command_errors
from vidcap_jax.annotations import caption_files
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import metrics, signature
from vidcap_jax.evaluation.constant import constant_baseline
from vidcap_jax.evaluation.nearest import medoid, nearest


def mean_features(directory: str, ids: list[str]) -> np.ndarray:
  """Each video's feature averaged over its frames: (videos, D)."""
  paths = [pathlib.Path(directory, f'{video_id}.npy') for video_id in ids]
  missing = [path.name for path in paths if not path.is_file()]
  if missing:
    raise DataError(
      f'{directory} lacks {len(missing)} of {len(ids)} feature files: {", ".join(missing[:5])}'
    )
  return np.stack([np.load(path).mean(axis=0) for path in paths])


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--annotations', required=True, metavar='FILE', help='MSR-VTT json')
  parser.add_argument('--splits', required=True, metavar='FILE', help='json {train: …, val: …}')
  parser.add_argument('--features', required=True, metavar='DIR', help='VIDEO_ID.npy, (T, D) each')
  parser.add_argument('--constant', action='append', help='caption to score; may be repeated')
  parser.add_argument(
    '--candidates', type=int, default=100, help='number of frequent captions to try (%(default)s)'
  )
  add_json(parser)
  options = parser.parse_args(arguments)
  report(_measure(options), options.json)


def _measure(options) -> list[Row]:
  train, val = (
    caption_files.read_references(options.annotations, split, options.splits)
    for split in ('train', 'val')
  )
  print(f'signature: {signature.of_captions(val, split="val")}')
  references = metrics.prepare_references(val)
  frequent = Counter(c for captions in train.values() for c in captions)
  candidates = [caption for caption, _ in frequent.most_common(options.candidates)]
  best, _ = constant_baseline(references, candidates)

  captions = {
    f'constant "{caption}"': dict.fromkeys(val, caption)
    for caption in dict.fromkeys([best, *(options.constant or ['a man is talking'])])
  }
  closest = nearest(
    mean_features(options.features, list(val)), mean_features(options.features, list(train))
  )
  ids = list(train)
  captions['nearest'] = {v: medoid(train[ids[i]]) for v, i in zip(val, closest, strict=True)}

  rows = []
  for name, hypotheses in captions.items():
    corpus, _ = metrics.score(hypotheses, references, ['BLEU', 'ROUGE_L', 'CIDEr'])
    rows += [Row(f'{name} {m}', corpus[m]) for m in ('CIDEr', 'BLEU_4', 'ROUGE_L')]
  return rows


if __name__ == '__main__':
  main()
