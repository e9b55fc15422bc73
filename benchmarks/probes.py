"""Whether the models have the abilities that they claim: tiny ones, on clips with known answers.

  python -m benchmarks.probes [--probes=order,object] [--settings=probe] [--seeds=0,1,2]
      [--json=FILE]

For each probe (data_prep/synthetic/probe_clips.py) a model and a baseline are trained on the same
clips:
- accuracy: share of test clips whose caption contains every answer; a model solves its probe with
  90 % or more, a baseline is at chance within 10 points of it;
- hit rate: share of answers for which the attention, averaged over the words since the last answer,
  is largest where the answer was placed (for all its picks, if it makes several).
The key frame has its own row, with its hit rate as accuracy and the middle frame as baseline. All
numbers are means over the seeds; each seed has its own clips and training. Trials of the settings
'published' have the papers' values where those of 'probe' differ from them.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from benchmarks import add_json
from benchmarks.probe_models import TRIALS, Tiny, Trial, config_of
from data_prep.synthetic import probes
from data_prep.synthetic.probe_clips import PROBES
from vidcap_jax import command_errors
from vidcap_jax.checkpoints import restore
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.inference import captioning, rerank
from vidcap_jax.studies.weights import read_weights
from vidcap_jax.training import experiment

SOLVED = 0.9
NEAR_CHANCE = 0.1


@dataclasses.dataclass(frozen=True)
class Measured:
  """The results of one model on one seed.

  Attributes:
    accuracy: share of clips with the right caption.
    hit_rate: share of answers that the attention finds, or None without an attention.
    weight: mean attention weight where the answer was placed, or None.
  """

  accuracy: float
  hit_rate: float | None
  weight: float | None


# ------------------------------------------------------------------------------ scoring


def is_correct(caption: str, answers: Sequence[Mapping]) -> bool:
  """Whether a caption has the word of every answer at its position."""
  words = caption.split()
  return all(words[a['position'] : a['position'] + 1] == [a['word']] for a in answers)


def attention_hits(
  weights: Mapping[str, np.ndarray], answers: Sequence[Mapping], attention_axes: Mapping[str, str]
) -> list[tuple[bool, float]]:
  """For each answer, whether the largest weight is on the truth, and the weight on the truth.

  Args:
    weights: attention -> (L, …, N), by word; with several rows of N, all have to hit. Weights are
      averaged from the word after the last answer on, since a model may attend before it names.
    answers: as in the truth file, in the order of their words.
    attention_axes: as in ``Tiny``. Answers that have none of these axes are left out.
  """
  results, begin = [], 0
  for answer in answers:
    words = slice(begin, answer['position'] + 1)
    begin = words.stop
    by_axis = [
      (_joint([weights[name][words] for name in names.split(' * ')]).mean(0), axis)
      for names, axis in attention_axes.items()
      if axis in answer['look']
    ]
    if by_axis:
      pairs = [(w, list(answer['look'][axis])) for w, axis in by_axis]
      hit = all(np.isin(w.argmax(-1), truth).all() for w, truth in pairs)
      results.append((hit, float(np.prod([w[..., truth].sum(-1).mean() for w, truth in pairs]))))
  return results


def _joint(weights: Sequence[np.ndarray]) -> np.ndarray:
  """Joint weights (…, N1 N2 …) of nested choices with weights (…, N1), (…, N2), …"""
  joint, *rest = weights
  for inner in rest:
    joint = (joint[..., :, None] * inner[..., None, :]).reshape(*joint.shape[:-1], -1)
  return joint


def fixed_frame_hits(truth: Mapping[str, Mapping], frame: int) -> float:
  """The share of the answers of test clips that a fixed frame shows."""
  clips = [clip for clip in truth.values() if clip['split'] == 'test']
  return float(np.mean([frame in a['look']['frames'] for c in clips for a in c['answers']]))


# ------------------------------------------------------------------------------ one model


def run(tiny: Tiny, data: str, workdir: pathlib.Path, seed: int) -> Measured:
  """Trains a model on a probe unless that is done, and measures it on the test split."""
  config = config_of(tiny)
  config.seed, config.data.dir = seed, data
  mesh = make_mesh()
  experiment.run(config, workdir, mesh)
  read = lambda stage: restore.restore(  # noqa: E731
    restore.find_checkpoint(str(workdir / 'checkpoints' / stage)), mesh
  )
  restored = read(tiny.stage or config.order[-1])
  truth = probes.read_truth(data)
  source = open_split(data, 'test')
  ids = [video.video_id for video in pipeline.read_texts(source)]
  weights: Iterable[tuple[str, Mapping[str, np.ndarray]]] = ()
  if tiny.branches:
    fused = rerank.fuse(restored, [read(stage) for stage in tiny.branches]).caption(source, ids)
    captions = {row['video_id']: row['caption'] for row in fused}
    # Where the branches differ, their choice is measured like an attention that all words share.
    one_hot = np.eye(len(tiny.branches))
    weights = (
      (row['video_id'], {'branch': np.tile(one_hot[row['run']], (probes.MAX_WORDS, 1))})
      for row in fused
      if len({c['caption'] for c in row['captions']}) > 1
    )
  else:
    captions = {c['video_id']: c['caption'] for c in captioning.captioner_of(restored)(source, ids)}
    if tiny.attention_axes:
      batches = captioning.batches_of(restored, source)
      weights = ((ids[i], of_video) for i, of_video in read_weights(restored, batches))
  correct = [is_correct(captions[video_id], truth[video_id]['answers']) for video_id in ids]
  hits = [
    hit
    for video_id, of_video in weights
    for hit in attention_hits(of_video, truth[video_id]['answers'], tiny.attention_axes)
  ]
  hit_rate, weight = np.mean(hits, axis=0) if hits else (None, None)
  return Measured(_number(np.mean(correct)), _number(hit_rate), _number(weight))


def _number(value) -> float | None:
  return None if value is None else float(value)


# ------------------------------------------------------------------------------ all trials


def measure(trial: Trial, seeds: Sequence[int], workdir: pathlib.Path) -> dict[str, list]:
  """Runs a trial on each seed: 'model' and 'baseline', lists of ``Measured``, and 'frame'."""
  results: dict[str, list] = {'model': [], 'baseline': [], 'frame': []}
  for seed in seeds:
    folder = workdir / trial.probe / f'seed_{seed}'
    data = probes.prepare(folder / 'data', trial.probe, seed)
    for side, tiny in (('model', trial.model), ('baseline', trial.baseline)):
      results[side].append(
        run(tiny, data, folder / (tiny.folder or tiny.label.replace(' ', '_')), seed)
      )
    if trial.frame is not None:
      results['frame'].append(fixed_frame_hits(probes.read_truth(data), trial.frame))
  return results


def rows(trial: Trial, results: Mapping[str, Sequence]) -> list[dict]:
  """The rows of a trial for ``--json``: means over the seeds, as fractions."""
  model, baseline = results['model'], results['baseline']
  hit_rate = _mean(m.hit_rate for m in model)
  table = [
    {
      'probe': trial.probe,
      'model': trial.model.label,
      'accuracy': _mean(m.accuracy for m in model),
      'baseline': trial.baseline.label,
      'baseline_accuracy': _mean(m.accuracy for m in baseline),
      'hit_rate': hit_rate,
      'chance': PROBES[trial.probe].chance,
    }
  ]
  if trial.frame is not None:
    guess = _mean(results['frame'])
    table.append(
      {
        'probe': f'{trial.probe}: key frame',
        'model': trial.model.label,
        'accuracy': hit_rate,
        'baseline': 'middle frame',
        'baseline_accuracy': guess,
        'hit_rate': hit_rate,
        'chance': guess,
      }
    )
  return table


def _mean(values) -> float | None:
  values = list(values)
  return None if None in values else float(np.mean(values))


def line(row: Mapping, results: Mapping[str, Sequence]) -> str:
  """A row as printed: in per cent, with the accuracy of each seed and a verdict."""
  percent = lambda x: '-' if x is None else f'{100 * x:.0f}'  # noqa: E731
  by_seed = [m.accuracy if row['probe'] in PROBES else m.hit_rate for m in results['model']]
  at_chance = abs(row['baseline_accuracy'] - row['chance']) <= NEAR_CHANCE
  verdict = 'solved' if row['accuracy'] >= SOLVED else 'NOT solved'
  verdict += ', baseline at chance' if at_chance else ', baseline not at chance'
  weight = percent(_mean(m.weight for m in results['model']))
  return (
    f'{row["probe"]:16} {row["model"]:25} {percent(row["accuracy"]):>3}'
    f' {"(" + "/".join(map(percent, by_seed)) + ")":14}'
    f' hit {percent(row["hit_rate"]):>3}  weight {weight:>3}  '
    f'{row["baseline"]:25} {percent(row["baseline_accuracy"]):>3}'
    f'  chance {percent(row["chance"]):>3}  {verdict}'
  )


def _known(
  parser: argparse.ArgumentParser, what: str, text: str, known: Sequence[str]
) -> list[str]:
  """The names in ``text``, separated by commas; exits if one is unknown."""
  names = text.split(',')
  if unknown := [name for name in names if name not in known]:
    parser.error(f'unknown {what} {", ".join(unknown)}; known: {", ".join(known)}')
  return names


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if a trial could not be run."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.probes',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  known = list(dict.fromkeys(trial.probe for trial in TRIALS))
  settings = list(dict.fromkeys(trial.settings for trial in TRIALS))
  numbers = lambda text: [int(part) for part in text.split(',')]  # noqa: E731
  add = parser.add_argument
  add('--probes', default=','.join(known), metavar='NAME[,…]', help='default: %(default)s')
  add('--settings', default=','.join(settings), metavar='NAME[,…]', help='default: %(default)s')
  add('--seeds', type=numbers, default='0,1,2', metavar='N[,…]', help='default: %(default)s')
  add('--workdir', metavar='DIR', help='keeps the runs (default: a temporary folder)')
  add_json(parser)
  args = parser.parse_args(argv)
  chosen = _known(parser, 'probe', args.probes, known)
  chosen_settings = _known(parser, 'settings', args.settings, settings)
  table, lines = [], []
  with tempfile.TemporaryDirectory() as temporary:
    workdir = pathlib.Path(args.workdir or temporary)
    for trial in TRIALS:
      if trial.probe in chosen and trial.settings in chosen_settings:
        results = measure(trial, args.seeds, workdir)
        new_rows = rows(trial, results)
        table += new_rows
        lines += [line(row, results) for row in new_rows]
  print('\n'.join(lines))
  if args.json:
    pathlib.Path(args.json).write_text(json.dumps(table, indent=1) + '\n')
  return 0


if __name__ == '__main__':
  sys.exit(main())
