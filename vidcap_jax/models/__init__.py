"""Models, by name. Those that make captions keep the interface of ``captioner.py``."""

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.dual_afr import DualAFR, DualAFRConfig
from vidcap_jax.models.embedding import Embedding, EmbeddingConfig
from vidcap_jax.models.global2local import Global2Local, Global2LocalConfig
from vidcap_jax.models.refocus import Refocus, RefocusConfig
from vidcap_jax.models.stats import Stats, StatsConfig
from vidcap_jax.models.temporal_spatial import TemporalSpatial, TemporalSpatialConfig

MODELS: Mapping[str, tuple[type, type[nn.Module]]] = {
  'dual_afr': (DualAFRConfig, DualAFR),
  'embedding': (EmbeddingConfig, Embedding),  # no captioner
  'global2local': (Global2LocalConfig, Global2Local),
  'refocus': (RefocusConfig, Refocus),
  'stats': (StatsConfig, Stats),
  'temporal_spatial': (TemporalSpatialConfig, TemporalSpatial),
}


def build(settings: Mapping, vocab_size: int, dtype: str = 'float32') -> nn.Module:
  """The model that a config's ``model`` section describes.

  Args:
    settings: ``name`` and the fields of that model's config.
    vocab_size: V, from the vocabulary.
    dtype: 'float32' or 'bfloat16' for the computation; parameters are float32.

  Raises:
    ConfigError: an unknown model, field or dtype, naming those known.
  """
  fields = {k: tuple(v) if isinstance(v, list) else v for k, v in dict(settings).items()}
  name = fields.pop('name')
  if name not in MODELS:
    raise ConfigError(f'unknown model.name {name!r}; known: {", ".join(MODELS)}')
  if dtype not in ('float32', 'bfloat16'):
    raise ConfigError(f'unknown compute dtype {dtype!r}; known: float32, bfloat16')
  config_type, module_type = MODELS[name]
  known = {f.name for f in dataclasses.fields(config_type)} - {'vocab_size', 'dtype', 'param_dtype'}
  if unknown := sorted(set(fields) - known):
    raise ConfigError(
      f'model {name!r} has no setting {", ".join(unknown)}; it has: {sorted(known)}'
    )
  config = config_type(vocab_size=vocab_size, dtype=jnp.dtype(dtype), **fields)
  return module_type(config)
