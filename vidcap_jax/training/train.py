"""One training stage, from data to best checkpoint."""

import collections
import contextlib
import dataclasses
import functools
import signal
from collections.abc import Mapping

import jax
import numpy as np
from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint, init_from, restore
from vidcap_jax.data import cache, pipeline
from vidcap_jax.data.key_frames import attach, lacking
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.provenance import making_of
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import Manifest
from vidcap_jax.data.texts import read_texts
from vidcap_jax.data.vocabulary import PAD, Vocabulary
from vidcap_jax.distributed.mesh import (
  agree,
  block,
  from_main,
  is_main,
  layout,
  own_rows,
  replicated,
  to_devices,
)
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import diversity, evaluate
from vidcap_jax.models import sharding
from vidcap_jax.models.streams import example_inputs
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.objective import LOOK
from vidcap_jax.training import compiled, key_frame_stage, profile, word_vectors
from vidcap_jax.training.clock import Clock
from vidcap_jax.training.divergence import check_finite, first_nan
from vidcap_jax.training.metric_log import Journal
from vidcap_jax.training.optimizer import make_optimizer, make_schedule
from vidcap_jax.training.signals import StopSignal, signal_name
from vidcap_jax.training.stage import set_up
from vidcap_jax.training.step import (
  initial_state,
  make_draw_steps,
  make_train_step,
  state_shardings,
)
from vidcap_jax.training.validation import make_validator, update_progress, validation_line

TOP_CAPTIONS = 100


class Preempted(Exception):
  """SIGTERM or Ctrl-C came, here or on another process; a checkpoint has been saved.

  Attributes:
    signal: its number.
  """

  def __init__(self, number: int, message: str):
    super().__init__(f'{signal_name(number)}: {message}')
    self.signal = number


