"""What changes during training: its value in every stage and every pass of a config.

  vidcap studies schedules --config=configs/msvd_stats.py
  vidcap studies schedules --config=configs/msrvtt1000.py:model=refocus --json=FILE

prints the learning rate, the share of sampled words, what the model anneals and its random numbers,
at the start, in the middle and at the end of every stage: in training, in the samples of
self-critical training and their greedy baseline, in validation and in prediction. Nothing is
trained, and no data is read: values come from the functions that training calls, and the passes
from tracing it.

It ends with an error if samples and their baseline are of two distributions, if something starts a
stage with another value than it had at the end of the stage that ``train.init_from`` names, or if
annealing ends at another value than evaluation has. A config file in which something is to start
anew says why: RESTARTS, a dictionary from its name.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vidcap_jax import command_arguments, command_errors, config_files, models
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.files import check_output
from vidcap_jax.objectives.cross_entropy import own_word_ratio, read_sampling
from vidcap_jax.program_name import program_name
from vidcap_jax.studies.passes import BASELINE, EVALUATION, PASSES, SAMPLE, TRAINING, Pass, observe
from vidcap_jax.training.experiment import stage_config
from vidcap_jax.training.optimizer import make_schedule
from vidcap_jax.training.step import epoch_at, progress_at

STEPS_PER_EPOCH = 1000  # assumed; values by epoch do not depend on it
LEARNING_RATE, SAMPLED_WORDS = 'learning rate', 'sampled words'
_ANY_SIZE = 100  # of the vocabulary
_LEAST = 1e-9  # a smaller number is printed as 0
# Names of random numbers that are no dropout masks.
CHOICES = {'gumbel', 'key_frame', 'layer', 'position'}


@dataclasses.dataclass(frozen=True)
class Row:
  """A line of the table.

  Attributes:
    stage: its name.
    of: 'update', or the name of a pass.
    name: of what may change.
    values: at the first, the middle and the last step of the stage.
    after: the value that the step after the last one would have: where another stage is to go on.
  """

  stage: str
  of: str
  name: str
  values: tuple[float | str, float | str, float | str]
  after: float | str


def rows(stage: str, config: ConfigDict, passes: Mapping[str, Pass]) -> list[Row]:
  """The rows of a stage of training.

  Args:
    stage: its name.
    config: its own, see ``experiment.stage_config``.
    passes: of ``passes.observe``.
  """
  total = max(1, round(config.train.epochs * STEPS_PER_EPOCH))
  steps: list[Any] = [np.int32(step) for step in (0, total // 2, total - 1, total)]
  schedule = make_schedule(config.optimizer, STEPS_PER_EPOCH, total)
  found = [_row(stage, 'update', LEARNING_RATE, (schedule(step) for step in steps))]
  model = models.build(config.model, _ANY_SIZE, config.train.dtype).config
  settings_at: Callable = getattr(model, 'settings_at', lambda progress, train: {})
  has_choices = any({*own.noise} & CHOICES for own in passes.values())
  for name, own in sorted(passes.items(), key=lambda item: PASSES.index(item[0])):
    if name == TRAINING:
      found.append(_row(stage, name, SAMPLED_WORDS, (_sampled_words(config, s) for s in steps)))
    progress = [progress_at(config, s, total) if own.annealed else None for s in steps]
    settings = [settings_at(x, train=own.train) for x in progress]
    found += [_row(stage, name, key, (s[key] for s in settings)) for key in settings[0]]
    masks, choices = {*own.noise} - CHOICES, sorted({*own.noise} & CHOICES)
    found.append(_row(stage, name, 'dropout', [model.dropout if masks else 0.0] * 4))
    if has_choices:
      found.append(_row(stage, name, 'random choices', [', '.join(choices) or 'none'] * 4))
  return found


def _row(stage: str, of: str, name: str, values: Iterable[Any]) -> Row:
  first, middle, last, after = (v if isinstance(v, str) else float(v) for v in values)
  return Row(stage, of, name, (first, middle, last), after)


def _sampled_words(config: ConfigDict, step: Any) -> float:
  """The share of words of given captions that the model reads as sampled by itself."""
  ratio = own_word_ratio(read_sampling(config), epoch_at(config, step, STEPS_PER_EPOCH))
  return 0.0 if ratio is None else float(ratio)


def two_policies(stage: str, passes: Mapping[str, Pass]) -> list[str]:
  """A line if samples and their greedy baseline come from two distributions."""
  if not {SAMPLE, BASELINE} <= {*passes}:
    return []
  ways = [(passes[name].annealed, passes[name].train) for name in (SAMPLE, BASELINE)]
  if ways[0] == ways[1]:
    return []
  return [f'stage {stage}: samples and their greedy baseline differ in (progress, train): {ways}']


def restarts(stages: Mapping[str, ConfigDict], table: Sequence[Row]) -> dict[str, str]:
  """Name of what starts a stage with another value than it had before -> where, and the values.

  Args:
    stages: the config of each stage of training.
    table: the rows of all of them.
  """
  found: dict[str, str] = {}
  for stage, config in stages.items():
    before = config.train.init_from.removeprefix('stage:')
    if before == config.train.init_from or before not in stages:
      continue
    for row in table:
      if row.stage != stage or row.of in (BASELINE, EVALUATION):
        continue
      ends = [r.after for r in table if r.stage == before and _same(r, row)]
      if ends and not _equal(ends[0], row.values[0]):
        end, start = _text(ends[0]), _text(row.values[0])
        found[row.name] = f'{end} at the end of {before}, {start} at the start of {stage}'
  return found


def unlike_evaluation(stages: Mapping[str, ConfigDict], table: Sequence[Row]) -> list[str]:
  """A line for each setting of the model that no stage brings to the value of evaluation."""
  continued = {config.train.init_from.removeprefix('stage:') for config in stages.values()}
  found = []
  for row in table:
    if row.of not in (TRAINING, SAMPLE) or row.stage in continued or row.name == 'dropout':
      continue
    evaluated = [
      r.after for r in table if (r.stage, r.of, r.name) == (row.stage, EVALUATION, row.name)
    ]
    if evaluated and isinstance(row.after, float) and not _equal(evaluated[0], row.after):
      end, other = _text(row.after), _text(evaluated[0])
      found.append(f'{row.name}: {end} at the end of {row.stage}, {other} in {EVALUATION}')
  return found


def _equal(one: float | str, other: float | str) -> bool:
  if isinstance(one, str) or isinstance(other, str):
    return one == other
  return math.isclose(one, other, rel_tol=1e-5, abs_tol=_LEAST)


def _same(one: Row, other: Row) -> bool:
  """Whether two rows are of one quantity; a stage of samples goes on from one of training."""
  as_trained = lambda row: TRAINING if row.of == SAMPLE else row.of  # noqa: E731
  return (as_trained(one), one.name) == (as_trained(other), other.name)


def trained_stages(config: ConfigDict) -> dict[str, ConfigDict]:
  """The configs of a run's stages of training, by name."""
  stages = {name: stage_config(config, name) for name in config.order}
  return {name: own for name, own in stages.items() if own.task == 'train'}


