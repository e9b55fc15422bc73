"""What changes in training has a stated value in every stage and pass of every config."""

import functools
import itertools
import json
import pathlib
import re

import pytest

import configs
from vidcap_jax import config_files
from vidcap_jax.studies import schedules
from vidcap_jax.studies.passes import BASELINE, EVALUATION, SAMPLE, TRAINING, Pass
from vidcap_jax.variants import each_variant

FILES = configs.files()
FOLDER = pathlib.Path(configs.__file__).parent
# Settings that decide which passes there are; sizes, streams and Table 2's poolings don't.
PASS_SETTINGS = ('name', 'choice', 'sampler')


def sources(file):
  """All variants of a file, each with every recipe."""
  known = dict(config_files.load(FOLDER / file).VARIANTS)
  recipes = [f'recipe={recipe}' for recipe in known.pop('recipe', ())] or ['']
  for variant, recipe in itertools.product(each_variant(**known), recipes):
    yield f'{FOLDER / file}:{",".join(filter(None, (variant, recipe)))}'


@functools.cache
def observed(key: str) -> dict[str, Pass]:
  source, stage, _ = key.split('\n')
  config = schedules.trained_stages(config_files.load_config(source))[stage]
  return schedules.passes_of(source, config)


FIRST_OF: dict[str, str] = {}  # settings that decide passes -> the first stage that has them


def passes_of(source, stage, config) -> dict[str, Pass]:
  """The passes of a stage, observed once for all stages with the same settings."""
  model = {name: config.model.get(name) for name in PASS_SETTINGS}
  about = [model, bool(config.model.get('picks')), bool(config.model.dropout)]
  about += [config.objective.to_dict(), config.train.scheduled_sampling.name != 'off']
  settings = json.dumps(about, default=str)
  return observed(FIRST_OF.setdefault(settings, f'{source}\n{stage}\n{settings}'))


def check(source):
  """The rows of a config, checked; and what starts anew in it."""
  stages, table, problems = schedules.trained_stages(config_files.load_config(source)), [], []
  for stage, config in stages.items():
    passes = passes_of(source, stage, config)
    table += schedules.rows(stage, config, passes)
    problems += schedules.two_policies(stage, passes)
    learns_from_samples = config.objective.name == 'self_critical'
    expected = {SAMPLE if learns_from_samples else TRAINING, EVALUATION}
    assert {*passes} >= (set() if config.model.name == 'embedding' else expected)
    if learns_from_samples and config.objective.baseline == 'greedy':
      assert BASELINE in passes
  assert problems + schedules.unlike_evaluation(stages, table) == []
  return table, schedules.restarts(stages, table)


@pytest.mark.parametrize('file', FILES)
def test_every_stage_goes_on_where_the_one_before_it_ended(file):
  """Unless the config file says why not. Shown with pytest -s."""
  reasons = getattr(config_files.load(FOLDER / file), 'RESTARTS', {})
  restarted, printed = set(), set()
  for source in sources(file):
    table, anew = check(source)
    assert {*anew} <= {*reasons}, (source, anew)
    restarted |= {*anew}
    text = schedules.render(table)
    if text not in printed:
      print(f'\n{source}\n{text}')
    printed.add(text)
  assert restarted == {*reasons}, 'RESTARTS names what starts nowhere anew'


def values(table, stage, of, name):
  (row,) = (row for row in table if (row.stage, row.of, row.name) == (stage, of, name))
  return pytest.approx(row.values, rel=1e-3)


@pytest.mark.parametrize('source', ['configs/msvd_stats.py', 'configs/msrvtt_stats.py:variant=ts'])
def test_stats_goes_on_in_reinforcement(source):
  table, anew = check(source)
  assert anew == {}
  assert values(table, 'xe', TRAINING, 'temperature') == (1.0, 0.1, 0.01)
  for of in (TRAINING, SAMPLE, BASELINE, EVALUATION):
    assert values(table, 'rl', of, 'temperature') == (0.01, 0.01, 0.01)
  assert values(table, 'xe', EVALUATION, 'temperature') == (0.01, 0.01, 0.01)
  # 1 - 24 / (24 + exp(p / 24)) at epochs 0, 5, 9, 10, 15 and 19.
  assert values(table, 'xe', TRAINING, 'sampled words') == (0.04, 0.04881, 0.05716)
  assert values(table, 'rl', TRAINING, 'sampled words') == (0.05945, 0.07222, 0.08421)
  for stage in ('xe', 'rl'):
    assert values(table, stage, 'update', 'learning rate') == (1e-4, 1e-4, 1e-4)


def test_stats_by_cross_entropy_alone_is_annealed_over_all_epochs():
  table, _ = check('configs/msvd_stats.py:recipe=xe')
  assert values(table, 'xe', TRAINING, 'temperature') == (1.0, 0.1, 0.01)
  assert values(table, 'xe', TRAINING, 'sampled words') == (0.04, 0.05945, 0.08421)


