"""What training minimises, by name: ``config.objective.name``."""

from collections.abc import Callable, Mapping

from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.errors import ConfigError
from vidcap_jax.objectives import cross_entropy, multi_sample
from vidcap_jax.objectives.objective import Objective

# make(config, module, tokens_per_step), see ``make_objective``.
OBJECTIVES: Mapping[str, Callable[..., Objective]] = {
  'cross_entropy': cross_entropy.make,
  'multi_sample': multi_sample.make,
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
    ConfigError: an unknown objective.
  """
  name = config.objective.name
  if name not in OBJECTIVES:
    raise ConfigError(f'unknown objective.name {name!r}; known: {", ".join(OBJECTIVES)}')
  return OBJECTIVES[name](config, module, tokens_per_step)
