"""Recurrent captioners are decoded with Eigen's products on CPUs, others with XLA's default."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.distributed import cpu_products
from vidcap_jax.distributed.cpu_products import decoder_options

RECURRENT = SimpleNamespace()
TRANSFORMER = SimpleNamespace(teacher_force=None)


def test_recurrent_captioners_use_eigen():
  options = decoder_options(None, RECURRENT)
  product = jax.jit(jnp.matmul, compiler_options=options)
  program = product.lower(jnp.ones((16, 32)), jnp.ones((32, 64))).compile().as_text()
  assert 'dot(' in program
  assert 'ynn' not in program


@pytest.mark.parametrize('modules', [[TRANSFORMER], [RECURRENT, TRANSFORMER]])
def test_transformers_use_the_default(modules):
  assert decoder_options(None, *modules) is None


def test_other_platforms_have_no_options():
  mesh = SimpleNamespace(devices=np.array([SimpleNamespace(platform='tpu')]))
  assert decoder_options(mesh, RECURRENT) is None


def test_a_jaxlib_without_the_option(monkeypatch):
  monkeypatch.setattr(cpu_products, '_EIGEN', {'xla_cpu_no_such_option': ''})
  cpu_products._can_choose.cache_clear()
  assert decoder_options(None, RECURRENT) is None
  cpu_products._can_choose.cache_clear()
