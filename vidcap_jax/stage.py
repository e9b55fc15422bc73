"""What a stage trains, and whether it can: data, model and settings that fit together.

Nothing is read but the data set's manifest and nothing is computed, so that all stages of a recipe
are checked before the first one is trained.
"""

import dataclasses

from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import distributed, models, profile
from vidcap_jax.data.schema import DataError, Manifest, Stream, read_manifest
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.errors import ConfigError
from vidcap_jax.features import check_categories, select_streams, stream_sizes
from vidcap_jax.objectives import make_objective
from vidcap_jax.optimizer import make_optimizer, make_schedule


@dataclasses.dataclass(frozen=True)
class Stage:
  """The parts of a training stage.

  Attributes:
    manifest: of the data set.
    vocabulary: its own.
    module: the model.
    streams: those that the model reads.
    sizes: of each stream in a batch, see ``batch.default_sizes``.
    length: L, tokens of a caption, its end included.
    traced: the steps that a profile is made of.
  """

  manifest: Manifest
  vocabulary: Vocabulary
  module: nn.Module
  streams: tuple[Stream, ...]
  sizes: dict[str, tuple[int, ...]]
  length: int
  traced: range


def set_up(config: ConfigDict, mesh: Mesh) -> Stage:
  """Finds the parts of a stage.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    mesh: of all devices.

  Raises:
    ConfigError, DataError: data, config and devices don't fit together.
  """
  for section, key in (('train', 'epochs'), ('eval', 'every_epochs')):
    if not config[section][key] > 0:
      raise ConfigError(f'config.{section}.{key}={config[section][key]}: must be above 0')
  traced = profile.steps_of(config.log.profile)
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
  distributed.check_batch(config.train.batch_size, mesh)
  make_objective(config, module, None)
  make_optimizer(config.optimizer, make_schedule(config.optimizer, 1, 1))
  sizes = stream_sizes(streams, config, needs)
  length = (config.data.max_words or vocabulary.max_words) + 1
  return Stage(manifest, vocabulary, module, streams, sizes, length, traced)
