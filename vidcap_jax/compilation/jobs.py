"""Which programs a run compiles, and each of them with abstract arguments."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from vidcap_jax import models
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.abstract_stage import AbstractStage
from vidcap_jax.compilation.data_sizes import DataSizes
from vidcap_jax.compilation.topology import Topology
from vidcap_jax.decoding.decode import check_width
from vidcap_jax.distributed.mesh import by_row
from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.evaluation import retrieve
from vidcap_jax.inference import rerank
from vidcap_jax.inference.captioning import make_decoder
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.training import key_frame_stage
from vidcap_jax.training.experiment import check_settings, stage_config
from vidcap_jax.training.programs import step_lengths

TRAINING = ('step', 'draw')
DECODERS = ('greedy', 'beam', 'sample')
PROGRAMS = (*TRAINING, *DECODERS, 'embed', 'choose', 'key_frames')
# What a stage runs that trains nothing, by ``config.task``: its program, and the setting that names
# the stage whose model it runs.
_OF_TASK = {'fuse': ('choose', 'fuse.embedding'), 'key_frames': ('key_frames', 'train.init_from')}


@dataclasses.dataclass(frozen=True)
class Job:
  """A program to compile.

  Attributes:
    config: of the model's stage; ``task`` and ``fuse`` are those of the stage that runs it.
    stage: the name of the stage that runs it.
    program: 'step', 'draw NAME' of the objective's ``device_samples``, a method of decoding, 'embed
      videos' and 'embed captions' of an embedding's validation, 'choose' among captions, or
      'key_frames'.
    length: L, tokens of a caption.
    data: sizes of the data.
    topology: what it is compiled for.
    low_effort: whether the compiler takes less time, for a slower program.
    reports: folder of reports of programs compiled before; '' for none.
    output: folder that the program's text is written to; '' for none.
  """

  config: ConfigDict
  stage: str
  program: str
  length: int
  data: DataSizes
  topology: Topology
  low_effort: bool = False
  reports: str = ''
  output: str = ''

  @property
  def name(self) -> str:
    """For progress and messages."""
    return f'{self.stage} {self.program}, {self.length} tokens'

  @property
  def file_name(self) -> str:
    """Of its text in ``output``."""
    return f'{self.stage}-{self.program.replace(" ", "-")}-{self.length}.hlo'

  @property
  def rows(self) -> int:
    """B, of the whole batch."""
    if self.trains:
      return self.config.train.batch_size
    size = self.config.eval.batch_size
    return size + -size % self.data_axis

  @property
  def trains(self) -> bool:
    """Whether its batches are those of training, not of evaluation."""
    return self.program.partition(' ')[0] in TRAINING

  @property
  def data_axis(self) -> int:
    """Chips that a batch is split over."""
    return max(1, self.topology.chips // self.config.mesh.model)

  def with_rows(self, rows: int) -> 'Job':
    """The same program for another batch."""
    config = self.config.copy_and_resolve_references()
    with config.unlocked():
      section = config.train if self.trains else config.eval
      section.batch_size = rows
    return dataclasses.replace(self, config=config)


@dataclasses.dataclass(frozen=True)
class Selection:
  """What is asked for on the command line.

  Attributes:
    stage: '' for all stages.
    programs: of ``PROGRAMS``; () for those that the run itself compiles.
    data: folder of a data set; '' for the sizes in the config file.
  """

  stage: str = ''
  programs: Sequence[str] = ()
  data: str = ''


def find_jobs(
  config: ConfigDict, selection: Selection, topology: Topology, **options: Any
) -> tuple[list[Job], list[str]]:
  """The programs of a run, and lines about stages without any.

  Args:
    config: of the run; ``source`` is its file.
    selection: which of its programs.
    topology: what they are compiled for.
    **options: further attributes of each job.

  Raises:
    UserError: an unknown stage or program, or settings or data that don't fit together.
  """
  if unknown := [name for name in selection.programs if name not in PROGRAMS]:
    raise UserError(f'--programs: unknown {", ".join(unknown)}; known: {", ".join(PROGRAMS)}')
  if selection.stage and selection.stage not in config.order:
    raise UserError(f'--stage={selection.stage}: config.order has: {", ".join(config.order)}')
  check_settings(config)
  jobs, notes = [], []
  for stage in [selection.stage] if selection.stage else config.order:
    own_config = _model_config(config, stage)
    if not own_config:
      notes.append(f'{stage}: runs the model of a checkpoint, which is not compiled here')
      continue
    with own_config.unlocked():
      own_config.data.dir = selection.data
    data = _read_sizes(own_config, selection)
    check_width(own_config.decode, len(data.vocabulary))
    for program, length in _programs(own_config, data, selection.programs):
      jobs.append(Job(own_config, stage, program, length, data, topology, **options))
  if not jobs:
    notes.append('nothing to compile: the stages have none of the programs asked for')
  return jobs, notes


def _model_config(config: ConfigDict, stage: str) -> ConfigDict | None:
  """The config of the model that a stage runs; None if that is a checkpoint of another run."""
  own_config = stage_config(config, stage)
  if own_config.task not in _OF_TASK:
    return own_config
  section, _, key = _OF_TASK[own_config.task][1].partition('.')
  named = own_config[section][key]
  if not named.startswith('stage:'):
    return None
  model_config = stage_config(config, named.removeprefix('stage:'))
  with model_config.unlocked():
    model_config.task, model_config.fuse = own_config.task, own_config.fuse
  return model_config


def _read_sizes(config: ConfigDict, selection: Selection) -> DataSizes:
  """Sizes of the data set of --data, or those that the config file states."""
  if selection.data:
    return data_sizes.from_data_set(config)
  try:
    return data_sizes.from_config_file(config.source, config)
  except ConfigError as error:
    raise ConfigError(f'{error}; or read the sizes of a data set with --data=DIR') from None


def _programs(
  config: ConfigDict, data: DataSizes, selected: Sequence[str]
) -> Iterator[tuple[str, int]]:
  """Name and length of each program of a stage."""
  longest = (config.data.max_words or data.vocabulary.max_words) + 1
  if config.task in _OF_TASK:
    program, _ = _OF_TASK[config.task]
    if not selected or program in selected:
      yield program, longest
    return
  module = models.build(config.model, len(data.vocabulary), config.train.dtype)
  objective = data_sizes.objective_of(config, data.vocabulary)
  lengths = step_lengths(config, longest)
  if not selected or 'step' in selected:
    yield from (('step', length) for length in lengths)
  if not selected or 'draw' in selected:
    names = objective.device_samples if objective.host_reward else ()
    yield from ((f'draw {name}', length) for name in names for length in lengths)
  if is_captioner(module):
    for method in selected or (config.decode.method,):
      if method in DECODERS:
        yield method, longest
  elif not selected or 'embed' in selected:
    yield from (('embed videos', longest), ('embed captions', longest))


def program_of(stage: AbstractStage, job: Job) -> tuple[Any, tuple]:
  """A job's jitted function and its abstract arguments."""
  if job.program == 'step':
    return stage.programs.train_step, stage.step_arguments(job.length)
  params = stage.state.params
  if job.trains:
    draw = stage.programs.sample_steps[job.program.removeprefix('draw ')]
    return draw, (params, stage.state.step, stage.train_batch(job.length))
  function, batch = _evaluation_program(stage, job)
  return function, (params, batch)


