"""Sheets for raters: blind, random, and read back without a silent loss."""

import csv
import json
import pathlib
from collections import Counter

import pytest

from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.studies import human_sheets
from vidcap_jax.studies.human_sheets import Questions
from vidcap_jax.studies.run_captions import RunCaptions

IDS = [f'v{i}' for i in range(40)]
CRITERIA = ('relevance', 'coherence')


def run(label, ids=IDS):
  return RunCaptions(label, pathlib.Path(f'{label}.json'), {i: f'{label} of {i}' for i in ids})


RUNS = [run('baseline'), run('soft')]
CAPTIONS = {each.label: each.captions for each in RUNS}


def drawn(task='compare', videos=10, raters=3, seed=0, runs=RUNS):
  questions = Questions(task, CRITERIA, len(runs))
  return human_sheets.draw(runs, questions, videos=videos, raters=raters, seed=seed)


def filled(folder, key, rater, answer):
  """A rater's sheet; ``answer`` maps (item, column) to the answer."""
  path = folder / f'{rater}.csv'
  human_sheets.write_sheet(path, rater, key, CAPTIONS)
  with path.open(newline='') as file:
    rows = list(csv.DictReader(file))
  for row, item in zip(rows, key.items[rater], strict=True):
    row.update({column: answer(item, column) for column in key.questions.columns()})
  save(path, rows)
  return path


def save(path, rows):
  with path.open('w', newline='') as file:
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)


def changed(path, index, **values):
  """Changes a row of a sheet."""
  with path.open(newline='') as file:
    rows = list(csv.DictReader(file))
  rows[index].update(values)
  save(path, rows)


def prefers(label):
  """Answers that always prefer one run."""
  return lambda item, column: 'AB'[item.runs.index(label)]


# ---------------------------------------------------------------- drawing


def test_every_rater_gets_the_same_videos_in_another_order():
  key = drawn(videos=20)
  orders = [[item.video_id for item in items] for items in key.items.values()]
  assert len({frozenset(order) for order in orders}) == 1
  assert len(set(orders[0])) == 20
  assert len(set(map(tuple, orders))) == 3
  assert drawn(videos=20) == key
  assert drawn(videos=20, seed=1) != key
  places = Counter(item.runs.index('soft') for items in key.items.values() for item in items)
  assert min(places[0], places[1]) > 15  # of 60


def test_a_sheet_does_not_name_the_runs(tmp_path):
  key = drawn()
  path = tmp_path / 'rater_01.csv'
  human_sheets.write_sheet(
    path, 'rater_01', key, {label: dict.fromkeys(IDS, 'x') for label in CAPTIONS}
  )
  text = path.read_text()
  assert not any(label in text for label in CAPTIONS)
  assert text.splitlines()[0].split(',') == human_sheets.header(key.questions)


def test_the_key_is_read_back(tmp_path):
  key = drawn('rate')
  human_sheets.write_key(tmp_path / 'key.json', key)
  assert human_sheets.read_key(str(tmp_path / 'key.json')) == key
  (tmp_path / 'other.json').write_text(json.dumps({'questions': {}}))
  with pytest.raises(DataError, match='--key=.*other.json'):
    human_sheets.read_key(str(tmp_path / 'other.json'))


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'videos': 41}, '--videos=41: .*40'),
    ({'videos': 0}, '--videos=0: .*one'),
    ({'raters': 0}, '--raters=0'),
    ({'runs': [run('neither'), run('b')]}, "'neither'"),
    ({'runs': [run('a')]}, '--runs: .*1'),
    ({'task': 'rank'}, '--task=rank: .*compare, rate'),
  ],
)
def test_what_cannot_be_drawn(changes, message):
  with pytest.raises(ConfigError, match=message):
    drawn(**changes)


@pytest.mark.parametrize(
  ('task', 'criteria', 'message'),
  [
    ('compare', ('good', 'item'), 'item'),
    ('compare', ('caption_A',), 'caption_A'),
    ('rate', ('caption',), 'caption_A'),
    ('compare', ('good', 'good'), 'good .*twice'),
  ],
)
def test_criteria_that_are_refused(task, criteria, message):
  with pytest.raises(ConfigError, match=f'--criteria.*{message}'):
    human_sheets.draw(RUNS, Questions(task, criteria, 2), videos=1, raters=1, seed=0)


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize('mark', human_sheets.FORMULA_MARKS)
def test_cells_are_no_formulas_and_are_read_back(mark, tmp_path):
  video_id = f'{mark}1+1'
  runs = [run(label, [video_id]) for label in CAPTIONS]
  key = drawn(videos=1, raters=1, runs=runs)
  path = tmp_path / 'rater_01.csv'
  captions = {each.label: {video_id: f'{mark}cmd()'} for each in runs}
  human_sheets.write_sheet(path, 'rater_01', key, captions)
  with path.open(newline='') as file:
    cells = [cell for row in csv.reader(file) for cell in row]
  assert not any(cell.startswith(human_sheets.FORMULA_MARKS) for cell in cells)
  assert f"'{mark}cmd()" in cells
  changed(path, 0, relevance='A', coherence='B')
  answers = human_sheets.read_sheets([path], key)
  assert [answer.video_id for answer in answers] == [video_id] * 2
  changed(path, 0, video_id=video_id)  # as sheets had it before
  assert human_sheets.read_sheets([path], key) == answers