def train(config: ConfigDict, stage: str, workdir: epath.Path, mesh: Mesh) -> dict:
  """Trains a stage, or goes on where it was stopped.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    stage: its name.
    workdir: checkpoints go to WORKDIR/checkpoints/STAGE, logs to metrics.jsonl and tensorboard/.
    mesh: of all devices.

  Returns:
    The stage's progress: steps, best score and step.

  Raises:
    ConfigError, DataError, ValueError: data, config and devices don't fit together; before any
      computation.
    Preempted: after SIGTERM or Ctrl-C.
    Diverged: after more than ``train.max_skipped`` steps that were not finite; with
      ``runtime.check_nans`` after the first.
  """
  say = functools.partial(print, f'[{stage}]', flush=True) if is_main() else _silent

  # ---------------------------------------------------------------- data
  parts = set_up(config, mesh)
  manifest, vocabulary, module = parts.manifest, parts.vocabulary, parts.module
  streams, sizes, length = parts.streams, parts.sizes, parts.length
  frames = key_frame_stage.from_outside(config, module.config.needs, workdir)
  source = attach(open_split(config.data.dir, config.data.train_split), frames)
  texts = read_texts(source, config.data.threads)
  ids = [video.video_id for video in texts]
  lengths = _lengths(texts, vocabulary, length) if config.data.length_buckets else None
  order = TrainOrder(
    np.array([len(video.captions) for video in texts]),
    config.train.batch_size,
    config.data.captions_per_video,
    config.seed,
    lengths,
  )
  # Grouped by length, batches hold very different numbers of words. Dividing each by its own would
  # give the words of short captions more weight, so all are divided by the mean number.
  tokens_per_step = None if lengths is None else float(lengths.sum() / order.steps_per_epoch)
  every_caption = [caption for video in texts for caption in video.captions]
  total_steps = max(1, round(config.train.epochs * order.steps_per_epoch))
  validate = make_validator(config, module, streams, vocabulary, length, mesh, frames)
  if frames:
    say(f'key frames of {config.data.key_frames}: {lacking(frames, ids)}')
  say(
    f'{order.videos - order.without_captions} videos, {int(order.caption_counts.sum())} captions, '
    f'vocabulary {len(vocabulary)}; {order.steps_per_epoch} steps an epoch, {total_steps} in all'
    + (f'; {order.without_captions} videos have no caption' if order.without_captions else '')
  )
  unread = [s.name for s in manifest.streams if s not in streams]
  say(
    f'streams: {", ".join(s.name for s in streams)}'
    + (f"; this model does not read the data set's {', '.join(unread)}" if unread else '')
  )

  empty = config.train.batch_size - order.videos
  if empty >= mesh.shape['data']:  # fewer may be needed to divide over the devices
    say(
      f'train.batch_size={config.train.batch_size} is more than there are videos: {empty} rows of '
      f'every batch stay empty; {config.train.batch_size - empty} is enough'
    )

  # ---------------------------------------------------------------- model and optimiser
  schedule = make_schedule(config.optimizer, order.steps_per_epoch, total_steps)
  optimizer = make_optimizer(config.optimizer, schedule)
  objective = make_objective(config, module, tokens_per_step)
  example = example_inputs(streams, config, module.config.needs)
  captions = [video.captions for video in texts]
  tables = jax.device_get(objective.tables(captions, vocabulary))
  tables = jax.device_put(tables, replicated(mesh))
  look = objective.host(captions, vocabulary) if objective.host else None

  most_captions = int(order.caption_counts.max(initial=0))

  def initialise(key):
    return initial_state(key, module, example, objective, optimizer, len(source), most_captions)

  shapes = jax.eval_shape(initialise, jax.random.key(0))
  by_size = restore.params_by_size(streams, config)
  lie = sharding.of_params(config.mesh.params, mesh, len(vocabulary), by_size)
  say(f'{layout(mesh)}; {sharding.summary(shapes.params, lie)}')
  lie = state_shardings(shapes, optimizer, lie, mesh)
  jitted = make_train_step(
    config, objective, optimizer, streams, order.steps_per_epoch, total_steps, lie
  )
  train_step = compiled.by_shape(jitted, say)
  draw_steps = make_draw_steps(config, objective, streams, total_steps)

  # ---------------------------------------------------------------- restore, or start
  folder = workdir / 'checkpoints' / stage
  shapes = checkpoint.abstract(shapes, lie)
  restored = checkpoint.restore_latest(
    folder, shapes.params, shapes.replace(params=None), functools.partial(_check_data, manifest)
  )
  if restored:
    first, params, rest, meta = restored
    state, progress = rest.replace(params=params), meta['progress']
    say(f'restored step {first} from {folder / str(first)}')
  else:
    first = 0
    theirs = config.train.init_from and restore.find_checkpoint(
      init_from.source_of(config.train.init_from, workdir), 'config.train.init_from'
    )
    initialise = jax.jit(initialise, out_shardings=lie)
    state = initialise(jax.random.key(config.seed))
    progress = {'best_score': None, 'best_step': None, 'since_best': 0, 'stopped': False}
    if config.train.word_vectors:
      params = word_vectors.put_in(state.params, config.train.word_vectors, vocabulary, say)
      state = state.replace(params=params)
    if theirs:
      params = init_from.start_from(theirs, state.params, config, vocabulary, streams, say)
      state = state.replace(params=params)
  state = jax.device_put(state, lie)  # wherever its parts came from

  features = cache.keep(
    config.data.cache,
    source,
    texts,
    streams,
    sizes,
    module.config.needs.blocks,
    mesh,
    config.data.threads,
  )
  manager = checkpoint.open_manager(folder, config.checkpoint.keep)
  journal = (
    Journal(workdir, stage, step=first, tensorboard=config.log.tensorboard) if is_main() else None
  )
  meta = {
    'format': 1,
    'stage': stage,
    'config': config.to_dict(),
    'vocabulary': vocabulary.to_dict(),
    'streams': [dataclasses.asdict(stream) for stream in streams],
    'making': making_of(manifest, streams).to_dict(),
    'data': {'name': manifest.name, 'hash': manifest.hash},
    'top_captions': most_frequent(every_caption),
    'captions': diversity.remember(every_caption, vocabulary, length),
    'key_frames': frames,
    'versions': evaluate.versions(),
  }

  def save(step, state, score=None):
    if journal:
      journal.flush()
    whole = meta | {'step': step, 'progress': dict(progress)}
    checkpoint.save(manager, step, state.params, state.replace(params=None), whole, score)

  # ---------------------------------------------------------------- the loop
  eval_steps = max(1, round(config.eval.every_epochs * order.steps_per_epoch))
  host, hosts = block(mesh)
  steps = range(first, first if progress['stopped'] else total_steps)
  batches = pipeline.train_batches(
    features.source,
    vocabulary,
    features.streams,
    order,
    sizes=sizes,
    length=length,
    blocks=module.config.needs.blocks,
    start_step=steps.start,
    stop_step=steps.stop,
    host=host,
    hosts=hosts,
    threads=config.data.threads,
    workers=config.data.workers if config.data.cache == 'none' else 0,  # else nothing is read
  )
  buckets = [b for b in config.data.length_buckets if b < length]
  buckets += [length] if buckets else []
  pending: collections.deque = collections.deque()
  clock = Clock(first, total_steps)
  trace = profile.Trace(parts.traced, steps, workdir / 'profile', say)
  stop, done = False, first
  with StopSignal() as stop_signal:
    with contextlib.ExitStack() as closing:  # all of it, whatever fails; what comes last first
      closing.callback(checkpoint.finish, manager)
      if journal:
        closing.callback(journal.close)
      closing.callback(batches.close)
      closing.callback(trace.close)
      for step, batch in clock.watch(batches):
        clock.captions += int((batch['captions'][..., 0] != PAD).sum()) * hosts
        trace.before(step, state.step)
        if buckets:
          fitting = min(b for b in buckets if b >= order.longest(step))
          batch['captions'] = batch['captions'][..., :fitting]
        on_devices = {**features.fill(to_devices(batch, mesh)), 'tables': tables}
        if look:
          drawn = {k: draw(state.params, state.step, on_devices) for k, draw in draw_steps.items()}
          waiting = {k: functools.partial(own_rows, x, mesh) for k, x in drawn.items()}
          seen = look(waiting, batch['video_index'])
          on_devices['drawn'] = {**drawn, **to_devices(seen, mesh)}
        with first_nan(step, batch['video_index'], ids):
          state, report = train_step(state, on_devices)
        agreed = agree(bool(stop_signal.received), mesh)
        pending.append((step, report, batch['video_index'], agreed))
        done = step + 1
        ending = ''
        at_end, at_eval = done == total_steps, done % eval_steps == 0 or done == total_steps
        every = config.log.every_steps
        logs = at_end or (every and done % every == 0)
        if step == first and not logs:
          clock.compiled(done)
        # One step behind, so that reading a result does not keep the device waiting.
        while len(pending) > (0 if logs or at_eval else 1):
          at, seen, rows, agreed = pending.popleft()
          check_finite(at, seen, rows, ids, config.train.max_skipped, say)
          stop |= bool(agreed)
        if logs:
          values = jax.device_get(report)
          record = {k: float(v) for k, v in values.items() if k not in ('finite', 'skipped')}
          skipped = int(values['skipped'])  # after which the schedule is that many steps behind
          record |= {'learning_rate': float(schedule(max(0, step - skipped))), 'skipped': skipped}
          record |= {'epoch': done / order.steps_per_epoch, **clock.read(done)}
          if journal:
            journal.write(done, 'train', record)
          say(clock.line(done, record))
        if objective.stop and done % LOOK == 0:
          ending = objective.stop(jax.device_get(report))
          at_eval |= bool(ending)
        if at_eval:
          with clock.paused():
            scores = validate(state.params)
            score = from_main(scores.get(config.eval.metric, float('nan')))
            update_progress(progress, done, score, config.eval.patience)
            if progress['stopped']:
              ending = f'no better {config.eval.metric} in {config.eval.patience} validations'
            progress['stopped'] = bool(ending)
            if journal:
              journal.write(done, config.data.val_split, scores)
            say(validation_line(done, scores, progress, config.eval.metric))
            save(done, state, score)
        between = config.checkpoint.every_steps and done % config.checkpoint.every_steps == 0
        if (between or stop) and not at_eval:
          save(done, state)
        if ending:
          say(f'{ending}: stopped')
        if stop or ending:
          break
    # It may have come in the last validation too, or while the last checkpoint was written.
    if stop or bool(agree(bool(stop_signal.received), mesh)):
      raise Preempted(
        stop_signal.received or signal.SIGTERM,
        f'saved step {done} of stage {stage!r} in {folder}',
      )
  return progress | {'steps': total_steps}


def _check_data(manifest: Manifest, meta: Mapping) -> None:
  """DataError if a checkpoint that training would go on from was trained on other data."""
  if meta['data']['hash'] != manifest.hash:
    raise DataError(
      f'the data set {manifest.name!r} has changed since this workdir was trained on it (hash '
      f'{meta["data"]["hash"]} there, {manifest.hash} now); use another --workdir, with '
      'config.train.init_from to start from its parameters'
    )


def _lengths(texts, vocabulary: Vocabulary, length: int) -> np.ndarray:
  """Tokens of every caption of a split, EOS included, video after video."""
  captions = (caption for video in texts for caption in video.captions)
  return np.array([(vocabulary.encode(c, length) != PAD).sum() for c in captions])


def most_frequent(captions: list[str]) -> list[str]:
  """The 100 most frequent captions, ties in order of first appearance."""
  return [caption for caption, _ in collections.Counter(captions).most_common(TOP_CAPTIONS)]


def _silent(*_) -> None:
  """What the other processes say."""
