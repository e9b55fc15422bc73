"""Sheets on which people compare or rate captions without knowing whose they are.

A sheet is a CSV file of a rater: a row for each video, its captions in a random order under the
letters A, B, …, and a column for each answer. The key, a JSON file of its own, has the runs behind
the letters.
"""

import csv
import dataclasses
import json
import pathlib
import random
import string
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax.counts import counted
from vidcap_jax.errors import ConfigError, DataError, first_few
from vidcap_jax.files import write_json
from vidcap_jax.studies.run_captions import RunCaptions

TASKS = ('compare', 'rate')
NEITHER = 'neither'
FORMULA_MARKS = ('=', '+', '-', '@')  # a spreadsheet reads a cell that begins so as a formula
_MOST_PROBLEMS = 10  # listed in an error


@dataclasses.dataclass(frozen=True)
class Questions:
  """What raters are asked about the captions of a video.

  Attributes:
    task: 'compare': which caption is best; 'rate': a number of points for each.
    criteria: such as relevance and coherence; every one is asked for.
    captions: of a video.
    points: the most that 'rate' gives; the fewest are 1.
  """

  task: str
  criteria: tuple[str, ...]
  captions: int
  points: int = 5

  def __post_init__(self):
    if self.task not in TASKS:
      raise ConfigError(f'--task={self.task}: known: {", ".join(TASKS)}')
    if not self.criteria or not all(name.isidentifier() for name in self.criteria):
      raise ConfigError(
        f'--criteria={",".join(self.criteria)}: names of letters, digits and _ expected'
      )
    if not 2 <= self.captions <= len(string.ascii_uppercase):
      raise ConfigError(f'--runs: 2 to 26 runs can be compared, got {self.captions}')
    if self.points < 2:
      raise ConfigError(f'--points={self.points}: at least 2')

  @property
  def letters(self) -> str:
    return string.ascii_uppercase[: self.captions]

  def columns(self) -> dict[str, tuple[str, ...]]:
    """Column of a sheet -> the answers that it may have."""
    if self.task == 'compare':
      return dict.fromkeys(self.criteria, (*self.letters, NEITHER))
    points = tuple(str(number) for number in range(1, self.points + 1))
    return {f'{name}_{letter}': points for name in self.criteria for letter in self.letters}


@dataclasses.dataclass(frozen=True)
class Item:
  """A row of a sheet: a video, and the runs behind the letters in their order."""

  number: int
  video_id: str
  runs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Key:
  """What turns answers into scores.

  Attributes:
    questions: that raters were asked.
    runs: label -> the file of its captions.
    items: rater -> rows of the sheet, in their order.
  """

  questions: Questions
  runs: Mapping[str, str]
  items: Mapping[str, Sequence[Item]]


@dataclasses.dataclass(frozen=True)
class Answer:
  """A rater's answer for a video and criterion.

  Attributes:
    run: whose caption is best, or ``NEITHER``; of 'rate' whose caption got the points.
    points: of 'rate'.
  """

  rater: str
  video_id: str
  criterion: str
  run: str
  points: int | None = None


def draw(
  runs: Sequence[RunCaptions], questions: Questions, *, videos: int, raters: int, seed: int
) -> Key:
  """Draws videos and, for each rater, their order and that of each video's captions.

  Args:
    runs: with captions of the same videos.
    questions: for the raters.
    videos: how many to draw.
    raters: how many sheets.
    seed: of the random numbers.

  Raises:
    ConfigError: more videos than the runs have, no videos or raters, or criteria whose columns
      the sheet has already.
  """
  _check_columns(questions)
  ids = sorted(runs[0].captions)
  if videos < 1:
    raise ConfigError(f'--videos={videos}: at least one')
  if videos > len(ids):
    raise ConfigError(f'--videos={videos}: the runs have captions of {counted(len(ids), "video")}')
  if raters < 1:
    raise ConfigError(f'--raters={raters}: at least one')
  rng = random.Random(seed)
  drawn = rng.sample(ids, videos)
  labels = [run.label for run in runs]
  if NEITHER in labels:
    raise ConfigError(f'--runs: the label {NEITHER!r} is an answer; name the run otherwise')
  items = {}
  for rater in range(1, raters + 1):
    order = rng.sample(drawn, videos)
    items[f'rater_{rater:02d}'] = [
      Item(number, video_id, tuple(rng.sample(labels, len(labels))))
      for number, video_id in enumerate(order, 1)
    ]
  return Key(questions, {run.label: str(run.path) for run in runs}, items)


