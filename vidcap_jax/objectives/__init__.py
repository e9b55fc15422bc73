"""What training minimises, by name: ``config.objective.name``.

An objective outside the package is named as ``package.module:make``; see docs/extending.md.
"""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any

from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax import extensions
from vidcap_jax.config_section import read_section, unknown_name
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.objectives import cross_entropy, embedding, multi_sample, refocus, self_critical
from vidcap_jax.objectives.objective import Objective


@dataclasses.dataclass(frozen=True)
class Entry:
  """An objective before it is made.

  Attributes:
    make: (settings, config, module, tokens_per_step) -> ``Objective``; the parameter ``settings``
      is annotated with a dataclass, whose fields are the keys of ``config.objective``.
    captions: whether it trains models that make captions, or else models that make none; None:
      both.
  """

  make: Callable[..., Objective]
  captions: bool | None = True

  @property
  def settings_type(self) -> type | None:
    """The dataclass of its settings; None if ``make`` names none."""
    found = typing.get_type_hints(self.make).get('settings')
    return found if isinstance(found, type) and dataclasses.is_dataclass(found) else None


OBJECTIVES: Mapping[str, Entry] = {
  'cross_entropy': Entry(cross_entropy.make),
  'multi_sample': Entry(multi_sample.make),
  'refocus': Entry(refocus.make),
  'self_critical': Entry(self_critical.make),
  'embedding': Entry(embedding.make, captions=False),
}


def find(name: str) -> Entry:
  """An objective by its name: a key of ``OBJECTIVES``, or ``package.module:make``.

  Raises:
    ConfigError: there is no such objective, or its ``make`` does not say what settings it has.
  """
  if name in OBJECTIVES:
    return OBJECTIVES[name]
  if not extensions.is_external(name):
    raise ConfigError(unknown_name('objective.name', name, list(OBJECTIVES), 'package.module:make'))
  entry = Entry(extensions.load(name, 'objective.name', ConfigError), captions=None)
  if entry.settings_type is None:
    raise ConfigError(
      f'objective.name {name!r}: annotate its parameter `settings` with a dataclass, whose fields '
      'are the keys of config.objective'
    )
  return entry


def make_objective(
  config: ConfigDict, module: nn.Module, tokens_per_step: float | None
) -> Objective:
  """The objective that a config names.

  Args:
    config: a stage's.
    module: the model.
    tokens_per_step: what every batch's sum over words is divided by; None: its own word count.

  Raises:
    ConfigError: an unknown objective, a setting that it does not have, or one for models of
      another kind.
  """
  name = config.objective.name
  entry = find(name)
  if entry.captions is not None and entry.captions != is_captioner(module):
    fitting = ', '.join(k for k, e in OBJECTIVES.items() if e.captions == is_captioner(module))
    raise ConfigError(
      f'objective.name {name!r} does not fit model {config.model.name!r}, which makes '
      f'{"" if is_captioner(module) else "no "}captions; set objective.name to: {fitting}'
    )
  assert entry.settings_type is not None
  owner = f'objective {name!r}'
  settings: Any = read_section(entry.settings_type, config.objective, 'objective', owner)
  return entry.make(settings, config, module, tokens_per_step)
