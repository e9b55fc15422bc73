"""The state that a stage's training begins with: the last checkpoint's, or an initial one."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import jax
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint, init_from, restore
from vidcap_jax.data.schema import Manifest
from vidcap_jax.errors import DataError
from vidcap_jax.training import word_vectors
from vidcap_jax.training.stage import Stage
from vidcap_jax.training.step import TrainState, from_saved, to_saved
from vidcap_jax.training.trainer import Trainer

Log = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Start:
  """Where training begins.

  Attributes:
    step: steps done before.
    state: on the devices.
    progress: best score and step, validations since, and whether the stage has stopped early.
  """

  step: int
  state: TrainState
  progress: dict


def restored_or_initial(
  config: ConfigDict,
  stage: Stage,
  trainer: Trainer,
  folder: epath.Path,
  workdir: epath.Path,
  log: Log,
) -> Start:
  """The newest checkpoint of a stage; the initial state where there is none.

  Args:
    config: the stage's own.
    stage: its parts.
    trainer: makes the initial state.
    folder: of the stage's checkpoints.
    workdir: of the stages that ``train.init_from`` may name.
    log: gets a line where something was restored or put in.

  Raises:
    DataError: a checkpoint was trained on other data, or ``train.init_from`` or
      ``train.word_vectors`` can't be used.
  """
  start = _restored(stage, trainer, folder, log) or _initial(config, stage, trainer, workdir, log)
  # Restored and replaced arrays may be on other devices.
  state = jax.device_put(start.state, trainer.state_shardings)
  return dataclasses.replace(start, state=state)


def _restored(stage: Stage, trainer: Trainer, folder: epath.Path, log: Log) -> Start | None:
  shapes = checkpoint.abstract(trainer.state_shapes, trainer.state_shardings)
  check = functools.partial(_check_data, stage.manifest)
  restored = checkpoint.restore_latest(folder, shapes.params, to_saved(shapes), check)
  if not restored:
    return None
  step, params, saved, meta = restored
  log(f'restored step {step} from {folder / str(step)}')
  return Start(step, from_saved(saved, params), meta['progress'])


def _check_data(manifest: Manifest, meta: Mapping) -> None:
  """DataError if a checkpoint that training would go on from was trained on other data."""
  if meta['data']['hash'] != manifest.hash:
    raise DataError(
      f'the data set {manifest.name!r} has changed since this workdir was trained on it (hash '
      f'{meta["data"]["hash"]} there, {manifest.hash} now); use another --workdir, with '
      'config.train.init_from to start from its parameters'
    )


def _initial(
  config: ConfigDict, stage: Stage, trainer: Trainer, workdir: epath.Path, log: Log
) -> Start:
  """Random parameters, replaced by word vectors and another checkpoint's where these are named."""
  init_checkpoint = config.train.init_from and restore.find_checkpoint(
    init_from.source_of(config.train.init_from, workdir), 'config.train.init_from'
  )
  initialise = jax.jit(trainer.initialise, out_shardings=trainer.state_shardings)
  state = initialise(jax.random.key(config.seed))
  vocabulary, streams = stage.vocabulary, stage.shape.streams
  if config.train.word_vectors:
    params = word_vectors.replace_rows(state.params, config.train.word_vectors, vocabulary, log)
    state = state.replace(params=params)
  if init_checkpoint:
    params = init_from.start_from(init_checkpoint, state.params, config, vocabulary, streams, log)
    state = state.replace(params=params)
  progress = {'best_score': None, 'best_step': None, 'since_best': 0, 'stopped': False}
  return Start(0, state, progress)
