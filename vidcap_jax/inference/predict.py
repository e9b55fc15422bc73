"""Captions for new videos from a checkpoint: video files, or features of them.

One JSON object a line on stdout for each video; what fails is named on stderr and makes the exit
code 1. Video files are turned into features as the checkpoint's streams were made, or refused.
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
from vidcap_jax.inference import captioning
from vidcap_jax.inference.inputs import videos_of

# Videos captioned at a time: few, so that captions of a long list appear as it is worked through.
GROUP = 8


def predict(
  restored: Restored,
  inputs: str,
  others: Sequence[Restored] = (),
  weights: Sequence[float] | None = None,
) -> int:
  """Captions what ``--inputs`` names; returns the exit code, 1 if anything failed.

  Args:
    restored: the checkpoint.
    inputs: see ``inputs.videos_of``.
    others: checkpoints that caption together with the first, see ``captioning.ensemble_of``.
    weights: of the first and the others; None: all alike.

  Raises:
    ConfigError: a model makes no captions, or they don't fit together.
    DataError: they read streams that were made differently, or as of ``inputs.videos_of``.
  """
  members = (restored, *others)
  if others:
    caption = captioning.ensemble_of(members, weights, GROUP).caption
  else:
    caption = captioning.captioner_of(restored, GROUP)
  videos = videos_of(_provenance_of(members), inputs)
  failed, done = 0, list[str]()
  group: list[Video] = []

  def say(text: str) -> None:
    if mesh.is_main():
      print(text, file=sys.stderr, flush=True)

  def flush() -> None:
    for made in caption(group, done):
      if mesh.is_main():
        print(json.dumps(made, ensure_ascii=False), flush=True)
    group.clear()

  for where, video in videos:
    if isinstance(video, str):
      failed += 1
      say(video if video.startswith(where) else f'{where}: {video}')
      continue
    if video.video_id in done:
      say(f'{where}: a second video called {video.video_id!r}')
    done.append(video.video_id)
    group.append(video)
    if len(group) == GROUP:
      flush()
  if group:
    flush()
  for member in members:
    if done and member.key_frames:
      say(lacking(member.key_frames, done))
  if failed:
    say(f'{failed} of {failed + len(done)} inputs failed')
  return 1 if failed else 0


def _provenance_of(members: Sequence[Restored]) -> FeatureProvenance:
  """How the streams that any of the models reads were made.

  Raises:
    DataError: two models were trained on streams of one name that were made differently.
  """
  read: dict[str, Stream] = {}
  alignment: dict[str, Stream] = {}
  told: dict[str, dict] = {}  # by stream, what the first model that reads it was told
  options: dict[str, dict] = {}
  for member in members:
    made = provenance.from_dict(member.meta.get('making', {}), member.streams)
    for stream in (*made.streams, *made.alignment_streams):
      (read if stream in made.streams else alignment).setdefault(stream.name, stream)
      mine = {field: getattr(stream, field) for field in _SAME}
      if 'making' in member.meta:
        kept = provenance.options_of(
          made.options, provenance.aligned_with(made.options, {stream.name})
        )
        mine |= {f'--{option}': kept.get(option, {}) for option in provenance.SELECTION_OPTIONS}
      known = told.setdefault(stream.name, mine)
      _refuse_differing(f'stream {stream.name!r}', member, known, mine)
    # Of streams that only one of them reads there would be two clocks, and the build knows of one.
    if 'blocks' in made.options and 'blocks' in options:
      _refuse_differing('streams on a clock', member, options, made.options, ('blocks',))
    for option, of in made.options.items():
      options[option] = {**of, **options.get(option, {})}
  return FeatureProvenance(
    tuple(read.values()), tuple(s for n, s in alignment.items() if n not in read), options
  )


# What makes two streams of a name one to a model.
_SAME = ('kind', 'channels', 'dtype', 'extractor', 'version', 'sampling')


def _refuse_differing(
  what: str, member: Restored, known: Mapping, mine: Mapping, fields: Iterable[str] = ()
) -> None:
  for field in fields or known.keys() & mine.keys():
    if known[field] != mine[field]:
      raise DataError(
        f'{what}: {member.path} was trained on {field} {mine[field]!r}, another checkpoint on '
        f'{known[field]!r}; caption with each of them by itself'
      )
