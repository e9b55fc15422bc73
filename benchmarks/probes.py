"""Do the models do what they claim? Tiny ones, trained on clips whose answers are known.

  python -m benchmarks.probes [--probes=order,object] [--seeds=0,1,2] [--json=FILE]

For each claim (data_prep/probe_clips.py) a model and a baseline are trained on the same clips:
- accuracy: share of test clips whose caption has every answer right; a model solves its probe from
  90 % on, a baseline stays at chance within 10 points of it;
- hit rate: share of answers at whose word the attention's largest weight lies where the answer was
  planted; of several attentions, all have to.
All figures are means over the seeds, of which each has clips and a training of its own.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from configs import common
from data_prep import probes
from data_prep.probe_clips import PROBES
from vidcap_jax import distributed, evaluate, experiment, restore
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import open_split
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import UserError
from vidcap_jax.features import to_inputs
from vidcap_jax.models.captioner import bind

SOLVED = 0.9
NEAR_CHANCE = 0.1


@dataclasses.dataclass(frozen=True)
class Tiny:
  """A model small enough to train in a minute.

  Attributes:
    label: what it is called in the table.
    config: changes to ``base_config``.
    looks: names of its attentions -> the axes of the truth on which they should hit.
  """

  label: str
  config: Mapping[str, Any]
  looks: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Trial:
  """A probe, the model that claims to solve it, and one that should not."""

  probe: str
  model: Tiny
  baseline: Tiny


@dataclasses.dataclass(frozen=True)
class Measured:
  """One model on one seed: accuracy, hit rate, and the mean weight where the answer was planted
  (None without an attention to look at)."""

  accuracy: float
  hit_rate: float | None
  weight: float | None


def base_config() -> ConfigDict:
  """Cross entropy for 30 epochs of 15 steps, greedy captions."""
  c = common.base()
  c.data.length_buckets = ()
  c.data.captions_per_video = 1
  c.data.max_words = probes.MAX_WORDS  # evaluation batches hold whole captions, too
  c.train.batch_size = 32
  c.train.epochs = 30.0
  c.optimizer.learning_rate = 4e-3
  c.optimizer.schedule.name = 'cosine'
  c.decode.method = 'greedy'
  c.eval.batch_size = 40
  c.eval.every_epochs = 1000.0  # once, at the end
  c.eval.metrics = ('BLEU',)
  c.eval.metric = 'BLEU_4'
  c.eval.splits = ()
  c.log.every_steps = 100
  c.log.tensorboard = False
  return c


def _temporal_spatial(variant: str, **streams) -> dict:
  sizes = dict.fromkeys(('hidden', 'embed', 'project', 'attention'), 32)
  streams = {'global_streams': ('image',), 'temporal_streams': ('image',), **streams}
  model = {'name': 'temporal_spatial', 'variant': variant, 'dropout': 0.0, **sizes, **streams}
  return {'model': model}


VANILLA = Tiny('temporal_spatial vanilla', _temporal_spatial('vanilla'))
SPATIAL = Tiny(
  'temporal_spatial spatial',
  _temporal_spatial('spatial', spatial_stream='cells'),
  {'spatial': 'slots'},
)
TEMPORAL = Tiny('temporal_spatial temporal', _temporal_spatial('temporal'))

TRIALS = (
  Trial('order', TEMPORAL, VANILLA),
  Trial('object', SPATIAL, VANILLA),
)


# ------------------------------------------------------------------------------ scoring


def answered(caption: str, answers: Sequence[Mapping]) -> bool:
  """Whether a caption has every answer's word at its position."""
  words = caption.split()
  return all(words[a['position'] : a['position'] + 1] == [a['word']] for a in answers)


def looked(
  weights: Mapping[str, np.ndarray], answers: Sequence[Mapping], looks: Mapping[str, str]
) -> list[tuple[bool, float]]:
  """For each answer, whether the largest weights hit, and how much weight lay on the truth.

  Args:
    weights: attention -> (L, N), by word.
    answers: as in the truth file.
    looks: attention -> axis; answers that were planted on none of the axes are left out. Of
      several attentions the hits are all needed and the weights multiplied.
  """
  results = []
  for answer in answers:
    found = [
      (weights[name][answer['position']], list(answer['look'][axis]))
      for name, axis in looks.items()
      if axis in answer['look']
    ]
    if found:
      hit = all(int(np.argmax(w)) in truth for w, truth in found)
      results.append((hit, float(np.prod([w[truth].sum() for w, truth in found]))))
  return results


# ------------------------------------------------------------------------------ one model


def config_of(tiny: Tiny) -> ConfigDict:
  """The whole config of a tiny model, locked; data set and seed are still to be set."""
  config = base_config()
  config.update(ConfigDict(tiny.config))
  return config.lock()


