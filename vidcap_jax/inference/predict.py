"""Captions for new videos from a checkpoint: video files, or features of them.

Prints one JSON object a line for each video; inputs that fail are listed on stderr, and the exit
code is 1. Features of video files are extracted as those of the training data were, or refused.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data import provenance
from vidcap_jax.data.key_frames import lacking
from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import DataError
from vidcap_jax.failures import FailureLog
from vidcap_jax.inference import captioning
from vidcap_jax.inference.inputs import videos_of

BATCH = 8  # videos captioned at a time; small, so that captions of a long list appear early

# Fields that must be equal in streams of the same name that two models read.
_STREAM_FIELDS = ('kind', 'channels', 'dtype', 'extractor', 'version', 'sampling')


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
    inputs: see ``inputs.videos_of``.
    others: checkpoints that caption together with the first, see ``captioning.ensemble_of``.
    weights: of the first and the others; None: equal weights.
    pictures, frame_rate: see ``inputs.videos_of``.

  Raises:
    ConfigError: a model makes no captions, or the models don't fit together.
    DataError: the models read streams that were made differently, or as for ``inputs.videos_of``.
  """
  members = (restored, *others)
  if others:
    caption = captioning.ensemble_of(members, weights, BATCH).caption
  else:
    caption = captioning.captioner_of(restored, BATCH)
  videos = videos_of(_joint_provenance(members), inputs, pictures, frame_rate)
  failed, ids = 0, list[str]()
  failures = FailureLog(_log)
  batch: list[Video] = []
  for where, video in videos:
    if isinstance(video, str):
      failed += 1
      failures.fail(where, video)
      continue
    failures.succeed()
    if video.video_id in ids:
      _log(f'{where}: a second video called {video.video_id!r}')
    ids.append(video.video_id)
    batch.append(video)
    if len(batch) == BATCH:
      _print_captions(caption(batch, ids))
      batch = []
  if batch:
    _print_captions(caption(batch, ids))
  failures.close()
  for member in members:
    if ids and member.key_frames:
      _log(lacking(member.key_frames, ids))
  if failed:
    _log(f'{failed} of {failed + len(ids)} inputs failed')
  return 1 if failed else 0


def _log(text: str) -> None:
  if mesh.is_main():
    print(text, file=sys.stderr, flush=True)


def _print_captions(captions: Iterable[Mapping]) -> None:
  for caption in captions:
    if mesh.is_main():
      print(json.dumps(caption, ensure_ascii=False), flush=True)


def _joint_provenance(members: Sequence[Restored]) -> FeatureProvenance:
  """The provenance of all streams that the models read.

  Raises:
    DataError: two models were trained on streams of the same name that were made differently.
  """
  streams: dict[str, Stream] = {}
  alignment_streams: dict[str, Stream] = {}
  fields_by_stream: dict[str, dict] = {}  # as the first model that reads the stream has them
  options: dict[str, dict] = {}
  for member in members:
    made = provenance.from_dict(member.meta.get('making', {}), member.streams)
    for stream in (*made.streams, *made.alignment_streams):
      target = streams if stream in made.streams else alignment_streams
      target.setdefault(stream.name, stream)
      fields = {field: getattr(stream, field) for field in _STREAM_FIELDS}
      if 'making' in member.meta:
        fields |= _selection_fields(made, stream)
      first_fields = fields_by_stream.setdefault(stream.name, fields)
      _check_equal(f'stream {stream.name!r}', member, first_fields, fields)
    # Streams have one common clock of blocks, so the models must have been trained with the same.
    if 'blocks' in made.options and 'blocks' in options:
      _check_equal('streams cut into blocks', member, options, made.options, ('blocks',))
    for option, values in made.options.items():
      options[option] = {**values, **options.get(option, {})}
  return FeatureProvenance(
    tuple(streams.values()),
    tuple(stream for name, stream in alignment_streams.items() if name not in streams),
    options,
  )


def _selection_fields(made: FeatureProvenance, stream: Stream) -> dict[str, Mapping]:
  """The options by which a build selects frames of a stream and of those aligned with it."""
  aligned = provenance.aligned_with(made.options, {stream.name})
  options = provenance.options_of(made.options, aligned)
  return {f'--{option}': options.get(option, {}) for option in provenance.SELECTION_OPTIONS}


def _check_equal(
  what: str, member: Restored, first: Mapping, fields: Mapping, names: Iterable[str] = ()
) -> None:
  """Raises DataError if fields of a member differ from those of an earlier one."""
  for name in names or first.keys() & fields.keys():
    if first[name] != fields[name]:
      raise DataError(
        f'{what}: {member.path} was trained on {name} {fields[name]!r}, another checkpoint on '
        f'{first[name]!r}; caption with each checkpoint separately'
      )