def _check_columns(questions: Questions) -> None:
  """Raises ConfigError if a criterion is repeated or has the name of one of the sheet's columns."""
  for i, name in enumerate(questions.criteria):
    if name in questions.criteria[:i]:
      raise ConfigError(f'--criteria: {name} is given twice')
  for column in questions.columns():
    if column in ('rater', 'item', 'video_id') or column.startswith('caption_'):
      raise ConfigError(
        f'--criteria={",".join(questions.criteria)}: the sheet has a column {column} already; '
        'name the criterion otherwise'
      )


def as_text(cell: str) -> str:
  """A cell that spreadsheets do not run as a formula: those that could be are quoted."""
  return f"'{cell}" if cell.startswith(FORMULA_MARKS) else cell


def write_key(path: pathlib.Path, key: Key) -> None:
  """Writes the key as JSON."""
  write_json(path, dataclasses.asdict(key), ensure_ascii=False)


def read_key(path: str) -> Key:
  """Reads what ``write_key`` wrote.

  Raises:
    DataError: no such file, or one of another form.
  """
  try:
    saved = json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
    settings = saved['questions']
    questions = Questions(**{**settings, 'criteria': tuple(settings['criteria'])})
    items = {
      rater: [Item(row['number'], row['video_id'], tuple(row['runs'])) for row in rows]
      for rater, rows in saved['items'].items()
    }
    return Key(questions, saved['runs'], items)
  except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
    raise DataError(
      f'--key={path}: not the key.json of a drawing ({type(error).__name__}: {error})'
    ) from None


def header(questions: Questions) -> list[str]:
  """The columns of a sheet, in their order."""
  captions = [f'caption_{letter}' for letter in questions.letters]
  return ['rater', 'item', 'video_id', *captions, *questions.columns()]


def write_sheet(
  path: pathlib.Path, rater: str, key: Key, captions: Mapping[str, Mapping[str, str]]
) -> None:
  """Writes a rater's sheet with empty answers.

  Args:
    path: the CSV file.
    rater: of the key.
    key: of ``draw``.
    captions: run's label -> video id -> caption.
  """
  with path.open('w', encoding='utf-8', newline='') as file:
    writer = csv.writer(file)
    writer.writerow(header(key.questions))
    for item in key.items[rater]:
      texts = [as_text(captions[run][item.video_id]) for run in item.runs]
      answers = [''] * len(key.questions.columns())
      writer.writerow([rater, item.number, as_text(item.video_id), *texts, *answers])


def read_sheets(
  paths: Sequence[pathlib.Path], key: Key, *, allow_missing: bool = False
) -> list[Answer]:
  """Reads filled-in sheets; those without a single answer are left out.

  Args:
    paths: CSV files, one for each rater that answered.
    key: of the drawing.
    allow_missing: whether rows and answers may be missing.

  Raises:
    DataError: a sheet of no rater of the key, or two of one; missing, repeated, unknown or
      out-of-range rows and answers. Lists file and row of the first ones.
  """
  problems: list[str] = []
  answers: list[Answer] = []
  files: dict[str, pathlib.Path] = {}
  for path in paths:
    rows = _read_rows(path, key.questions)
    if not any(row[column] for _, row in rows for column in key.questions.columns()):
      continue  # as it was drawn: the rater has not answered
    raters = {row['rater'] for _, row in rows}
    rater = next(iter(raters), '')
    if len(raters) != 1 or rater not in key.items:
      raise DataError(
        f'{path}: column rater must have one name of the key in every row, has '
        f'{first_few(sorted(raters)) or "none"}'
      )
    if rater in files:
      raise DataError(f'{path}: a second sheet of {rater}, after {files[rater]}; leave one out')
    files[rater] = path
    answers += _read_answers(path, rater, rows, key, problems, allow_missing)
  if problems:
    shown = '\n'.join(f'  {problem}' for problem in problems[:_MOST_PROBLEMS])
    raise DataError(f'{len(problems)} problems in the sheets, first:\n{shown}', problems)
  return answers


