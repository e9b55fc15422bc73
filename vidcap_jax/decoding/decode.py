"""Checks the ``decode`` section of a config, and generates captions as it says."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from flax import linen as nn

from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.beam_banks import check_groups
from vidcap_jax.decoding.constraints import Constraints
from vidcap_jax.decoding.traced_sampling import TracedSampling
from vidcap_jax.decoding.unroll import Captions, Sampling, greedy, sample, uniform_draws
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner, Inputs

Array = jax.Array
METHODS = ('beam', 'greedy', 'sample')
# Checkpoints from before these settings were added are decoded with these values.
# Settings that only a restored checkpoint may have, for analyses (--decode=pass=first): ``pass`` is
# the reading of the video that is decoded, of a model that reads it several times.
CHECKPOINT_SETTINGS = {'pass': 'last'}
PASSES = ('first', 'last')
MOST_SAMPLES = 10_000  # of a video
DEFAULTS_FOR_OLD_CHECKPOINTS = {'n_best': 1, 'groups': 1, 'diversity': 0.5, 'force': ()}


def check_decode(settings: Mapping) -> None:
  """Raises ConfigError for settings that are invalid or contradict each other."""
  method, most = settings['method'], {'beam': settings['beam'], 'greedy': 1}
  if method not in METHODS:
    raise ConfigError(f'unknown decode.method {method!r}; known: {", ".join(METHODS)}')
  for name, least in (('beam', 1), ('min_length', 0), ('no_repeat_ngram', 0), ('n_best', 1)):
    if settings[name] < least:
      raise ConfigError(f'decode.{name} must be at least {least}, got {settings[name]}')
  for name in ('length_penalty', 'diversity', 'temperature', 'top_p'):
    if not math.isfinite(settings[name]):
      raise ConfigError(f'decode.{name}={settings[name]}: not a finite number')
  if settings['n_best'] > most.get(method, settings['n_best']):
    raise ConfigError(
      f'decode.n_best={settings["n_best"]}: method {method!r} makes {most[method]} of a video at '
      "most; raise decode.beam, or set decode.method to 'sample'"
    )
  if settings.get('pass', 'last') not in PASSES:
    raise ConfigError(f'unknown decode.pass {settings["pass"]!r}; known: {", ".join(PASSES)}')
  grouped = settings['groups'] > 1
  if method != 'beam' and (grouped or settings['force']):
    raise ConfigError(f"decode.groups and decode.force need decode.method 'beam', not {method!r}")
  if grouped and settings['force']:
    raise ConfigError("decode.force and decode.groups can't be combined; leave one of them out")
  check_groups(settings['beam'], settings['groups'], settings['diversity'])
  Sampling(settings['temperature'], settings['top_k'], settings['top_p'])


def check_width(settings: Mapping, V: int) -> None:
  """Raises ConfigError for more hypotheses or samples than a vocabulary of V words needs."""
  if settings['beam'] > V:
    raise ConfigError(
      f"decode.beam={settings['beam']}: at most {V}, the size of the model's vocabulary (several "
      'captions of a beam search need as wide a beam)'
    )
  most = max(V, MOST_SAMPLES)
  if settings['n_best'] > most:
    raise ConfigError(f'decode.n_best={settings["n_best"]}: at most {most} captions of a video')


def check_pass(settings: Mapping, module: nn.Module) -> None:
  """Raises ConfigError if the first pass is to be decoded of a model without passes."""
  if settings.get('pass', 'last') == 'first' and not getattr(module.config, 'passes', 0):
    raise ConfigError(
      f'decode.pass=first: a {type(module).__name__} with these settings does not read a video in '
      'passes, as a refocus model with model.passes 1 or 2 does; leave the setting out'
    )


def encode(captioner: Captioner, inputs: Inputs, settings: Mapping) -> Any:
  """The memory of videos as it is decoded: after the pass that ``settings['pass']`` names."""
  memory = captioner.encode(inputs, None, train=False)
  return memory.first_pass() if settings.get('pass', 'last') == 'first' else memory


def decode(
  captioner: Captioner,
  memory: Any,
  L: int,
  settings: Mapping,
  key: Array,
  rows: Array,
  forced: Sequence[int] = (),
) -> Captions:
  """Generates captions (B, n_best, L) of videos, best first; samples are in no order.

  Args:
    memory: from ``captioner.encode``.
    settings: a config's ``decode`` section, in which ``length_penalty``, or all settings of
      sampling, may be arrays () instead, so that one compiled program serves all values.
    key, rows: for samples, see ``uniform_draws``.
    forced: ids of the words in ``settings['force']``.
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
      n_best=settings['n_best'],
      constraints=constraints,
      groups=settings['groups'],
      diversity=settings['diversity'],
      forced=forced,
    )
  if settings['method'] == 'greedy':
    return greedy(captioner, memory, L, constraints=constraints)
  draws = uniform_draws(key, rows, settings['n_best'], L)
  values = (settings['temperature'], settings['top_k'], settings['top_p'])
  sampling = (TracedSampling if isinstance(values[0], Array) else Sampling)(*values)
  return sample(captioner, memory, draws, sampling=sampling, constraints=constraints)
