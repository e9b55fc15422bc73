"""Models by name; ``captioner.py`` says what a model has to define.

A model outside the package is named as ``package.module:Class``; see docs/extending.md.
"""

import dataclasses
import typing
from collections.abc import Mapping

import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax import extensions
from vidcap_jax.config_section import unknown_key, unknown_name
from vidcap_jax.errors import ConfigError
from vidcap_jax.models import contract
from vidcap_jax.models.dual_afr import DualAFR, DualAFRConfig
from vidcap_jax.models.embedding import Embedding, EmbeddingConfig
from vidcap_jax.models.global2local import Global2Local, Global2LocalConfig
from vidcap_jax.models.refocus import Refocus, RefocusConfig
from vidcap_jax.models.stats import Stats, StatsConfig
from vidcap_jax.models.temporal_spatial import TemporalSpatial, TemporalSpatialConfig
from vidcap_jax.models.transformer import Transformer, TransformerConfig
from vidcap_jax.models.updown import UpDown, UpDownConfig

MODELS: Mapping[str, tuple[type, type[nn.Module]]] = {
  'dual_afr': (DualAFRConfig, DualAFR),
  'embedding': (EmbeddingConfig, Embedding),  # makes no captions
  'global2local': (Global2LocalConfig, Global2Local),
  'refocus': (RefocusConfig, Refocus),
  'stats': (StatsConfig, Stats),
  'temporal_spatial': (TemporalSpatialConfig, TemporalSpatial),
  'transformer': (TransformerConfig, Transformer),
  'updown': (UpDownConfig, UpDown),
}


def find(name: str) -> tuple[type, type[nn.Module]]:
  """Returns a model's config class and its module class.

  Args:
    name: a key of ``MODELS``, or ``package.module:Class`` of a Flax module whose field ``config``
      is annotated with its config class.

  Raises:
    ConfigError: there is no such model.
  """
  if name in MODELS:
    return MODELS[name]
  if not extensions.is_external(name):
    raise ConfigError(unknown_name('model.name', name, list(MODELS), 'package.module:Class'))
  module_type = extensions.load(name, 'model.name', ConfigError)
  if not (isinstance(module_type, type) and issubclass(module_type, nn.Module)):
    raise ConfigError(f'model.name {name!r}: not a Flax module (a subclass of nn.Module)')
  config_type = typing.get_type_hints(module_type).get('config')
  if not (isinstance(config_type, type) and dataclasses.is_dataclass(config_type)):
    raise ConfigError(
      f'model.name {name!r}: its field `config` must be annotated with a dataclass of its settings'
    )
  return config_type, module_type


def build(settings: Mapping, vocab_size: int, dtype: str = 'float32') -> nn.Module:
  """Builds the model that a config's ``model`` section describes.

  Args:
    settings: ``name`` (see ``find``) and the fields of that model's config.
    vocab_size: V, from the vocabulary.
    dtype: 'float32' or 'bfloat16' for the computation; parameters are float32.

  Raises:
    ConfigError: an unknown model, field or dtype; lists the known ones.
    ModelError: the model's classes break the contracts of ``captioner.py``.
  """
  fields = {k: tuple(v) if isinstance(v, list) else v for k, v in dict(settings).items()}
  name = fields.pop('name')
  config_type, module_type = find(name)
  if dtype not in ('float32', 'bfloat16'):
    raise ConfigError(f'unknown compute dtype {dtype!r}; known: float32, bfloat16')
  contract.check_classes(name, config_type, module_type)
  known = {f.name for f in dataclasses.fields(config_type)} - {'vocab_size', 'dtype', 'param_dtype'}
  if unknown := sorted(set(fields) - known):
    raise ConfigError(unknown_key('model', unknown[0], sorted(known), f'model {name!r}'))
  if missing := [
    f.name
    for f in dataclasses.fields(config_type)
    if f.name in known - {*fields} and f.default is f.default_factory is dataclasses.MISSING
  ]:
    raise ConfigError(f'config.model.{missing[0]} is not set; model {name!r} needs it')
  config = config_type(vocab_size=vocab_size, dtype=jnp.dtype(dtype), **fields)
  contract.check_needs(name, config)
  return module_type(config)