def _read_rows(path: pathlib.Path, questions: Questions) -> list[tuple[int, dict[str, str]]]:
  """The rows of a CSV file with their line numbers."""
  try:
    text = path.read_text(encoding='utf-8-sig')
  except (OSError, UnicodeDecodeError) as error:
    raise DataError(f'{path}: {error}; save the sheet as CSV in UTF-8') from None
  first_line = text.partition('\n')[0]
  # Spreadsheets in some languages write semicolons.
  delimiter = ';' if first_line.count(';') > first_line.count(',') else ','
  reader = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter, restval='')
  needed = [name for name in header(questions) if not name.startswith('caption_')]
  if missing := [name for name in needed if name not in (reader.fieldnames or ())]:
    raise DataError(f'{path}: lacks the columns {", ".join(missing)}')
  rows = [(reader.line_num, {k: (row[k] or '').strip() for k in needed}) for row in reader]
  while rows and not any(rows[-1][1].values()):  # spreadsheets add rows of empty cells
    rows.pop()
  return rows


def _read_answers(
  path: pathlib.Path,
  rater: str,
  rows: Sequence[tuple[int, Mapping[str, str]]],
  key: Key,
  problems: list[str],
  allow_missing: bool,
) -> list[Answer]:
  """A sheet's answers; what is wrong is added to the problems."""
  items = {str(item.number): item for item in key.items[rater]}
  found: dict[str, int] = {}
  answers = []
  for line, row in rows:
    where = f'{path}, row {line}'
    item = items.get(row['item'])
    # Sheets written before cells were quoted have the id itself.
    if item is None or row['video_id'] not in (item.video_id, as_text(item.video_id)):
      problems.append(f'{where}: {rater} has no item {row["item"]!r}, video {row["video_id"]!r}')
    elif row['item'] in found:
      problems.append(f'{where}: item {row["item"]} is also in row {found[row["item"]]}')
    else:
      found[row['item']] = line
      answers += _answers_of_row(where, rater, item, row, key.questions, problems, allow_missing)
  absent = [number for number in items if number not in found]
  if absent and not allow_missing:
    problems.append(f'{path}: no rows of the items {first_few(absent)}')
  return answers


def _answers_of_row(
  where: str,
  rater: str,
  item: Item,
  row: Mapping[str, str],
  questions: Questions,
  problems: list[str],
  allow_missing: bool,
) -> list[Answer]:
  answers = []
  for column, allowed in questions.columns().items():
    value = row[column]
    # Letters may be typed in lower case; spreadsheets write 3.0 for 3.
    matching = [a for a in allowed if value.lower() in (a.lower(), f'{a}.0')]
    if not value and allow_missing:
      continue
    if not matching:
      wrong = f'has {value!r}' if value else 'is empty'
      problems.append(f'{where}: {column} {wrong}; one of: {", ".join(allowed)}')
    elif questions.task == 'compare':
      chosen = matching[0]
      run = NEITHER if chosen == NEITHER else item.runs[questions.letters.index(chosen)]
      answers.append(Answer(rater, item.video_id, column, run))
    else:
      criterion, _, letter = column.rpartition('_')
      run = item.runs[questions.letters.index(letter)]
      answers.append(Answer(rater, item.video_id, criterion, run, int(matching[0])))
  return answers


def sheet_files(places: Sequence[str]) -> list[pathlib.Path]:
  """The CSV files among the places, and those in the folders among them.

  Raises:
    DataError: a place is neither a file nor a folder with CSV files.
  """
  files: list[pathlib.Path] = []
  for place in places:
    path = pathlib.Path(place)
    found = [path] if path.is_file() else sorted(path.glob('*.csv'))
    if not found:
      raise DataError(f'--sheets={place}: no CSV file there')
    files += found
  return files


def as_rows(
  rater: str, key: Key, captions: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
  """A rater's items with their captions, for the page."""
  return [
    {
      'item': item.number,
      'video_id': item.video_id,
      'captions': [captions[run][item.video_id] for run in item.runs],
    }
    for item in key.items[rater]
  ]