def test_global2local_warms_up_and_falls():
  table, _ = check('configs/global2local.py')
  assert values(table, 'xe', 'update', 'learning rate') == (1e-7, 1e-4, 1e-6)
  choices = {row.of: row.values[0] for row in table if row.name == 'random choices'}
  assert choices == {TRAINING: 'gumbel', EVALUATION: 'none'}


def test_drawn_key_frames_are_a_random_choice():
  config = schedules.trained_stages(config_files.load_config('configs/msrvtt_refocus.py'))['joint']
  passes = {
    TRAINING: Pass(True, True, ('hidden', 'key_frame')), EVALUATION: Pass(False, False, ())
  }  # fmt: skip
  table = schedules.rows('joint', config, passes)
  choices = {row.of: row.values[0] for row in table if row.name == 'random choices'}
  assert choices == {TRAINING: 'key_frame', EVALUATION: 'none'}


# ---------------------------------------------------------------- what is refused


def two_stages(**train):
  """The stages of STaTS with reinforcement, which is changed."""
  stages = schedules.trained_stages(config_files.load_config('configs/msvd_stats.py'))
  stages['rl'].train.update(train)
  passes = {
    'xe': {TRAINING: Pass(True, True, ()), EVALUATION: Pass(False, False, ())},
    'rl': {SAMPLE: Pass(True, True, ()), TRAINING: Pass(True, True, ())},
  }
  return stages, [row for s in stages for row in schedules.rows(s, stages[s], passes[s])]


@pytest.mark.parametrize(
  ('train', 'name', 'where'),
  [
    ({'annealed': (0.0, 1.0)}, 'temperature', '0.01 at the end of xe, 1 at the start of rl'),
    ({'annealed': (0.5, 1.0)}, 'temperature', '0.01 at the end of xe, 0.1 at the start of rl'),
    ({'first_epoch': 0.0}, 'sampled words', '0.05945 at the end of xe, 0.04 at the start of rl'),
    (
      {'scheduled_sampling': {'name': 'off'}},
      'sampled words',
      '0.05945 at the end of xe, 0 at the start of rl',
    ),
  ],
)
def test_what_starts_anew_is_found(train, name, where):
  assert schedules.restarts(*two_stages(**train)) == {name: where}
  assert schedules.restarts(*two_stages()) == {}


def test_annealing_that_no_stage_ends_is_found():
  source = 'configs/msvd_stats.py:recipe=xe'
  stages = schedules.trained_stages(config_files.load_config(source))
  passes = {TRAINING: Pass(True, True, ()), EVALUATION: Pass(False, False, ())}
  assert schedules.unlike_evaluation(stages, schedules.rows('xe', stages['xe'], passes)) == []
  stages['xe'].train.annealed = (0.0, 0.5)
  (line,) = schedules.unlike_evaluation(stages, schedules.rows('xe', stages['xe'], passes))
  assert re.match('temperature: 0.1 at the end of xe, 0.01 in validation', line)


def test_samples_and_a_baseline_of_two_policies_are_found():
  sample, evaluated = Pass(True, True, ('word',)), Pass(False, False, ())
  assert schedules.two_policies('rl', {SAMPLE: sample, BASELINE: Pass(True, True, ())}) == []
  (line,) = schedules.two_policies('rl', {SAMPLE: sample, BASELINE: evaluated})
  assert 'rl' in line
  assert schedules.two_policies('xe', {TRAINING: sample, EVALUATION: evaluated}) == []


# ---------------------------------------------------------------- the command


def test_the_command(tmp_path, capsys):
  out = tmp_path / 'rows.json'
  schedules.main(['--config=configs/msrvtt1000.py:recipe=rl', f'--json={out}'])
  lines = capsys.readouterr().out.splitlines()
  assert lines[0].split() == ['stage', 'in', 'what', 'start', 'middle', 'end']
  assert [line for line in lines if line.startswith('starts anew: learning rate')]
  rows = json.loads(out.read_text())
  assert len(rows) == len([line for line in lines if line.startswith(('xe ', 'rl '))])
  assert {'stage': 'rl', 'of': SAMPLE, 'name': 'dropout', 'values': [0.2] * 3, 'after': 0.2} in rows


def test_the_command_fails_where_something_starts_anew_without_a_reason(tmp_path):
  file = tmp_path / 'mine.py'
  text = (FOLDER / 'msrvtt1000.py').read_text()
  file.write_text(text.replace('RESTARTS', 'OTHER'))
  with pytest.raises(SystemExit, match='error: learning rate: .*RESTARTS.*\nerror: dropout'):
    schedules.main([f'--config={file}:recipe=rl'])


def test_a_config_that_does_not_exist():
  with pytest.raises(SystemExit, match='error: --config=configs/nothing.py'):
    schedules.main(['--config=configs/nothing.py'])
