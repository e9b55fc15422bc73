"""The programs of a stage with abstract arguments: shapes, dtypes and shardings, no values."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import models
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.compilation.data_sizes import DataSizes
from vidcap_jax.data.batch import empty_batch
from vidcap_jax.data.pipeline import BatchShape
from vidcap_jax.distributed.mesh import by_row, replicated
from vidcap_jax.models.streams import select_streams, stream_sizes
from vidcap_jax.rewards import HOST_REWARDS
from vidcap_jax.training.programs import StagePrograms, make_programs


@dataclasses.dataclass(frozen=True)
class AbstractStage:
  """A stage of training without data and devices.

  Attributes:
    config: the stage's own.
    data: sizes of its data.
    module: the model.
    shape: of a batch.
    mesh: of the devices that it is for.
    programs: its jitted functions.
  """

  config: ConfigDict
  data: DataSizes
  module: nn.Module
  shape: BatchShape
  mesh: Mesh
  programs: StagePrograms

  @functools.cached_property
  def state(self) -> Any:
    """The abstract training state."""
    return checkpoint.abstract(self.programs.state_shapes, self.programs.state_shardings)

  def batch(self, rows: int, captions: int, length: int) -> dict:
    """An abstract batch, split over the mesh's data axis.

    Args:
      rows: B.
      captions: S, of a video.
      length: L, tokens of a caption.
    """
    single = empty_batch(self.shape.streams, self.shape.sizes, 1, captions, length)
    sharding = by_row(self.mesh)
    return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype, sharding=sharding), single
    )

  def train_batch(self, length: int) -> dict:
    """The abstract batch of a step, with the tables of the objective."""
    rows, captions = self.config.train.batch_size, self.config.data.captions_per_video
    tables = checkpoint.abstract(self.data.tables, replicated(self.mesh))
    return {**self.batch(rows, captions, length), 'tables': tables}

  def step_arguments(self, length: int) -> tuple[Any, dict]:
    """The arguments of ``train_step`` for captions of L tokens."""
    batch = self.train_batch(length)
    samples = {
      name: jax.eval_shape(draw, self.state.params, self.state.step, batch)
      for name, draw in self.programs.sample_steps.items()
    }
    if samples:
      drawn = {**samples, **_rewards(self.config, samples)}
      batch['drawn'] = checkpoint.abstract(drawn, by_row(self.mesh))
    return self.state, batch


def _rewards(config: ConfigDict, samples: Mapping) -> dict[str, jax.ShapeDtypeStruct]:
  """The abstract rewards (B, K) that are computed outside the compiled step."""
  return {
    f'{name} of {kind}': jax.ShapeDtypeStruct(tokens.shape[:-1], jnp.float32)
    for kind, tokens in samples.items()
    for name, weight in config.objective.rewards.items()
    if weight and name in HOST_REWARDS
  }


def make_stage(config: ConfigDict, data: DataSizes, mesh: Mesh) -> AbstractStage:
  """Makes a stage's programs.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    data: sizes of its data.
    mesh: of the devices that the programs are for; they need not be there.

  Raises:
    ConfigError, DataError: settings and streams don't fit together.
  """
  module = models.build(config.model, len(data.vocabulary), config.train.dtype)
  needs = module.config.needs
  streams = select_streams(needs, data.streams, data.where)
  length = (config.data.max_words or data.vocabulary.max_words) + 1
  shape = BatchShape(streams, stream_sizes(streams, config, needs), length, needs.blocks)
  programs = make_programs(config, module, streams, data.split, mesh)
  return AbstractStage(config, data, module, shape, mesh, programs)
