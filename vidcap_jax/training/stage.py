"""The parts of a training stage, and the check that data, model and settings fit together.

Only the data set's manifest is read and nothing is computed, so that all stages of a run can be
checked before the first one is trained.
"""

import dataclasses

from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import models
from vidcap_jax.data.pipeline import BatchShape
from vidcap_jax.data.schema import Manifest, read_manifest
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.distributed.mesh import check_batch
from vidcap_jax.errors import DataError
from vidcap_jax.models.streams import check_categories, select_streams, stream_sizes
from vidcap_jax.training import checks, profile


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


def set_up(config: ConfigDict, mesh: Mesh) -> Stage:
  """Makes the parts of a stage.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    mesh: of all devices.

  Raises:
    ConfigError, DataError: data, config and devices don't fit together.
  """
  checks.check_numbers(config)
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
  checks.check_training(config, module)
  sizes = stream_sizes(streams, config, needs)
  length = (config.data.max_words or vocabulary.max_words) + 1
  shape = BatchShape(streams, sizes, length, needs.blocks)
  return Stage(manifest, vocabulary, module, shape, traced_steps)
