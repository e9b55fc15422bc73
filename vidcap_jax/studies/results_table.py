"""The tables of results as text, Markdown and JSON: one for each split of each data set."""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax import config_files
from vidcap_jax.errors import ConfigError
from vidcap_jax.studies import markdown, results_signatures, runs
from vidcap_jax.studies.results_baselines import Baselines
from vidcap_jax.studies.results_rows import Row, Timing
from vidcap_jax.studies.runs import Score

METRICS = {
  'BLEU_1': 'BLEU-1',
  'BLEU_4': 'BLEU-4',
  'METEOR': 'METEOR',
  'ROUGE_L': 'ROUGE-L',
  'CIDEr': 'CIDEr',
}
SWAPPED = 'CIDEr, swapped'
SEEDS_INTERVAL = 'CIDEr, 95 %'  # of the mean over seeds
# The columns of the table for a terminal; a page has those of scores and of costs in two tables.
COLUMNS = (
  *('run', 'recipe', 'stage', 'epochs', 'seeds', *METRICS.values(), SEEDS_INTERVAL, SWAPPED),
  *('captions/s', 'minutes', 'parameters'),
)
SCORES = ('run', 'stage', 'seeds', *METRICS.values(), SEEDS_INTERVAL, SWAPPED)
COSTS = ('run', 'recipe', 'stage', 'epochs', 'captions/s', 'minutes', 'parameters', 'hardware')
_TEXTS = ('run', 'recipe', 'stage', 'hardware')
TIMING = tuple(field.name for field in dataclasses.fields(Timing))
NO_MODEL = {
  'constant': 'best constant caption',
  'nearest': 'nearest-neighbour captions',
  'people': 'captions of people',
}


@dataclasses.dataclass(frozen=True)
class Line:
  """A line of a table.

  Attributes:
    kind: 'baseline', 'published' or 'run'.
    name, recipe, stage: texts; of a baseline what it is of.
    scores: metric -> score as a fraction.
    swapped: CIDEr with swapped features.
    row: of a run.
    seeds: that the scores are the mean of.
  """

  kind: str
  name: str
  recipe: str
  stage: str
  scores: Mapping[str, Score]
  swapped: float | None = None
  row: Row | None = None
  seeds: int = 0


@dataclasses.dataclass(frozen=True)
class Section:
  """The table of a split of a data set."""

  data: str
  data_hash: str
  split: str
  lines: tuple[Line, ...]

  @property
  def rows(self) -> list[Row]:
    """The rows of runs."""
    return [line.row for line in self.lines if line.row is not None]

  @property
  def title(self) -> str:
    """Its heading."""
    return f'{self.data or "unknown data"}, {self.split}'


def sections(rows: Sequence[Row], baselines: Baselines) -> list[Section]:
  """The tables; of each data set first the split that was validated on.

  Args:
    rows: of ``results_rows.find``.
    baselines: of the same rows.
  """
  made = []
  for name, data_hash in dict.fromkeys(row.members[0].data for row in rows):
    own = [row for row in rows if row.members[0].data == (name, data_hash)]
    splits = [member.config['data']['val_split'] for row in own for member in row.members]
    splits += [split for row in own for member in row.members for split in member.reports]
    for split in dict.fromkeys(splits):
      scored = [_of_run(row, split, baselines) for row in own if row.scored(split)]
      if scored:
        lines = (*_of_no_model(baselines, data_hash, split), *_published(own, split), *scored)
        made.append(Section(name, data_hash, split, lines))
  return made


def _of_no_model(baselines: Baselines, data_hash: str, split: str) -> list[Line]:
  lines = []
  for name, scores in baselines.fixed.get((data_hash, split), {}).items():
    kind, _, of = name.partition(': ')
    values = {metric: Score(value) for metric, value in scores.items()}
    lines.append(Line('baseline', NO_MODEL[kind], of, '', values))
  return lines


def _published(rows: Sequence[Row], split: str) -> list[Line]:
  """The rows that the config files of some runs have in PUBLISHED for a split."""
  lines: dict[tuple[str, str], Line] = {}
  for row in rows:
    try:
      path, _ = runs.source_of(row.members[0].config)
    except ConfigError:  # a config file of the user that is no longer there
      continue
    for published in config_files.published(path):
      if published['split'] == split:
        name, note = published['row'], published.get('note', '')
        scores = {metric: Score(value / 100) for metric, value in published['scores'].items()}
        lines[name, note] = Line('published', name, note, 'published', scores)
  return list(lines.values())


