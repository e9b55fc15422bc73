"""Mistakes in a config file are found before any work is done, and named in one line."""

import json
import re

import pytest

from vidcap_jax.training import experiment

HEAD = 'from configs import common\n\n\ndef get_config(variant=""):\n  c = common.base()\n'
RECIPE = '  c.data.recipe.videos = 12\n  common.temporal_spatial(c)\n'


class Recipe:
  """Fails the test that gets as far as rendering clips."""

  def prepare(self, *_):
    raise AssertionError('settings are checked before clips are rendered')


@pytest.fixture
def write(tmp_path):
  def write_file(*lines, text=HEAD + RECIPE, end='  return c.lock()\n'):
    path = tmp_path / 'own.py'
    path.write_text(text + ''.join(f'  {line}\n' for line in lines) + end)
    return f'--config={path}'

  return write_file


@pytest.fixture
def refused(command, monkeypatch, tmp_path):
  """The error of training and of --print_config, which must be the same."""
  from vidcap_jax.api import training

  monkeypatch.setattr(training, 'recipe_of', lambda config: Recipe())

  def run(*arguments):
    errors = []
    for more in ('--print_config', f'--workdir={tmp_path / "work"}'):
      code, out, err = command(*arguments, more)
      assert (code, out) == (1, ''), (out, err)
      assert err.startswith('error: ')
      assert err.count('\n') == 1
      errors.append(err)
    assert errors[0] == errors[1]
    assert not (tmp_path / 'work' / 'data').exists()
    return errors[0]

  return run


@pytest.mark.parametrize(
  ('line', 'message'),
  [
    # Sections that are replaced, and locks that are opened.
    ("c.eval = {'metrik': 'CIDEr'}", 'own.py: config.eval.metrik: .*eval.metric'),
    (
      "c.optimizer = {'name': 'adam', 'learning_rat': 1.0}",
      'config.optimizer.learning_rat: .*_rate',
    ),
    ("c.train = {'epochs': '3'}", "config.train.epochs: .*float.*'3' .*str"),
    ('c.unlock(); c.train.label_smooting = 0.1', 'config.train.label_smooting: .*label_smoothing'),
    ('c.unlock(); c.trian = 1', 'config.trian: '),
    # Types.
    ("c.train.epochs = '3'", "own.py, line 8: .*'epochs'.*float.*str"),
    ("c.model = {'name': 'temporal_spatial', 'hidden': '3'}", 'config.model.hidden: .*int.*str'),
    ("c.objective = {'name': 'multi_sample', 'draws': '3'}", 'config.objective.draws: .*int.*str'),
    # A section that does not exist.
    ('c.trian.epochs = 3', "own.py, line 8: c.trian.*'trian'.*mean train"),
    ("c['optimiser']['name'] = 'adam'", "own.py, line 8: .*'optimiser'.*mean optimizer"),
    ('c.train = 3', "own.py, line 8: .*'train'.*section"),
    # Stages, whether they run or not.
    (
      "c.stages = {'xe': {'optimizer': {'learning_rat': 1e-3}}}",
      'config.stages.xe.optimizer.learning_rat: .*mean optimizer.learning_rate',
    ),
    ("c.stages.xe.train = {'epochs': 'three'}", 'config.stages.xe.train.epochs: .*float'),
    (
      "c.stages.rl = {'objective': {'name': 'self_criticl'}}",
      "'rl'.*objective.name.*self_critical",
    ),
    ("c.stages.rl = {'trian': {}}", 'config.stages.rl.trian: .*train'),
    ("c.stages.rl = {'task': 'trian'}", "'rl'.*task 'trian'"),
    ("c.stages.rl = {'task': 'fuse'}", "'rl'.*fuse.embedding"),
    ('c.stages.rl = 3', 'config.stages.rl: .*section'),
    # Names, and keys of models and objectives.
    ("c.model.name = 'temporal_spacial'", 'model.name.*mean temporal_spatial.*known: dual_afr'),
    ("c.model.temporal_strams = ('a',)", 'config.model.temporal_strams: .*model.temporal_streams'),
    ("c.objective.name = 'cross_entrpy'", 'objective.name.*mean cross_entropy'),
    ("c.optimizer.name = 'adm'", 'optimizer.name.*mean adam'),
    ("c.optimizer.schedule.name = 'cosin'", 'optimizer.schedule.name.*mean cosine'),
    ("c.decode.method = 'beem'", "decode.method 'beem'.*beam"),
    ("c.eval.metrics = ('CIDER',)", 'eval.metrics.*CIDER.*known'),
    ("c.eval.metric = 'CIDErr'", 'eval.metric .CIDErr'),
    ("c.train.scheduled_sampling.name = 'linaer'", 'scheduled_sampling.*linaer'),
    (
      "c.data.length_buckets = (); c.objective = {'name': 'self_critical', 'from_scratch': True, "
      "'rewards': {'cidr': 1.0}}",
      'objective.rewards cidr',
    ),
    ("c.runtime.matmul_precision = 'hihg'", 'matmul_precision=.hihg'),
    ("c.mesh.params = 'shraded'", 'mesh.params .shraded'),
    ("c.mesh.optimizer = 'shraded'", 'mesh.optimizer .shraded'),
    ('c.train.epochs = -1.0', 'train.epochs=-1.0'),
  ],
)
def test_mistakes_in_a_config_file(line, message, write, refused):
  assert re.search(message, refused(write(line)))


