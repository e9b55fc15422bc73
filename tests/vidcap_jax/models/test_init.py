"""Models are built from a section of a config."""

import jax.numpy as jnp
import pytest

from vidcap_jax import models

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V, H, E, P, A = 11, 8, 6, 7, 5


def test_build_takes_a_config_section():
  settings = {'name': 'temporal_spatial', 'hidden': 3, 'global_streams': ['image']}
  module = models.build(settings, V, 'bfloat16')
  assert module.config.global_streams == ('image',)
  assert (module.config.vocab_size, module.config.hidden) == (V, 3)
  assert (module.config.dtype, module.config.param_dtype) == (jnp.bfloat16, jnp.float32)
  assert settings['name'] == 'temporal_spatial'  # the caller's config is left alone
