"""What training minimises, by name: ``config.objective.name``.

An objective outside the package is named as ``package.module:make``; see docs/extending.md.
"""

from collections.abc import Callable, Mapping

from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax import extensions
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.objectives import cross_entropy, embedding, multi_sample, refocus, self_critical
from vidcap_jax.objectives.objective import Objective

# make(config, module, tokens_per_step), see ``make_objective``.
OBJECTIVES: Mapping[str, Callable[..., Objective]] = {
  'cross_entropy': cross_entropy.make,
  'multi_sample': multi_sample.make,
  'refocus': refocus.make,
  'self_critical': self_critical.make,
  'embedding': embedding.make,
}


def make_objective(
  config: ConfigDict, module: nn.Module, tokens_per_step: float | None
) -> Objective:
  """The objective that a config names.

  Args:
    config: a stage's.
    module: the model.
    tokens_per_step: what every batch's sum over words is divided by; None: its own word count.

  Raises:
    ConfigError: an unknown objective, or one for models of another kind.
  """
  name = config.objective.name
  if extensions.is_external(name):
    make = extensions.load(name, 'objective.name', ConfigError)
    return make(config, module, tokens_per_step)
  if name not in OBJECTIVES:
    raise ConfigError(
      f'unknown objective.name {name!r}; known: {", ".join(OBJECTIVES)}, or package.module:make'
    )
  if is_captioner(module) == (name == 'embedding'):
    raise ConfigError(
      f'objective.name {name!r} does not fit model {config.model.name!r}: objective embedding '
      'trains model embedding, the others train models that make captions'
    )
  return OBJECTIVES[name](config, module, tokens_per_step)
