"""The loop of a training stage: step, log, validate, save, stop."""

import collections
from collections.abc import Iterable, Mapping

import jax
from ml_collections import ConfigDict

from vidcap_jax.data.cache import Features
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.distributed.mesh import agree, block, from_main, to_devices
from vidcap_jax.objectives.objective import STOP_CHECK_STEPS
from vidcap_jax.training.clock import Clock
from vidcap_jax.training.divergence import check_finite, report_nan
from vidcap_jax.training.initial import Start
from vidcap_jax.training.ledger import Ledger
from vidcap_jax.training.profile import Trace
from vidcap_jax.training.programs import step_lengths
from vidcap_jax.training.recorder import Recorder
from vidcap_jax.training.signals import StopSignal
from vidcap_jax.training.train_data import TrainData
from vidcap_jax.training.trainer import Trainer
from vidcap_jax.training.validation import Validator, update_progress, validation_line


class TrainLoop:
  """Takes the steps of a stage, and does what is due after each.

  Attributes:
    state: after the steps done.
    progress: best score and step, validations since, and whether the stage has stopped early.
    done: steps done.
    stop: whether a signal has stopped the loop.
  """

  def __init__(
    self,
    config: ConfigDict,
    data: TrainData,
    trainer: Trainer,
    features: Features,
    start: Start,
    validate: Validator,
    recorder: Recorder,
    ledger: Ledger,
  ):
    """Starts the clock.

    Args:
      config: the stage's own.
      data: its training split.
      trainer: computes its steps.
      features: completes batches on the devices.
      start: state and progress to go on from.
      validate: of ``make_validator``.
      recorder: of progress lines, metrics and checkpoints.
      ledger: measures the time of the parts of the loop.
    """
    self.state, self.progress = start.state, start.progress
    self.done, self.stop = start.step, False
    self._config, self._order, self._ids = config, data.order, data.ids
    self._trainer, self._features, self._mesh = trainer, features, trainer.mesh
    self._validate_params, self._recorder = validate, recorder
    self._ledger = ledger
    self._first, self._total = start.step, data.total_steps
    self._eval_steps = max(1, round(config.eval.every_epochs * data.order.steps_per_epoch))
    self._lengths = step_lengths(config, data.length)
    self._pending: collections.deque = collections.deque()
    self._clock = Clock(start.step, data.total_steps, ledger)

  def run(self, batches: Iterable[tuple[int, dict]], trace: Trace, stop_signal: StopSignal) -> None:
    """Trains on batches until they end, validation or the objective ends the stage, or a signal
    comes."""
    with self._ledger.measure('stepping'):
      self._run(batches, trace, stop_signal)

  def _run(
    self, batches: Iterable[tuple[int, dict]], trace: Trace, stop_signal: StopSignal
  ) -> None:
    for step, batch in self._clock.watch(batches):
      trace.before(step, self.state.step)
      report = self._take_step(step, batch)
      stop_requested = agree(bool(stop_signal.received), self._mesh)
      self._pending.append((step, report, batch['video_index'], stop_requested))
      self.done = step + 1
      log_due, validation_due = self._log_due(), self._validation_due()
      if step == self._first and not log_due:
        self._clock.restart(self.done)
      self._read_results(wait=log_due or validation_due)
      if log_due:
        self._log(report)
      ending = self._objective_ending(report)
      if validation_due or ending:
        ending = self._validate(ending)
      elif self.stop or self._save_due():
        self._recorder.save(self.done, self.state, self.progress)
      if ending:
        self._recorder.log(f'{ending}: stopped')
      if self.stop or ending:
        break

  def _take_step(self, step: int, batch: dict) -> Mapping:
    """Computes a step; returns its report, on the devices."""
    rows, host_count = batch['video_index'], block(self._mesh)[1]
    self._clock.captions += int((batch['captions'][..., 0] != PAD).sum()) * host_count
    if len(self._lengths) > 1:
      length = min(n for n in self._lengths if n >= self._order.longest(step))
      batch['captions'] = batch['captions'][..., :length]
    on_devices = self._features.fill(to_devices(batch, self._mesh))
    on_devices = self._trainer.complete(self.state, on_devices, rows)
    with report_nan(step, rows, self._ids):
      self.state, report = self._trainer.train_step(self.state, on_devices)
    return report

  def _log_due(self) -> bool:
    every = self._config.log.every_steps
    return self.done == self._total or bool(every and self.done % every == 0)

  def _validation_due(self) -> bool:
    return self.done == self._total or self.done % self._eval_steps == 0

  def _save_due(self) -> bool:
    every = self._config.checkpoint.every_steps
    return bool(every and self.done % every == 0)

  def _read_results(self, wait: bool) -> None:
    """Reads whether updates were finite, and whether any process has been asked to stop.

    One step behind, so that reading a result does not keep the device waiting.

    Args:
      wait: read the last step's too.
    """
    while len(self._pending) > (0 if wait else 1):
      step, report, rows, stop_requested = self._pending.popleft()
      most, log = self._config.train.max_skipped, self._recorder.log
      check_finite(step, report, rows, self._ids, most, log)
      self.stop |= bool(stop_requested)

  def _log(self, report: Mapping) -> None:
    """Records the last step's scalars, its learning rate and speed."""
    values = jax.device_get(report)
    record = {k: float(v) for k, v in values.items() if k not in ('finite', 'skipped')}
    skipped = int(values['skipped'])  # after which the schedule is that many steps behind
    rate = float(self._trainer.schedule(max(0, self.done - 1 - skipped)))
    record |= {'learning_rate': rate, 'skipped': skipped}
    record |= {'epoch': self.done / self._order.steps_per_epoch, **self._clock.read(self.done)}
    self._recorder.write(self.done, 'train', record)
    self._recorder.log(self._clock.line(self.done, record))

  def _objective_ending(self, report: Mapping) -> str:
    """Why the objective ends the stage here, or ''."""
    stop = self._trainer.objective.stop
    return stop(jax.device_get(report)) if stop and self.done % STOP_CHECK_STEPS == 0 else ''

  def _validate(self, ending: str) -> str:
    """Scores the parameters and saves them; returns why the stage ends here, or ''.

    Args:
      ending: why it ends if validation doesn't end it.
    """
    metric, patience = self._config.eval.metric, self._config.eval.patience
    with self._ledger.measure('evaluating'):
      validation = self._validate_params(self.state.params)
      scores, split = validation.scores, self._config.data.val_split
      score = from_main(scores.get(metric, float('nan')))
      update_progress(self.progress, self.done, score, patience)
      if self.progress['stopped']:
        ending = f'no better {metric} in {patience} validations'
      self.progress['stopped'] = bool(ending)
      self._recorder.write(self.done, split, validation.record)
      self._recorder.log(validation_line(self.done, scores, self.progress, metric))
      self._recorder.write_captions(self.done, split, validation.samples)
      self._recorder.save(self.done, self.state, self.progress, score)
    return ending
