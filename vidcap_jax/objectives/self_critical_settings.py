"""The settings of reinforcement, and what of them makes no sense."""

import dataclasses
import math
from collections.abc import Mapping

from ml_collections import ConfigDict

from vidcap_jax.errors import ConfigError
from vidcap_jax.rewards import check_rewards

BASELINES = ('greedy', 'others', 'none')
GRADIENTS = ('tape', 'replay')
ENCODERS = ('trained', 'fixed')


@dataclasses.dataclass(frozen=True)
class CollapseConfig:
  """When samples count as collapsed: the stage then ends with an explanation.

  Attributes:
    reward: mean reward below which samples count as collapsed.
    ended: share of samples that end, below which they do too.
    steps: so many steps one after the other end the stage; at least 1.
  """

  reward: float = 0.01
  ended: float = 0.05
  steps: int = 200


def _default_rewards() -> dict[str, float]:
  return {'cider': 1.0, 'bleu4': 0.5, 'rouge_l': 0.0, 'meteor': 0.0}


@dataclasses.dataclass(frozen=True)
class SelfCriticalConfig:
  """Settings of the objective ``self_critical``.

  Attributes:
    rewards: name -> weight (vidcap_jax/rewards): CIDEr-D counts to 10, all others to 1.
    count_eos: whether the end of a caption is one of its words.
    samples: K, captions of each video.
    temperature: divides the logits of what is sampled and made likelier; the greedy baseline and
      decoding are the same with any. Below 1 fewer samples have an unlikely word in them.
    baseline: greedy (reward of the greedy caption) | others (mean of a video's other samples) |
      none.
    gradient: tape: of the sampling itself, or of reading the samples again in one pass where the
      model can | replay: samples are read again, with less memory.
    micro_batches: replay: parts of the batch, computed one after another: less memory.
    cross_entropy: weight of the cross entropy of the batch's captions, which is added.
    encoder: trained | fixed: the parameters of the model's video encoder stay as they are.
    from_scratch: whether training may begin without a trained model.
    collapse: when the stage ends because samples have collapsed.
  """

  rewards: Mapping[str, float] = dataclasses.field(default_factory=_default_rewards)
  count_eos: bool = True
  samples: int = 1
  temperature: float = 1.0
  baseline: str = 'greedy'
  gradient: str = 'tape'
  micro_batches: int = 1
  cross_entropy: float = 0.0
  encoder: str = 'trained'
  from_scratch: bool = False
  collapse: CollapseConfig = CollapseConfig()

  def __post_init__(self):
    check_rewards(self.rewards)
    choices = {'baseline': BASELINES, 'gradient': GRADIENTS, 'encoder': ENCODERS}
    for name, known in choices.items():
      if (value := getattr(self, name)) not in known:
        raise ConfigError(f'unknown objective.{name} {value!r}; known: {", ".join(known)}')
    least = 2 if self.baseline == 'others' else 1
    if self.samples < least:
      raise ConfigError(
        f'objective.samples is {self.samples}; baseline {self.baseline!r} needs at least {least}'
      )
    if self.collapse.steps < 1:
      raise ConfigError(f'objective.collapse.steps={self.collapse.steps}: must be at least 1')
    if not 0 < self.temperature < math.inf:
      raise ConfigError(f'objective.temperature={self.temperature}: above 0, and finite')
    if not 0 <= self.cross_entropy < math.inf:
      raise ConfigError(f'objective.cross_entropy={self.cross_entropy}: 0 or more, and finite')
    if self.micro_batches > 1 and self.gradient != 'replay':
      raise ConfigError("objective.micro_batches needs objective.gradient='replay'")


def check(settings: SelfCriticalConfig, config: ConfigDict) -> None:
  """ConfigError for settings that do not fit the rest of the config."""
  if settings.micro_batches < 1 or config.train.batch_size % settings.micro_batches:
    raise ConfigError(
      f'objective.micro_batches must divide train.batch_size={config.train.batch_size}, got '
      f'{settings.micro_batches}'
    )
  if config.data.length_buckets:
    raise ConfigError(
      'samples are as long as captions may be: data.length_buckets must be () for objective '
      'self_critical, which also keeps batches from being grouped by caption length'
    )
  if not config.train.init_from and not settings.from_scratch:
    raise ConfigError(
      'reinforcement starts from a trained model: set train.init_from to a stage or checkpoint, '
      'or objective.from_scratch=True if it is meant to begin with random captions'
    )