@pytest.mark.parametrize(
  'lines',
  [
    ["c.mesh = {'data': -1}", "c.decode = {'beam': 3}", "c.eval = {'metric': 'CIDEr'}"],
    ["c.optimizer = {'name': 'adam', 'learning_rate': 1}", "c.train = {'epochs': 3}"],
  ],
)
def test_a_section_that_is_replaced_keeps_its_other_keys(lines, write, command, monkeypatch):
  found = []
  monkeypatch.setattr(experiment, 'run', lambda config, *_: found.append(config))
  assert command(write(*lines), '--workdir=anywhere')[0] == 0
  assert command(write(), '--workdir=anywhere')[0] == 0
  changed, plain = (json.loads(config.to_json()) for config in found)
  assert changed.keys() == plain.keys()
  for section in ('mesh', 'decode', 'eval', 'optimizer', 'train'):
    assert changed[section].keys() == plain[section].keys()
    types = {key: type(value) for key, value in plain[section].items()}
    assert {key: type(value) for key, value in changed[section].items()} == types


@pytest.mark.parametrize(
  ('text', 'end', 'message'),
  [
    (HEAD, '', 'own.py.*get_config'),
    (HEAD, '  return 3\n', 'own.py.*get_config.*int'),
    ('X = 3\n', '', 'own.py.*get_config'),
    ('def get_config():\n', '  return int("many")\n', "own.py, line 2: .*'many'"),
  ],
)
def test_files_that_give_no_config(text, end, message, write, refused):
  assert re.search(message, refused(write(text=text, end=end)))


@pytest.mark.parametrize(
  ('flags', 'section', 'values'),
  [
    (['model.spatial_stream=cells'], 'model', {'spatial_stream': 'cells'}),
    (['model.hidden=8', 'model.temporal_streams=a,b'], 'model', {'hidden': 8}),
    (['model.name=stats', 'model.dropout=0.1'], 'model', {'dropout': 0.1}),
    (
      ['objective.name=self_critical', 'noobjective.count_eos', 'objective.collapse.steps=5'],
      'objective',
      {'count_eos': False},
    ),
  ],
)
def test_flags_change_defaults_that_the_file_does_not_set(
  flags, section, values, write, command, monkeypatch
):
  found = []
  monkeypatch.setattr(experiment, 'run', lambda config, *_: found.append(config[section].to_dict()))
  flags = [f'--noconfig.{f[2:]}' if f.startswith('no') else f'--config.{f}' for f in flags]
  path = write('c.model = {"name": "temporal_spatial"}')
  code, _, err = command(path, *flags, '--workdir=anywhere')
  assert (code, err) == (0, '')
  assert command(path, '--workdir=anywhere')[0] == 0
  given, plain = found
  assert {key: given[key] for key in values} == values
  assert list(plain) == ['name']  # config.json has no defaults that nobody changed


def test_flags_change_defaults_of_a_stage(write, command, monkeypatch):
  """Of its own model or objective; one that the stage does not name is the config's."""
  found = []
  monkeypatch.setattr(experiment, 'run', lambda config, *_: found.append(config.stages.to_dict()))
  path = write(
    "c.model = {'name': 'refocus'}; c.stages.xe = {'model': {'passes': 2},"
    " 'objective': {'name': 'refocus', 'beta': 0.1}}"
  )
  flags = ('objective.reward_baseline=batch_mean', 'model.sampler=categorical')
  flags = [f'--config.stages.xe.{flag}' for flag in flags]
  code, _, err = command(path, *flags, '--workdir=anywhere')
  assert (code, err) == (0, '')
  assert command(path, '--workdir=anywhere')[0] == 0
  given, plain = found
  assert plain == {'xe': {'model': {'passes': 2}, 'objective': {'name': 'refocus', 'beta': 0.1}}}
  assert given['xe']['model'] == {'passes': 2, 'sampler': 'categorical'}
  assert given['xe']['objective'] == plain['xe']['objective'] | {'reward_baseline': 'batch_mean'}
  code, _, err = command(path, '--config.stages.xe.objective.reward_basline=x', '--print_config')
  assert code == 1
  assert re.search('reward_basline: .*stages.xe.objective.reward_baseline', err)


def test_a_misspelt_default_is_refused_with_those_alike(write, command):
  path = write('c.model = {"name": "temporal_spatial"}')
  code, _, err = command(path, '--config.model.spatial_straem=x', '--print_config')
  assert code == 1
  assert re.search('--config.model.spatial_straem: .*model.spatial_stream', err)


def test_print_config_lists_no_stage_without_changes(write, command):
  code, out, err = command(write("c.stages.xe = {'data': {'threads': 1}}"), '--print_config')
  assert (code, err) == (0, '')
  rows = re.findall(r'^    in (.*)', out, re.MULTILINE)
  assert [row.split() for row in rows] == [['xe', '1']]


def test_an_earlier_name_of_a_file_has_one_data_set(command):
  arguments = ('--config=configs/msvd_dual_afr.py:data=msrvtt', '--print_config')
  code, _, err = command(*arguments)
  assert code == 1
  assert re.search('msvd_dual_afr.py.*data=msrvtt.*configs/dual_afr.py:data=msrvtt', err)
