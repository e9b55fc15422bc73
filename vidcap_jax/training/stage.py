"""The parts of a training stage, and the check that data, model and settings fit together.

Only the data set's manifest is read and nothing is computed, so that all stages of a run can be
checked before the first one is trained.
"""

import dataclasses
import functools

from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import models
from vidcap_jax.data.pipeline import BatchShape
from vidcap_jax.data.schema import Manifest, read_manifest
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.distributed.mesh import check_batch
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.models.streams import check_categories, select_streams, stream_sizes
from vidcap_jax.objectives import make_objective
from vidcap_jax.training import profile
from vidcap_jax.training.optimizer import make_optimizer, make_schedule


@dataclasses.dataclass(frozen=True)
class Stage:
  """The parts of a training stage.

  Attributes:
    manifest: of the data set.
    vocabulary: of the data set.
    module: the model.
    shape: of a batch: the streams that the model reads, their sizes, and the length of captions.
    traced_steps: the steps that a profile is made of.
  """

  manifest: Manifest
  vocabulary: Vocabulary
  module: nn.Module
  shape: BatchShape
  traced_steps: range


# Ranges of numbers that would otherwise fail late, or silently do something unintended.
_ABOVE_0 = (
  *('train.epochs', 'eval.every_epochs', 'optimizer.schedule.every_epochs'),
  *('train.scheduled_sampling.every_epochs', 'train.scheduled_sampling.eta'),
)
_FROM_0 = (
  *('log.every_steps', 'checkpoint.every_steps', 'eval.patience', 'train.max_skipped'),
  *('data.max_frames', 'data.max_words', 'data.threads', 'data.workers'),
)
_FROM_1 = ('checkpoint.keep',)
_SHARES = ('train.label_smoothing', 'model.dropout')


def set_up(config: ConfigDict, mesh: Mesh) -> Stage:
  """Makes the parts of a stage.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    mesh: of all devices.

  Raises:
    ConfigError, DataError: data, config and devices don't fit together.
  """
  _check_numbers(config)
  traced_steps = profile.parse_steps(config.log.profile)
  manifest = read_manifest(config.data.dir)
  if manifest.vocabulary is None:
    raise DataError(
      f'{config.data.dir} has no vocabulary, since it has no split train (it has: '
      f'{", ".join(manifest.splits)}); build it with a training split'
    )
  for split in (config.data.train_split, config.data.val_split):
    if split not in manifest.splits:
      raise DataError(
        f'{config.data.dir} has no split {split!r}; it has: {", ".join(manifest.splits)}. '
        'Set config.data.train_split and config.data.val_split'
      )
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  module = models.build(config.model, len(vocabulary), config.train.dtype)
  needs = module.config.needs
  streams = select_streams(needs, manifest.streams, f'the data set {config.data.dir}')
  check_categories(needs, manifest)
  check_batch(config.train.batch_size, mesh)
  make_objective(config, module, None)
  make_optimizer(config.optimizer, make_schedule(config.optimizer, 1, 1))
  sizes = stream_sizes(streams, config, needs)
  length = (config.data.max_words or vocabulary.max_words) + 1
  shape = BatchShape(streams, sizes, length, needs.blocks)
  return Stage(manifest, vocabulary, module, shape, traced_steps)


def _check_numbers(config: ConfigDict) -> None:
  """ConfigError for a number out of its range; keys that a model does not have are skipped."""
  for keys, fits, must in (
    (_ABOVE_0, lambda x: x > 0, 'above 0'),
    (_FROM_0, lambda x: x >= 0, 'at least 0'),
    (_FROM_1, lambda x: x >= 1, 'at least 1'),
    (_SHARES, lambda x: 0 <= x < 1, 'at least 0 and below 1'),
  ):
    for key in keys:
      *sections, name = key.split('.')
      section = functools.reduce(lambda outer, inner: outer[inner], sections, config)
      if name in section and not fits(section[name]):
        raise ConfigError(f'config.{key}={section[name]}: must be {must}')
