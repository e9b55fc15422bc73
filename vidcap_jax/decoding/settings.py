"""The ``decode`` section of a config: checked, and carried out."""

from collections.abc import Mapping
from typing import Any

import jax

from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.constraints import Constraints
from vidcap_jax.decoding.unroll import Captions, Sampling, greedy, sample, uniform_draws
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner

Array = jax.Array
METHODS = ('beam', 'greedy', 'sample')


def check_decode(settings: Mapping) -> None:
  """ConfigError for decoding settings that make no sense, before anything is computed."""
  method, most = settings['method'], {'beam': settings['beam'], 'greedy': 1}
  if method not in METHODS:
    raise ConfigError(f'unknown decode.method {method!r}; known: {", ".join(METHODS)}')
  for name, least in (('beam', 1), ('min_length', 0), ('no_repeat_ngram', 0), ('n_best', 1)):
    if settings.get(name, least) < least:
      raise ConfigError(f'decode.{name} must be at least {least}, got {settings[name]}')
  if n_best(settings) > most.get(method, n_best(settings)):
    raise ConfigError(
      f'decode.n_best={n_best(settings)}: method {method!r} makes {most[method]} of a video at '
      "most; raise decode.beam, or set decode.method to 'sample'"
    )
  Sampling(settings['temperature'], settings['top_k'], settings['top_p'])


def n_best(settings: Mapping) -> int:
  """Captions of a video; 1 in checkpoints that do not say."""
  return settings.get('n_best', 1)


def decode(
  captioner: Captioner, memory: Any, L: int, settings: Mapping, key: Array, rows: Array
) -> Captions:
  """Captions (B, n_best, L) of videos, best first; samples in no order.

  Args:
    memory: from ``captioner.encode``.
    settings: a config's ``decode`` section.
    key, rows: of samples, whose randomness is each video's own: see ``uniform_draws``.
  """
  constraints = Constraints(
    min_length=settings['min_length'], no_repeat_ngram=settings['no_repeat_ngram']
  )
  if settings['method'] == 'beam':
    return beam_search(
      captioner,
      memory,
      L,
      settings['beam'],
      length_penalty=settings['length_penalty'],
      n_best=n_best(settings),
      constraints=constraints,
    )
  if settings['method'] == 'greedy':
    return greedy(captioner, memory, L, constraints=constraints)
  draws = uniform_draws(key, rows, n_best(settings), L)
  sampling = Sampling(settings['temperature'], settings['top_k'], settings['top_p'])
  return sample(captioner, memory, draws, sampling=sampling, constraints=constraints)
