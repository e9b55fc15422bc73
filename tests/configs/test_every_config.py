"""Every config file and variant builds, with its model and objective; nothing is compiled."""

import importlib
import itertools

import pytest

import configs
from configs import common
from vidcap_jax import models
from vidcap_jax.errors import ConfigError
from vidcap_jax.features import extractors
from vidcap_jax.models.streams import select_streams
from vidcap_jax.objectives import make_objective
from vidcap_jax.studies import tables
from vidcap_jax.training.experiment import stage_config
from vidcap_jax.training.optimizer import make_optimizer, make_schedule

FILES = configs.files()
MODULES = {file: importlib.import_module(f'configs.{file.removesuffix(".py")}') for file in FILES}


def each(file):
  return common.each_variant(**MODULES[file].VARIANTS)


def combinations(file):
  known = MODULES[file].VARIANTS
  for values in itertools.product(*known.values()):
    yield ','.join(f'{name}={value}' for name, value in zip(known, values))


def stages(config):
  return [stage_config(config, stage) for stage in config.order]


def check(config, file, streams):
  """Model, objective and optimiser of every stage build, and the streams are what it needs."""
  assert config.is_locked
  for stage in stages(config):
    module = models.build(stage.model, MODULES[file].VOCABULARY, stage.train.dtype)
    select_streams(module.config.needs, streams, file)
    make_objective(stage, module, None)
    make_optimizer(stage.optimizer, make_schedule(stage.optimizer, 10, 100))


@pytest.mark.parametrize(('file', 'variant'), [(f, v) for f in FILES for v in each(f)])
def test_every_variant_builds(file, variant):
  check(MODULES[file].get_config(variant), file, MODULES[file].STREAMS)


@pytest.mark.parametrize(('file', 'variant'), [(f, v) for f in FILES for v in each(f)])
def test_every_variant_has_a_rehearsal(file, variant):
  config = MODULES[file].get_config(','.join(filter(None, [variant, 'runlocal'])))
  assert config.data.recipe.videos
  assert not config.data.dir
  kinds = {name: extractors.REGISTRY[e].kind for name, e in config.data.recipe.streams.items()}
  for stage in stages(config):
    needs = models.build(stage.model, 50, stage.train.dtype).config.needs
    for stream, allowed in needs.streams.items():
      assert kinds[stream] in allowed, stream


@pytest.mark.parametrize('file', FILES)
def test_variants_combine_or_say_why_not(file):
  for variant in combinations(file):
    try:
      config = MODULES[file].get_config(variant)
    except ConfigError:
      continue  # parts that do not go together
    check(config, file, MODULES[file].STREAMS)


@pytest.mark.parametrize('file', FILES)
def test_unknown_variants_list_the_known(file):
  with pytest.raises(ConfigError) as error:
    MODULES[file].get_config('nonsense')
  for name, values in MODULES[file].VARIANTS.items():
    assert all(f'{name}={value}' in str(error.value) for value in values)
  assert 'runlocal' in str(error.value)


@pytest.mark.parametrize('file', FILES)
def test_the_docstring_tells_the_command(file):
  assert f'python -m vidcap_jax.main --config=configs/{file}' in MODULES[file].__doc__


@pytest.mark.parametrize('file', FILES)
def test_rows_of_published_tables_are_commands(file):
  rows = [r for paper in tables.papers() for t in tables.read(paper) for r in t.rows]
  for row in rows:
    if row.config and row.config.startswith(f'configs/{file}:'):
      check(MODULES[file].get_config(row.config.partition(':')[2]), file, MODULES[file].STREAMS)