def passes_of(source: str, config: ConfigDict) -> dict[str, Pass]:
  """The passes of a stage, from STREAMS and VOCABULARY of its config file.

  Raises:
    UserError: the file lacks them, or they don't fit the model.
  """
  return observe(make_stage(config, data_sizes.from_config_file(source, config), make_mesh()))


def render(table: Sequence[Row]) -> str:
  """The rows as text."""
  head = ('stage', 'in', 'what', 'start', 'middle', 'end')
  cells = [head, *((r.stage, r.of, r.name, *(_text(v) for v in r.values)) for r in table)]
  widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
  return '\n'.join('  '.join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells)


def _text(value: float | str) -> str:
  if isinstance(value, str):
    return value
  return '0' if abs(value) < _LEAST else f'{value:.4g}'


def report(source: str) -> tuple[list[Row], list[str], list[str]]:
  """All rows of a config; why what starts anew does so; and what is wrong.

  Args:
    source: FILE or FILE:VARIANT.

  Raises:
    UserError: no such file, an unknown variant, or settings that don't fit together.
  """
  stages = trained_stages(config_files.load_config(source))
  file = config_files.current_source(source).partition(':')[0]
  reasons = getattr(config_files.load(file, ['get_config']), 'RESTARTS', {})
  table: list[Row] = []
  notes: list[str] = []
  problems: list[str] = []
  for name, config in stages.items():
    passes = passes_of(source, config)
    table += rows(name, config, passes)
    problems += two_policies(name, passes)
  problems += unlike_evaluation(stages, table)
  for name, where in restarts(stages, table).items():
    if name in reasons:
      notes.append(f'{name}: {where}: {reasons[name]}')
    else:
      problems.append(f'{name}: {where}; RESTARTS of the config file does not say why')
  return table, notes, problems


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.schedules'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--config', required=True, metavar='FILE[:VARIANT]')
  parser.add_argument('--json', metavar='FILE', help='also write the rows there')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  if options.json:
    check_output('--json', options.json)
  table, notes, problems = report(options.config)
  print(render(table))
  for note in notes:
    print(f'starts anew: {note}')
  if options.json:
    content = json.dumps([dataclasses.asdict(row) for row in table], indent=1)
    pathlib.Path(options.json).write_text(content + '\n')
  if problems:
    sys.exit('\n'.join(f'error: {problem}' for problem in problems))


if __name__ == '__main__':
  main()
