"""Every config file and variant builds, with its model and objective; nothing is compiled."""

import itertools
import pathlib

import pytest

import configs
from configs import common
from vidcap_jax import config_files, models
from vidcap_jax.errors import ConfigError
from vidcap_jax.features import extractors
from vidcap_jax.models.streams import select_streams
from vidcap_jax.objectives import make_objective
from vidcap_jax.studies import tables
from vidcap_jax.training.experiment import stage_config
from vidcap_jax.training.optimizer import make_optimizer, make_schedule

FILES = configs.files()
FOLDER = pathlib.Path(configs.__file__).parent
MODULES = {file: config_files.load(FOLDER / file) for file in FILES}
# Files that are the earlier name of another file's variant.
EARLIER_NAMES = [
  path.name for path in sorted(FOLDER.glob('*.py')) if '\nRENAMED_TO = ' in path.read_text()
]


def each(file):
  return common.each_variant(**MODULES[file].VARIANTS)


def combinations(file):
  known = MODULES[file].VARIANTS
  for values in itertools.product(*known.values()):
    yield ','.join(f'{name}={value}' for name, value in zip(known, values))


def stages(config):
  return [stage_config(config, stage) for stage in config.order]


def check(config, file, variant):
  """Model, objective and optimiser of every stage build, and the streams are what it needs."""
  assert config.is_locked
  streams, vocabulary = (
    config_files.for_variant(MODULES[file], name, variant) for name in ('STREAMS', 'VOCABULARY')
  )
  for stage in stages(config):
    module = models.build(stage.model, vocabulary, stage.train.dtype)
    select_streams(module.config.needs, streams, file)
    make_objective(stage, module, None)
    make_optimizer(stage.optimizer, make_schedule(stage.optimizer, 10, 100))


@pytest.mark.parametrize(('file', 'variant'), [(f, v) for f in FILES for v in each(f)])
def test_every_variant_builds(file, variant):
  check(MODULES[file].get_config(variant), file, variant)


@pytest.mark.parametrize(('file', 'variant'), [(f, v) for f in FILES for v in each(f)])
def test_every_variant_runs_locally(file, variant):
  config = MODULES[file].get_config(','.join(filter(None, [variant, 'runlocal'])))
  assert config.data.recipe.videos
  assert not config.data.dir
  kinds = {name: extractors.REGISTRY[e].kind for name, e in config.data.recipe.streams.items()}
  for stage in stages(config):
    needs = models.build(stage.model, 50, stage.train.dtype).config.needs
    for stream, allowed in needs.streams.items():
      assert kinds[stream] in allowed, stream


@pytest.mark.parametrize('file', FILES)
def test_variants_combine_or_are_refused(file):
  for variant in combinations(file):
    try:
      config = MODULES[file].get_config(variant)
    except ConfigError:
      continue  # parts that do not go together
    check(config, file, variant)


@pytest.mark.parametrize('file', FILES)
def test_unknown_variants_list_the_known(file):
  with pytest.raises(ConfigError) as error:
    MODULES[file].get_config('nonsense')
  for name, values in MODULES[file].VARIANTS.items():
    assert all(f'{name}={value}' in str(error.value) for value in values)
  assert 'runlocal' in str(error.value)


@pytest.mark.parametrize('file', FILES)
def test_the_docstring_has_the_command(file):
  assert f'vidcap train --config=configs/{file}' in MODULES[file].__doc__


@pytest.mark.parametrize('file', FILES)
def test_rows_of_published_tables_are_commands(file):
  rows = [r for paper in tables.papers() for t in tables.read(paper) for r in t.rows]
  for row in rows:
    if row.config and row.config.startswith(f'configs/{file}:'):
      variant = row.config.partition(':')[2]
      check(MODULES[file].get_config(variant), file, variant)


def test_files_are_listed_or_earlier_names_or_shared_code():
  rows = ('comparisons.py', 'refocus_rows.py', 'stats_rows.py', 'transformer_sizes.py')
  shared = {'__init__.py', 'common.py', *rows}
  assert {path.name for path in FOLDER.glob('*.py')} == {*FILES, *EARLIER_NAMES, *shared}


@pytest.mark.parametrize('file', EARLIER_NAMES)
def test_earlier_names_give_the_same_settings(file):
  current, _, part = config_files.current_source(str(FOLDER / file)).partition(':')
  module = config_files.load(current)
  earlier = config_files.load(FOLDER / file, ['get_config'])
  parts = [v for v in common.each_variant(**module.VARIANTS) if 'data=' not in v]
  for variant in (*parts, 'runlocal'):
    both = ','.join(filter(None, (part, variant)))
    assert earlier.get_config(variant).to_json() == module.get_config(both).to_json()
    assert config_files.current_source(f'{FOLDER / file}:{variant}') == f'{current}:{both}'
  assert earlier.get_config().to_json() == module.get_config(part).to_json()
  with pytest.raises(ConfigError, match='data=other'):
    earlier.get_config('data=other')
