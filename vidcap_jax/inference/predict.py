"""Captions for new videos from a checkpoint: video files, or features of them.

As a command it prints one JSON object a line for each video; inputs that fail are listed on stderr,
and the exit code is 1. Features of video files are extracted as those of the training data were, or
refused.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.counts import counted
from vidcap_jax.data.key_frames import lacking
from vidcap_jax.data.records import Video
from vidcap_jax.distributed import mesh
from vidcap_jax.failures import FailureLog
from vidcap_jax.inference import captioning
from vidcap_jax.inference.feature_inputs import Input
from vidcap_jax.inference.inputs import find_inputs, read_input, split
from vidcap_jax.inference.members import joint_provenance
from vidcap_jax.inference.result import Candidate, Result

BATCH = 8  # videos captioned at a time; small, so that captions of a long list appear early

# Captions videos, as a ``captioning.CaptionFn``; entries may have the ``attention`` of results.
CaptionBatch = Callable[[Sequence[Video], Sequence[str]], Sequence[Mapping[str, Any]]]


def caption_inputs(
  inputs: Iterable[Input], caption: CaptionBatch, size: int = BATCH
) -> Iterator[Result]:
  """Reads and captions videos, some at a time; yields a result for each input, in their order.

  Args:
    inputs: a bad one has a result with its error and doesn't stop the others.
    caption: captions the videos of a batch; ids of all videos before are given, too.
    size: videos of a batch.
  """
  ids: list[str] = []
  videos: list[Video] = []
  waiting: list[Result] = []  # the results of the batch, those of videos still without captions

  def finish() -> Iterator[Result]:
    captions = iter(caption(videos, ids) if videos else ())
    for result in waiting:
      yield result if result.error is not None else as_result(next(captions), result)
    videos.clear()
    waiting.clear()

  for each in inputs:
    notes: list[str] = []
    video = read_input(each, notes)
    error = video if isinstance(video, str) else None
    waiting.append(Result(each.video_id, error=error, source=each.source, notes=tuple(notes)))
    if isinstance(video, Video):
      videos.append(video)
      ids.append(video.video_id)
    if len(videos) in (0, size):
      yield from finish()
  yield from finish()


def as_result(made: Mapping[str, Any], read: Result | None = None) -> Result:
  """The result of a video that was captioned.

  Args:
    made: an entry of what a ``CaptionBatch`` or a captions.json holds.
    read: the result of reading the video, if it was read here.
  """
  candidates = made.get('captions', [made])
  return dataclasses.replace(
    read or Result(made['video_id']),
    caption=made['caption'],
    log_prob=made['log_prob'],
    captions=tuple(Candidate(each['caption'], each['log_prob']) for each in candidates),
    attention=made.get('attention', {}),
  )


def predict(
  restored: Restored,
  inputs: str,
  others: Sequence[Restored] = (),
  weights: Sequence[float] | None = None,
  pictures: str = 'auto',
  frame_rate: str | None = None,
) -> int:
  """Captions what ``--inputs`` names; returns the exit code, 1 if an input failed.

  Args:
    restored: the checkpoint.
    inputs: the parts of ``inputs.find_inputs``, with commas between them.
    others: checkpoints that caption together with the first, see ``captioning.ensemble_of``.
    weights: of the first and the others; None: equal weights.
    pictures, frame_rate: see ``inputs.find_inputs``.

  Raises:
    ConfigError: a model makes no captions, or the models don't fit together.
    DataError: the models read streams that were made differently, or as for
      ``inputs.find_inputs``.
  """
  members = (restored, *others)
  caption = captioning.caption_fn(members, weights, BATCH)
  found = find_inputs(joint_provenance(members), split(inputs), pictures, frame_rate)
  failed, ids = 0, dict[str, None]()
  failures = FailureLog(_log)
  for result in _stop_on_call_errors(caption_inputs(found, caption)):
    for note in result.notes:
      _log(note)
    if result.error is not None:
      failed += 1
      failures.fail(result.source, result.error)
      continue
    failures.succeed()
    if result.video_id in ids:
      _log(f'{result.source}: a second video called {result.video_id!r}')
    ids[result.video_id] = None
    if mesh.is_main():
      print(json.dumps(result.to_dict(), ensure_ascii=False), flush=True)
  failures.close()
  for member in members:
    if ids and member.key_frames:
      _log(lacking(member.key_frames, ids))
  if failed:
    _log(f'{failed} of {counted(len(found), "input")} failed')
  return 1 if failed else 0


def _stop_on_call_errors(results: Iterable[Result]) -> Iterator[Result]:
  """The results; CallError if the first ones all failed because of a fault in the program."""
  from vidcap_jax.features.stream_folders import stop_on_call_errors

  pairs = stop_on_call_errors(
    ((each.source, each) for each in results), lambda each: each.error or ''
  )
  return (result for _, result in pairs)


def _log(text: str) -> None:
  if mesh.is_main():
    print(text, file=sys.stderr, flush=True)
