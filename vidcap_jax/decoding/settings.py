"""The ``decode`` section of a config."""

from collections.abc import Mapping

from vidcap_jax.decoding.unroll import Sampling
from vidcap_jax.errors import ConfigError

METHODS = ('beam', 'greedy', 'sample')


def check_decode(settings: Mapping) -> None:
  """ConfigError for decoding settings that make no sense, before anything is computed."""
  if settings['method'] not in METHODS:
    raise ConfigError(f'unknown decode.method {settings["method"]!r}; known: {", ".join(METHODS)}')
  for name, least in (('beam', 1), ('min_length', 0), ('no_repeat_ngram', 0)):
    if settings[name] < least:
      raise ConfigError(f'decode.{name} must be at least {least}, got {settings[name]}')
  Sampling(settings['temperature'], settings['top_k'], settings['top_p'])
