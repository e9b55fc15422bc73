"""Recurrent captioners are decoded with Eigen's products on CPUs, and some are trained with it."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax import models
from vidcap_jax.distributed import cpu_products
from vidcap_jax.distributed.cpu_products import decoder_options, step_options

RECURRENT = SimpleNamespace()
TRANSFORMER = SimpleNamespace(teacher_force=None)


@pytest.mark.parametrize(
  'options', [decoder_options(None, RECURRENT), step_options(None, 'temporal_spatial')]
)
def test_recurrent_captioners_use_eigen(options):
  product = jax.jit(jnp.matmul, compiler_options=options)
  program = product.lower(jnp.ones((16, 32)), jnp.ones((32, 64))).compile().as_text()
  assert 'dot(' in program
  assert 'ynn' not in program


@pytest.mark.parametrize('modules', [[TRANSFORMER], [RECURRENT, TRANSFORMER]])
def test_transformers_use_the_default(modules):
  assert decoder_options(None, *modules) is None


def test_models_that_are_trained_with_eigen_exist():
  assert set(cpu_products._TRAINED_WITH_EIGEN) < set(models.MODELS)


@pytest.mark.parametrize('model', ['stats', 'dual_afr', 'transformer'])
def test_models_whose_training_it_slows_down_use_the_default(model):
  assert step_options(None, model) is None


def test_other_platforms_have_no_options():
  mesh = SimpleNamespace(devices=np.array([SimpleNamespace(platform='tpu')]))
  assert decoder_options(mesh, RECURRENT) is None
  assert step_options(mesh, 'refocus') is None


def test_a_jaxlib_without_the_option(monkeypatch):
  monkeypatch.setattr(cpu_products, '_EIGEN', {'xla_cpu_no_such_option': ''})
  cpu_products._can_choose.cache_clear()
  assert decoder_options(None, RECURRENT) is None
  cpu_products._can_choose.cache_clear()