def _of_run(row: Row, split: str, baselines: Baselines) -> Line:
  key = (str(row.members[0].workdir), row.stage, split)
  swapped = baselines.swapped.get(key, {}).get('CIDEr')
  scored = row.scored(split)
  unfinished = '' if all(member.finished for member in scored) else ' (not finished)'
  name = row.name + unfinished
  return Line('run', name, row.recipe, row.stage, row.scores(split), swapped, row, len(scored))


def as_text(section: Section) -> str:
  """The table for a terminal."""
  cells = [_line_cells(line) for line in section.lines]
  columns = _used(COLUMNS, cells)
  rows = [dict(zip(columns, columns)), *cells]
  widths = {name: max(len(row[name]) for row in rows) for name in columns}
  lines = [
    '  '.join(
      row[name].ljust(widths[name]) if name in _TEXTS else row[name].rjust(widths[name])
      for name in columns
    )
    for row in rows
  ]
  about = f'{section.title} (per cent; data {section.data_hash[:12] or "unknown"})'
  made = results_signatures.summarise(section.rows, section.split)
  signed = [f'signature: {made.shared}'] if made.shared else []
  signed += [f'note: {note}' for note in made.notes]
  return '\n'.join(line.rstrip() for line in [about, *lines, *signed, *_hardware(section)])


def scores_markdown(section: Section) -> str:
  """The table of scores for a page, with its heading.

  The words of the best constant caption are left out: they are a caption of the data set, which may
  not be the page's to publish.
  """
  cells = [_line_cells(line) for line in section.lines]
  for line, row in zip(section.lines, cells):
    if line.row is None and line.recipe and line.name != NO_MODEL['constant']:
      row['run'] = f'{line.name}: {line.recipe}'
  about = f'Per cent; data set {section.data_hash[:12] or "of unknown hash"}.'
  parts = [f'### {section.title}', about, _markdown(SCORES, cells)]
  made = results_signatures.summarise(section.rows, section.split)
  if made.shared:
    parts.append(f'Signature: `{made.shared}`')
  parts += [f'Note: {markdown.escaped(note)}.' for note in made.notes]
  return '\n\n'.join(parts)


def costs_markdown(made: Sequence[Section]) -> str:
  """The table of time, size and hardware of the runs of some sections, with its heading."""
  rows = {
    (line.name, line.stage): _line_cells(line)
    for section in made
    for line in section.lines
    if line.row is not None
  }
  return f'### Time and size\n\n{_markdown(COSTS, list(rows.values()))}'


def _markdown(columns: Sequence[str], cells: Sequence[Mapping[str, str]]) -> str:
  columns = _used(columns, cells)
  rows = [[markdown.escaped(row[name]) for name in columns] for row in cells]
  left = [i for i, name in enumerate(columns) if name in _TEXTS]
  return markdown.table([columns, *rows], left)


def _used(columns: Sequence[str], cells: Sequence[Mapping[str, str]]) -> list[str]:
  """The columns that are not empty in all rows."""
  return [name for name in columns if any(row[name] for row in cells)]


def _line_cells(line: Line) -> dict[str, str]:
  """Column -> text."""
  cells = dict.fromkeys((*COLUMNS, 'hardware'), '')
  cells |= {'run': line.name, 'recipe': line.recipe, 'stage': line.stage}
  cells |= {name: _score(line.scores.get(metric)) for metric, name in METRICS.items()}
  if 'CIDEr' in line.scores and (ends := line.scores['CIDEr'].interval):
    cells[SEEDS_INTERVAL] = f'{100 * ends[0]:.1f} to {100 * ends[1]:.1f}'
  cells[SWAPPED] = '' if line.swapped is None else f'{100 * line.swapped:.1f}'
  if line.row is None:
    return cells
  row, member = line.row, line.row.members[0]
  seconds = row.mean('step_seconds')
  return cells | {
    'epochs': _number(row.mean('epochs'), 1),
    'seeds': str(line.seeds),
    'captions/s': _number(row.mean('captions_per_second'), 0),
    'minutes': _number(None if seconds is None else seconds / 60, 1),
    'parameters': '' if member.parameters is None else f'{member.parameters:,}',
    'hardware': member.hardware,
  }


