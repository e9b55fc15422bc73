"""Optimisers and learning-rate schedules by config."""

import dataclasses
import math
from collections.abc import Mapping

import jax.numpy as jnp
import optax

from vidcap_jax.config_section import read_section, unknown_name
from vidcap_jax.errors import ConfigError

OPTIMIZERS = ('adam', 'adamw', 'rmsprop', 'sgd')
SCHEDULES = ('constant', 'step', 'linear', 'cosine')


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
  """The learning rate over the epochs of a stage (``optimizer.schedule``).

  Attributes:
    name: constant | step | linear | cosine.
    warmup_epochs: in which the rate rises linearly, before all else.
    warmup_start: share of the rate that warm-up begins with.
    factor: step: the rate is multiplied by this …
    every_epochs: step: … so often …
    start_epoch: step: … from this epoch on.
    final: linear, cosine: share of the rate left at the end.
  """

  name: str = 'constant'
  warmup_epochs: float = 0.0
  warmup_start: float = 0.0
  factor: float = 0.8
  every_epochs: float = 1.0
  start_epoch: float = 3.0
  final: float = 0.0

  def __post_init__(self):
    if self.name not in SCHEDULES:
      raise ConfigError(unknown_name('optimizer.schedule.name', self.name, SCHEDULES))


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
  """The optimiser of a stage (``optimizer``).

  Attributes:
    name: adam | adamw | rmsprop | sgd.
    learning_rate: before the schedule changes it.
    b1: adam, adamw: decay of the first moment.
    b2: adam, adamw: decay of the second moment; rmsprop: its decay.
    eps: adam, adamw, rmsprop: added to the denominator.
    momentum: rmsprop, sgd.
    weight_decay: adamw.
    clip_norm: largest global norm of the gradients; 0: no clipping.
    schedule: of the learning rate.
  """

  name: str = 'adam'
  learning_rate: float = 4e-4
  b1: float = 0.9
  b2: float = 0.999
  eps: float = 1e-8
  momentum: float = 0.0
  weight_decay: float = 0.0
  clip_norm: float = 5.0
  schedule: ScheduleConfig = ScheduleConfig()

  def __post_init__(self):
    if self.name not in OPTIMIZERS:
      raise ConfigError(unknown_name('optimizer.name', self.name, OPTIMIZERS))


def make_schedule(section: Mapping, steps_per_epoch: int, total_steps: int) -> optax.Schedule:
  """The learning rate at each step (from 0).

  All schedules rise linearly from ``warmup_start`` times the rate over ``warmup_epochs`` first.
  Then ``constant`` stays; ``step`` multiplies by ``factor`` every ``every_epochs`` epochs, the
  first time after ``start_epoch`` epochs; ``linear`` and ``cosine`` fall to ``final`` times the
  rate at the end of training.

  Args:
    section: ``optimizer`` of the stage's config, see ``OptimizerConfig``.
    steps_per_epoch, total_steps: of the stage.

  Raises:
    ConfigError: an unknown key, optimiser or schedule.
  """
  settings = read_section(OptimizerConfig, section, 'optimizer')
  peak, s = settings.learning_rate, settings.schedule
  warmup = round(s.warmup_epochs * steps_per_epoch)
  rest = max(1, total_steps - warmup)
  if s.name == 'constant':
    after = optax.constant_schedule(peak)
  elif s.name == 'step':
    # In whole steps: compiled, k * n / n need not be k, and the rate would fall a step late.
    first = round(s.start_epoch * steps_per_epoch) - warmup
    every = max(1, round(s.every_epochs * steps_per_epoch))

    def after(step):
      times = jnp.maximum((step - first) // every + 1, 0)
      return peak * jnp.asarray(s.factor, jnp.float32) ** times

  elif s.name == 'linear':
    after = optax.linear_schedule(peak, peak * s.final, rest)
  else:
    after = optax.cosine_decay_schedule(peak, rest, alpha=s.final)
  if not warmup:
    return after
  rise = optax.linear_schedule(peak * s.warmup_start, peak, warmup)
  return optax.join_schedules([rise, after], [warmup])


def make_optimizer(section: Mapping, schedule: optax.Schedule) -> optax.GradientTransformation:
  """Global-norm clipping (0 switches it off), then the named optimiser.

  Args:
    section, schedule: as of ``make_schedule``.

  Raises:
    ConfigError: an unknown key or optimiser.
  """
  s = read_section(OptimizerConfig, section, 'optimizer')
  if s.name == 'adam':
    rule = optax.adam(schedule, b1=s.b1, b2=s.b2, eps=s.eps)
  elif s.name == 'adamw':
    rule = optax.adamw(schedule, b1=s.b1, b2=s.b2, eps=s.eps, weight_decay=s.weight_decay)
  elif s.name == 'rmsprop':
    rule = optax.rmsprop(schedule, decay=s.b2, eps=s.eps, momentum=s.momentum or None)
  else:
    rule = optax.sgd(schedule, momentum=s.momentum or None)
  if not s.clip_norm:
    return rule
  return optax.chain(optax.clip_by_global_norm(s.clip_norm), rule)


def keeps_finite(section: Mapping) -> bool:
  """Whether gradients of a finite norm always give a finite update, from finite state.

  A finite float32 norm bounds each gradient g by 2e19 and its square by 4e38. The moments of Adam
  and RMSProp are weighted means of g and g^2, so they are finite. A quotient is at most g / eps, or
  g / sqrt(eps) for RMSProp, and momentum sums to at most 1 / (1 - momentum) times its largest
  term. The bounds below keep the products of these with the learning rate under 3e38, and decay
  below the parameter itself. They hold for any usual setting.

  Args:
    section: ``optimizer`` of the stage's config, see ``OptimizerConfig``.
  """
  s = read_section(OptimizerConfig, section, 'optimizer')
  shares = (s.schedule.warmup_start, s.schedule.factor, s.schedule.final)
  decays = {'adam': (s.b1, s.b2), 'adamw': (s.b1, s.b2), 'rmsprop': (s.b2, s.momentum)}
  return (
    0 <= s.learning_rate <= 1e3
    and all(0 <= share <= 1 for share in shares)
    and all(0 <= decay <= 1 - 1e-5 for decay in decays.get(s.name, (s.momentum,)))
    and (s.name == 'sgd' or 1e-12 <= s.eps <= 1)
    and 0 <= s.learning_rate * s.weight_decay <= 1
    and 0 <= s.clip_norm < math.inf
  )