def run(tiny: Tiny, data: str, workdir: pathlib.Path, seed: int) -> Measured:
  """Trains a model on a probe (unless it has been), and measures it on the test split."""
  config = config_of(tiny)
  config.seed, config.data.dir = seed, data
  mesh = distributed.make_mesh()
  experiment.run(config, workdir, mesh)
  restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh)
  truth = probes.read_truth(data)
  source = open_split(data, 'test')
  ids = [video.video_id for video in pipeline.read_texts(source)]
  captions = evaluate.captioner_of(restored)(source, ids)
  right = [answered(c['caption'], truth[c['video_id']]['answers']) for c in captions]
  accuracy = float(np.mean(right))
  if not tiny.looks:
    return Measured(accuracy, None, None)
  seen = [
    result
    for video_id, weights in attention(restored, source, ids)
    for result in looked(weights, truth[video_id]['answers'], tiny.looks)
  ]
  hits, weights = zip(*seen)
  return Measured(accuracy, float(np.mean(hits)), float(np.mean(weights)))


def attention(
  restored: restore.Restored, source, ids: Sequence[str]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
  """Each video's attention weights at the words of its own caption: name -> (L, N)."""
  config, streams, module = restored.config, restored.streams, restored.module

  @jax.jit
  def weigh(params, batch):
    captioner = bind(module, params)
    memory = captioner.encode(to_inputs(batch, streams, config.data.standardise), None, train=False)
    return teacher_forcing(captioner, memory, batch['captions'], attention=True).attention

  batches = evaluate.eval_batches(
    source, restored.vocabulary, streams, module.config.needs, config, restored.mesh
  )
  for _, batch in batches:
    found = jax.device_get(weigh(restored.params, batch))  # (L, B, 1, N)
    for row, index in enumerate(batch['video_index']):
      if index >= 0:
        yield ids[index], {name: w[:, row, 0] for name, w in found.items()}


# ------------------------------------------------------------------------------ all of them


def measure(trial: Trial, seeds: Sequence[int], workdir: pathlib.Path) -> dict[str, list]:
  """A trial on each seed: 'model' and 'baseline', each with a list of ``Measured``."""
  results: dict[str, list] = {'model': [], 'baseline': []}
  for seed in seeds:
    folder = workdir / trial.probe / f'seed_{seed}'
    data = probes.prepare(folder / 'data', trial.probe, seed)
    for side, tiny in (('model', trial.model), ('baseline', trial.baseline)):
      results[side].append(run(tiny, data, folder / tiny.label.replace(' ', '_'), seed))
  return results


def row(trial: Trial, results: Mapping[str, Sequence[Measured]]) -> dict:
  """What ``--json`` writes of a trial: means over the seeds, as fractions."""
  model, baseline = results['model'], results['baseline']
  return {
    'probe': trial.probe,
    'model': trial.model.label,
    'accuracy': _mean(m.accuracy for m in model),
    'baseline': trial.baseline.label,
    'baseline_accuracy': _mean(m.accuracy for m in baseline),
    'hit_rate': _mean(m.hit_rate for m in model),
    'chance': PROBES[trial.probe].chance,
  }


def _mean(values) -> float | None:
  values = list(values)
  return None if None in values else float(np.mean(values))


def line(row: Mapping, results: Mapping[str, Sequence[Measured]]) -> str:
  """A row for people, in per cent, with each seed's accuracy and what it amounts to."""
  show = lambda x: '   -' if x is None else f'{100 * x:4.0f}'  # noqa: E731
  each = '/'.join(show(m.accuracy).strip() for m in results['model'])
  near = abs(row['baseline_accuracy'] - row['chance']) <= NEAR_CHANCE
  verdict = 'solved' if row['accuracy'] >= SOLVED else 'NOT solved'
  verdict += ', baseline at chance' if near else ', baseline not at chance'
  weight = _mean(m.weight for m in results['model'])
  return (
    f'{row["probe"]:8} {row["model"]:28} {show(row["accuracy"])} ({each})  '
    f'hit {show(row["hit_rate"])}  weight {show(weight)}  '
    f'{row["baseline"]:28} {show(row["baseline_accuracy"])}  chance {show(row["chance"])}  '
    f'{verdict}'
  )


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if something could not be run."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.probes',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  known = list(dict.fromkeys(trial.probe for trial in TRIALS))
  numbers = lambda text: [int(part) for part in text.split(',')]  # noqa: E731
  add = parser.add_argument
  add('--probes', default=','.join(known), metavar='NAME[,…]', help='default: %(default)s')
  add('--seeds', type=numbers, default='0,1,2', metavar='N[,…]', help='default: %(default)s')
  add('--workdir', metavar='DIR', help='keeps what was trained; default: a temporary folder')
  add('--json', metavar='FILE', help='also write the rows there')
  args = parser.parse_args(argv)
  chosen = args.probes.split(',')
  if unknown := [name for name in chosen if name not in known]:
    parser.error(f'unknown probe {", ".join(unknown)}; known: {", ".join(known)}')
  rows, lines = [], []
  with tempfile.TemporaryDirectory() as temporary:
    workdir = pathlib.Path(args.workdir or temporary)
    try:
      for trial in TRIALS:
        if trial.probe in chosen:
          results = measure(trial, args.seeds, workdir)
          rows.append(row(trial, results))
          lines.append(line(rows[-1], results))
    except UserError as error:
      print(f'error: {error}', file=sys.stderr)
      return 1
  print('\n'.join(lines))
  if args.json:
    pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + '\n')
  return 0


if __name__ == '__main__':
  sys.exit(main())