def _score(score: Score | None) -> str:
  if score is None:
    return ''
  deviation = '' if score.deviation is None else f' ± {100 * score.deviation:.1f}'
  return f'{100 * score.value:.1f}{deviation}'


def _number(value: float | None, decimals: int) -> str:
  return '' if value is None else f'{value:.{decimals}f}'


def _hardware(section: Section) -> list[str]:
  """What the runs were trained on: one line for all, or one for each kind of hardware."""
  by_kind: dict[str, list[str]] = {}
  for row in section.rows:
    names = by_kind.setdefault(row.members[0].hardware or 'hardware not recorded', [])
    if row.name not in names:
      names.append(row.name)
  if len(by_kind) == 1:
    return [f'all on {kind}' for kind in by_kind if kind != 'hardware not recorded']
  return [f'{", ".join(names)}: {kind}' for kind, names in by_kind.items()]


def command(row: Row) -> str:
  """The command that trains a row, with the settings that flags changed.

  The data set is ``data/NAME`` and the workdir ``runs/NAME``: paths of this machine are left out.
  """
  config = row.members[0].config
  path, colon, variant = (config.get('source') or 'FILE').partition(':')
  source = f'configs/{pathlib.PurePath(path).name}{colon}{variant}'
  arguments = [f'--config={source}']
  if not row.made_own_data:
    arguments.append(f'--config.data.dir=data/{row.members[0].data[0] or "NAME"}')
  for key, value in changed_settings(config).items():
    arguments.append(f'--config.{key}={_flag_value(value)}')
  seeds = sorted(member.seed for member in row.members)
  if len(seeds) > 1:
    arguments.append(f'--config.seeds={",".join(map(str, seeds))}')
  elif seeds != [0]:
    arguments.append(f'--config.seed={seeds[0]}')
  return ' '.join(map(_quoted, ['vidcap', 'train', *arguments, f'--workdir=runs/{row.name}']))


def _quoted(argument: str) -> str:
  """An argument for a shell; shlex would give one with single quotes in it three kinds of them."""
  if "'" in argument and not re.search(r'["$`\\!]', argument):
    return f'"{argument}"'
  return shlex.quote(argument)


def _flag_value(value: Any) -> str:
  """A setting as a flag has it; an absolute path as one below ``runs``, as it may be a run's."""
  if not isinstance(value, str):
    return repr(tuple(value) if isinstance(value, list) else value)
  path = pathlib.PurePath(value)
  if not path.is_absolute():
    return value
  *_, folder, name = path.parts
  return f'runs/{folder}/{name}' if name.startswith('seed_') else f'runs/{name}'


def changed_settings(saved: Mapping[str, Any]) -> dict[str, Any]:
  """Setting -> value, of those that differ from a run's config file; {} if that is not there.

  Args:
    saved: the run's config.json.
  """
  try:
    path, variant = runs.source_of(saved)
    current = config_files.load(path, ('get_config',)).get_config(variant)
    return {key: now for key, (_, now) in runs.changed_settings(current, saved).items()}
  except runs.UNREADABLE:
    return {}


def as_json(made: Sequence[Section]) -> list[dict[str, Any]]:
  """The tables for programs; scores are fractions, times seconds."""
  return [
    {
      'data': section.data,
      'data_hash': section.data_hash,
      'split': section.split,
      'rows': [_line_json(line, section.split) for line in section.lines],
    }
    for section in made
  ]


def _line_json(line: Line, split: str) -> dict[str, Any]:
  entry: dict[str, Any] = {
    'kind': line.kind,
    'name': line.name,
    'recipe': line.recipe,
    'stage': line.stage,
    'scores': {name: dataclasses.asdict(score) for name, score in line.scores.items()},
  }
  if line.row is None:
    return entry
  row = line.row
  return entry | {
    'swapped_CIDEr': line.swapped,
    'seeds': [member.seed for member in row.members],
    'intervals': [member.intervals(split) for member in row.members],
    'signatures': [member.signature(split) for member in row.members],
    'workdirs': [str(member.workdir) for member in row.members],
    'finished': all(member.finished for member in row.members),
    'timing': {name: row.mean(name) for name in TIMING},
    'parameters': row.members[0].parameters,
    'hardware': row.members[0].hardware,
    'changed': changed_settings(row.members[0].config),
    'command': command(row),
  }