def _evaluation_program(stage: AbstractStage, job: Job) -> tuple[Any, Any]:
  """The jitted function of a program that trains nothing, and its abstract batch."""
  config, rows = stage.config, job.rows
  model = config, stage.module, stage.shape.streams
  batch = stage.batch(rows, 1, max(2, config.data.max_words + 1))
  if job.program == 'embed videos':
    return retrieve.make_programs(*model).videos, batch
  if job.program == 'embed captions':
    captions = config.data.captions_per_video
    return retrieve.make_programs(*model).captions, _tokens(stage, rows, captions, job.length)
  if job.program == 'choose':
    tokens = _tokens(stage, rows, len(config.fuse.runs) * config.fuse.candidates, job.length)
    is_caption = tokens.update(shape=tokens.shape[:2], dtype=jnp.bool_)
    return rerank.make_chooser(*model), {**batch, 'tokens': tokens, 'is_caption': is_caption}
  if job.program == 'key_frames':
    return key_frame_stage.make_program(*model, where=f'stage {job.stage!r}'), batch
  config = config.copy_and_resolve_references()
  with config.unlocked():
    config.decode.method = job.program
  vocabulary, length = stage.data.vocabulary, stage.shape.length
  decoder = make_decoder(stage.module, stage.shape.streams, vocabulary, config, length, stage.mesh)
  return decoder, batch


def _tokens(stage: AbstractStage, *shape: int) -> jax.ShapeDtypeStruct:
  """Abstract captions (B, S, L), split over the mesh's data axis."""
  return jax.ShapeDtypeStruct(shape, jnp.int32, sharding=by_row(stage.mesh))
