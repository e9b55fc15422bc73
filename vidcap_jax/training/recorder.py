"""What a training stage writes: progress lines, records of metrics and checkpoints."""

import collections
import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.data.provenance import provenance_of
from vidcap_jax.distributed.mesh import is_main
from vidcap_jax.evaluation import diversity, results
from vidcap_jax.files import is_local
from vidcap_jax.training.ledger import Ledger
from vidcap_jax.training.metric_log import MetricLog, Sample
from vidcap_jax.training.stage import Stage
from vidcap_jax.training.step import TrainState, to_saved
from vidcap_jax.training.train_data import TrainData

TOP_CAPTIONS = 100


class Recorder:
  """Writes a stage's metrics and checkpoints; on processes that don't log, checkpoints alone.

  Attributes:
    log: prints a progress line.
    folder: of the stage's checkpoints.
  """

  def __init__(
    self,
    workdir: epath.Path,
    meta: Mapping,
    log: Callable[[str], None],
    ledger: Ledger,
    *,
    step: int,
    keep: int,
    tensorboard: bool,
  ):
    """Opens for writing.

    Args:
      workdir: of the run.
      meta: the part of ``meta`` that all checkpoints of the stage share, see ``stage_meta``.
      log: prints a progress line.
      ledger: measures the time that saving takes.
      step: that training goes on from: later records of the stage are removed.
      keep: latest checkpoints that are kept besides the best one.
      tensorboard: whether to write files for it.
    """
    self.log = log
    self.folder = workdir / 'checkpoints' / meta['stage']
    self._meta, self._ledger = meta, ledger
    self._manager = checkpoint.open_manager(self.folder, keep)
    self._metrics = None
    if is_main():
      self._metrics = MetricLog(workdir, meta['stage'], step=step, tensorboard=tensorboard)

  def write(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
    """Adds a record to metrics.jsonl; ``kind`` is 'train' or the name of a split."""
    if self._metrics:
      self._metrics.write(step, kind, values)

  def write_captions(self, step: int, kind: str, samples: Sequence[Sample]) -> None:
    """Prints captions beside references, and adds them to the TensorBoard files.

    Args:
      step: that they are of.
      kind: the name of their split.
      samples: the captions.
    """
    for sample in samples:
      self.log(f'  {sample.video_id}: {sample.caption or "(empty)"}  [{sample.reference}]')
    if self._metrics:
      self._metrics.write_captions(step, kind, samples)

  def save(
    self, step: int, state: TrainState, progress: Mapping, score: float | None = None
  ) -> None:
    """Saves a checkpoint in the background."""
    jax.block_until_ready(state)  # which saving would wait for
    with self._ledger.measure('saving'):
      if self._metrics:
        self._metrics.flush()
      meta = {**self._meta, 'step': step, 'progress': dict(progress)}
      checkpoint.save(self._manager, step, state.params, to_saved(state), meta, score)
    self._ledger.mark(f'{self._meta["stage"]}/{step}')

  def close(self) -> None:
    """Closes the metric log and waits for the last checkpoint, even if one of them fails."""
    with self._ledger.measure('saving'), contextlib.ExitStack() as at_end:
      at_end.callback(checkpoint.finish, self._manager)
      if self._metrics:
        at_end.callback(self._metrics.close)


def stage_meta(config: ConfigDict, name: str, stage: Stage, data: TrainData) -> dict:
  """What all checkpoints of a stage have in ``meta``, see ``checkpoints/checkpoint.py``."""
  captions = [caption for video in data.texts for caption in video.captions]
  streams, vocabulary, manifest = stage.shape.streams, stage.vocabulary, stage.manifest
  return {
    'format': 1,
    'stage': name,
    'config': config.to_dict(),
    'vocabulary': vocabulary.to_dict(),
    'streams': [dataclasses.asdict(stream) for stream in streams],
    'making': provenance_of(manifest, streams).to_dict(),
    'data': {'name': manifest.name, 'hash': manifest.hash, **working_folder(config.data.dir)},
    'top_captions': most_frequent(captions),
    'captions': diversity.hash_captions(captions, vocabulary, stage.shape.length),
    'key_frames': data.key_frames,
    'versions': results.versions(),
  }


def working_folder(data: str) -> dict[str, str]:
  """The folder that a relative path of a data set starts from."""
  if not is_local(data) or pathlib.Path(data).is_absolute():
    return {}
  return {'relative_to': str(pathlib.Path.cwd())}


def most_frequent(captions: list[str]) -> list[str]:
  """The 100 most frequent captions, ties in order of first appearance."""
  return [caption for caption, _ in collections.Counter(captions).most_common(TOP_CAPTIONS)]
