"""Optimisers and learning-rate schedules by config."""

from collections.abc import Mapping

import jax.numpy as jnp
import optax

from vidcap_jax.errors import ConfigError

OPTIMIZERS = ('adam', 'adamw', 'rmsprop', 'sgd')
SCHEDULES = ('constant', 'step', 'linear', 'cosine')


def make_schedule(settings: Mapping, steps_per_epoch: int, total_steps: int) -> optax.Schedule:
  """The learning rate at each step (from 0).

  All schedules rise linearly from ``warmup_start`` times the rate over ``warmup_epochs`` first.
  Then ``constant`` stays; ``step`` multiplies by ``factor`` every ``every_epochs`` epochs, the
  first time after ``start_epoch`` epochs; ``linear`` and ``cosine`` fall to ``final`` times the
  rate at the end of training.

  Args:
    settings: ``learning_rate`` and a ``schedule`` section with the fields named above.
    steps_per_epoch, total_steps: of the stage.

  Raises:
    ConfigError: an unknown schedule name.
  """
  peak, s = settings['learning_rate'], settings['schedule']
  warmup = round(s['warmup_epochs'] * steps_per_epoch)
  rest = max(1, total_steps - warmup)
  if s['name'] == 'constant':
    after = optax.constant_schedule(peak)
  elif s['name'] == 'step':
    # In whole steps: compiled, k * n / n need not be k, and the rate would fall a step late.
    first = round(s['start_epoch'] * steps_per_epoch) - warmup
    every = max(1, round(s['every_epochs'] * steps_per_epoch))

    def after(step):
      times = jnp.maximum((step - first) // every + 1, 0)
      return peak * jnp.asarray(s['factor'], jnp.float32) ** times

  elif s['name'] == 'linear':
    after = optax.linear_schedule(peak, peak * s['final'], rest)
  elif s['name'] == 'cosine':
    after = optax.cosine_decay_schedule(peak, rest, alpha=s['final'])
  else:
    raise ConfigError(f'unknown schedule {s["name"]!r}; known: {", ".join(SCHEDULES)}')
  if not warmup:
    return after
  rise = optax.linear_schedule(peak * s['warmup_start'], peak, warmup)
  return optax.join_schedules([rise, after], [warmup])


def make_optimizer(settings: Mapping, schedule: optax.Schedule) -> optax.GradientTransformation:
  """Global-norm clipping (0 switches it off), then the named optimiser.

  Raises:
    ConfigError: an unknown optimiser name.
  """
  name, s = settings['name'], settings
  if name == 'adam':
    rule = optax.adam(schedule, b1=s['b1'], b2=s['b2'], eps=s['eps'])
  elif name == 'adamw':
    decay = s['weight_decay']
    rule = optax.adamw(schedule, b1=s['b1'], b2=s['b2'], eps=s['eps'], weight_decay=decay)
  elif name == 'rmsprop':
    rule = optax.rmsprop(schedule, decay=s['b2'], eps=s['eps'], momentum=s['momentum'] or None)
  elif name == 'sgd':
    rule = optax.sgd(schedule, momentum=s['momentum'] or None)
  else:
    raise ConfigError(f'unknown optimizer {name!r}; known: {", ".join(OPTIMIZERS)}')
  if not s['clip_norm']:
    return rule
  return optax.chain(optax.clip_by_global_norm(s['clip_norm']), rule)
