"""One training stage, from data to best checkpoint."""

import contextlib
import dataclasses
import functools
import signal

from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.data import cache, pipeline
from vidcap_jax.distributed.mesh import agree, block, is_main
from vidcap_jax.training import compiled, profile
from vidcap_jax.training.initial import restored_or_initial
from vidcap_jax.training.ledger import Ledger
from vidcap_jax.training.loop import TrainLoop
from vidcap_jax.training.recorder import Recorder, stage_meta
from vidcap_jax.training.signals import StopSignal, signal_name
from vidcap_jax.training.stage import Stage, set_up
from vidcap_jax.training.train_data import TrainData, log_train_data, read_train_data
from vidcap_jax.training.trainer import make_trainer
from vidcap_jax.training.validation import make_validation_decoder, make_validator


class Preempted(Exception):
  """SIGTERM or Ctrl-C came, here or on another process; a checkpoint has been saved.

  Attributes:
    signal: its number.
  """

  def __init__(self, number: int, message: str):
    super().__init__(f'{signal_name(number)}: {message}')
    self.signal = number


def train(config: ConfigDict, name: str, workdir: epath.Path, mesh: Mesh, ledger: Ledger) -> dict:
  """Trains a stage, or goes on where it was stopped.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    name: of the stage.
    workdir: checkpoints go to WORKDIR/checkpoints/NAME, logs to metrics.jsonl and tensorboard/.
    mesh: of all devices.
    ledger: measures where the time goes.

  Returns:
    The stage's progress: steps, best score and step.

  Raises:
    ConfigError, DataError, ValueError: data, config and devices don't fit together; before any
      computation.
    Preempted: after SIGTERM or Ctrl-C.
    Diverged: after more than ``train.max_skipped`` steps that were not finite; with
      ``runtime.check_nans`` after the first.
  """
  log = functools.partial(print, f'[{name}]', flush=True) if is_main() else _no_log
  stage = set_up(config, mesh)
  data = read_train_data(config, stage, workdir)
  decoder = make_validation_decoder(config, stage, mesh)
  validate = make_validator(config, stage, mesh, data.key_frames, log, decoder)
  log_train_data(config, stage, data, mesh, log)
  compiler = compiled.make_compiler()
  trainer = make_trainer(config, stage, data, mesh, log, compiler, [decoder] if decoder else [])
  folder = workdir / 'checkpoints' / name
  start = restored_or_initial(config, stage, trainer, folder, workdir, log)
  ledger.resume(f'{name}/{start.step}')
  ledger.mark(f'{name}/{start.step}')
  features = _keep_features(config, stage, data, mesh)
  recorder = Recorder(
    workdir,
    stage_meta(config, name, stage, data),
    log,
    ledger,
    step=start.step,
    keep=config.checkpoint.keep,
    tensorboard=config.log.tensorboard,
  )
  steps = range(start.step, start.step if start.progress['stopped'] else data.total_steps)
  batches = _read_batches(config, stage, data, features, steps, mesh)
  loop = TrainLoop(config, data, trainer, features, start, validate, recorder, ledger)
  trace = profile.Trace(stage.traced_steps, steps, workdir / 'profile', log)
  with StopSignal() as stop_signal:
    with contextlib.ExitStack() as closing:  # closes all, whatever fails; the last entry first
      closing.callback(recorder.close)
      closing.callback(compiler.shutdown, wait=False, cancel_futures=True)
      closing.callback(batches.close)
      closing.callback(trace.close)
      loop.run(batches, trace, stop_signal)
    ledger.mark(f'{name}/{loop.done}')  # nothing was lost since its last save
    # A signal may also come during the last validation or while a checkpoint is written.
    if loop.stop or bool(agree(bool(stop_signal.received), mesh)):
      message = f'saved step {loop.done} of stage {name!r} in {folder}'
      raise Preempted(stop_signal.received or signal.SIGTERM, message)
  return loop.progress | {'steps': data.total_steps}


def _keep_features(config: ConfigDict, stage: Stage, data: TrainData, mesh: Mesh) -> cache.Features:
  """The training split's features, which ``data.cache`` may read into memory now."""
  return cache.load_features(
    config.data.cache,
    data.source,
    data.texts,
    stage.shape.streams,
    stage.shape.sizes,
    stage.shape.blocks,
    mesh,
    config.data.threads,
  )


def _read_batches(
  config: ConfigDict,
  stage: Stage,
  data: TrainData,
  features: cache.Features,
  steps: range,
  mesh: Mesh,
):
  """This host's rows of the batches of steps."""
  shape = dataclasses.replace(stage.shape, streams=features.streams)
  # Features that are in memory already need no processes to read them.
  workers = config.data.workers if config.data.cache == 'none' else 0
  reading = pipeline.Reading(*block(mesh), threads=config.data.threads, workers=workers)
  return pipeline.train_batches(
    features.source, stage.vocabulary, data.order, shape, steps, reading
  )


def _no_log(*_) -> None:
  """Logs nothing, on processes other than the main one."""