def test_rows_of_empty_cells_at_the_end_are_skipped(tmp_path):
  key = drawn()
  path = filled(tmp_path, key, 'rater_01', prefers('soft'))
  answers = human_sheets.read_sheets([path], key)
  commas = ',' * (len(human_sheets.header(key.questions)) - 1)
  path.write_text(path.read_text() + f'{commas}\n{commas}\n')
  assert human_sheets.read_sheets([path], key) == answers


def test_preferences_are_read_as_runs(tmp_path):
  key = drawn()
  path = filled(tmp_path, key, 'rater_02', prefers('soft'))
  changed(path, 0, relevance='neither', coherence=key.items['rater_02'][0].runs[0])
  changed(path, 0, coherence='ab'[0])  # lower case
  answers = human_sheets.read_sheets([path], key)
  first, others = answers[:2], answers[2:]
  assert [answer.run for answer in first] == ['neither', key.items['rater_02'][0].runs[0]]
  assert {answer.run for answer in others} == {'soft'}
  assert len(answers) == 10 * len(CRITERIA)


def test_points_are_read_for_each_run(tmp_path):
  key = drawn('rate')
  points = {'baseline': '2', 'soft': '5.0'}  # as a spreadsheet may write it
  path = filled(
    tmp_path, key, 'rater_01', lambda item, column: points[item.runs['AB'.index(column[-1])]]
  )
  answers = human_sheets.read_sheets([path], key)
  assert {(answer.run, answer.points) for answer in answers} == {('baseline', 2), ('soft', 5)}
  assert len(answers) == 10 * 2 * len(CRITERIA)


def test_semicolons_of_a_spreadsheet(tmp_path):
  key = drawn()
  path = filled(tmp_path, key, 'rater_01', prefers('soft'))
  expected = human_sheets.read_sheets([path], key)
  path.write_text('\ufeff' + path.read_text().replace(',', ';'))
  assert human_sheets.read_sheets([path], key) == expected


def test_a_sheet_without_an_answer_is_left_out(tmp_path):
  key = drawn()
  paths = [filled(tmp_path, key, rater, prefers('soft')) for rater in ('rater_01', 'rater_02')]
  human_sheets.write_sheet(tmp_path / 'rater_03.csv', 'rater_03', key, CAPTIONS)
  found = human_sheets.sheet_files([str(tmp_path)])
  assert found == [*paths, tmp_path / 'rater_03.csv']
  answers = human_sheets.read_sheets(found, key)
  assert {answer.rater for answer in answers} == {'rater_01', 'rater_02'}


@pytest.mark.parametrize(
  ('values', 'message'),
  [
    ({'relevance': ''}, 'rater_01.csv, row 5: relevance is empty; .*A, B, neither'),
    ({'coherence': 'C'}, "rater_01.csv, row 5: coherence has 'C'; .*A, B, neither"),
    ({'item': '2', 'video_id': None}, 'rater_01.csv, row 5: item 2 .* row 3'),
    ({'item': '11'}, "rater_01.csv, row 5: rater_01 has no item '11'"),
    ({'video_id': 'other'}, "row 5: .*'other'"),
  ],
)
def test_wrong_answers_name_file_and_row(values, message, tmp_path):
  key = drawn()
  path = filled(tmp_path, key, 'rater_01', prefers('soft'))
  if values.get('item') == '2':
    values = {**values, 'video_id': key.items['rater_01'][1].video_id}
  changed(path, 3, **values)
  with pytest.raises(DataError, match=message):
    human_sheets.read_sheets([path], key)


def test_points_out_of_range(tmp_path):
  key = drawn('rate')
  path = filled(tmp_path, key, 'rater_01', lambda item, column: '3')
  for value in ('0', '6', '2.5'):
    changed(path, 0, relevance_B=value)
    with pytest.raises(DataError, match=f"row 2: relevance_B has '{value}'; .*1, 2, 3, 4, 5"):
      human_sheets.read_sheets([path], key)


def test_missing_rows_and_answers_may_be_allowed(tmp_path):
  key = drawn()
  path = filled(tmp_path, key, 'rater_01', prefers('soft'))
  changed(path, 0, relevance='')
  lines = path.read_text().splitlines()
  path.write_text('\n'.join(lines[:-2]) + '\n')
  with pytest.raises(DataError, match='2 problems(.|\n)*row 2(.|\n)*items 9, 10'):
    human_sheets.read_sheets([path], key)
  assert len(human_sheets.read_sheets([path], key, allow_missing=True)) == 8 * 2 - 1


def test_sheets_of_nobody_and_two_of_one(tmp_path):
  key = drawn()
  path = filled(tmp_path, key, 'rater_01', prefers('soft'))
  copy = tmp_path / 'copy.csv'
  copy.write_text(path.read_text())
  with pytest.raises(DataError, match=r'copy.csv: .*rater_01.*rater_01.csv'):
    human_sheets.read_sheets([path, copy], key)
  copy.write_text(path.read_text().replace('rater_01', 'rater_09'))
  with pytest.raises(DataError, match='copy.csv: .*rater_09'):
    human_sheets.read_sheets([copy], key)
  copy.write_text('rater,item\nrater_01,1\n')
  with pytest.raises(DataError, match='copy.csv: .*video_id, relevance, coherence'):
    human_sheets.read_sheets([copy], key)
  with pytest.raises(DataError, match='--sheets=.*nowhere'):
    human_sheets.sheet_files([str(tmp_path / 'nowhere')])
