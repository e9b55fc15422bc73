"""What ``data_prep.build``'s options declare about feature streams, apart from their paths."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from vidcap_jax.data.schema import KINDS
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import layout, names

POLICIES = ('error', 'truncate', 'resample')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declarations:
  """The options of ``data_prep.build`` for streams; mappings have stream names as keys.

  Attributes:
    kinds: a key of ``schema.KINDS``.
    layouts: order of the axes, as in ``layout.parse``.
    keys: name of the array where a video has several.
    rows: id of the first row of a table without ids; the ids of later rows count up.
    readers: ``package.module:Class`` of a reader outside the package.
    match: rules of ``names.normal_form``.
    optional: streams that a video may lack.
    max_frames: largest number of frames; of longer videos, evenly spaced frames are kept.
    max_regions: largest number of regions a frame; of more, the highest-scored are kept.
    blocks: streams on one clock -> frames of one unit of the clock; ``max_frames`` then keeps whole
      units.
    align: 'image+motion' -> one of ``POLICIES``, for streams of equal length.
    bad: ``fail`` or ``skip`` for videos with unusable features; None: as for missing ones.
  """

  kinds: Mapping[str, str] = dataclasses.field(default_factory=dict)
  layouts: Mapping[str, str] = dataclasses.field(default_factory=dict)
  keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
  rows: Mapping[str, str] = dataclasses.field(default_factory=dict)
  readers: Mapping[str, str] = dataclasses.field(default_factory=dict)
  match: Sequence[str] = names.DEFAULT
  optional: Sequence[str] = ()
  max_frames: Mapping[str, int] = dataclasses.field(default_factory=dict)
  max_regions: Mapping[str, int] = dataclasses.field(default_factory=dict)
  blocks: Mapping[str, int] = dataclasses.field(default_factory=dict)
  align: Mapping[str, str] = dataclasses.field(default_factory=dict)
  bad: str | None = None


def check(declared: Declarations, streams: Collection[str]) -> None:
  """Raises DataError unless the declarations fit streams of the given names."""
  groups = {group: group.split('+') for group in declared.align}
  for option, mentioned in (
    ('--kinds', declared.kinds),
    ('--layout', declared.layouts),
    ('--keys', declared.keys),
    ('--rows', declared.rows),
    ('--readers', declared.readers),
    ('--blocks', declared.blocks),
    ('--optional', declared.optional),
    ('--max_frames', declared.max_frames),
    ('--max_regions', declared.max_regions),
    ('--align', [name for group in groups.values() for name in group]),
  ):
    for stream in mentioned:
      if stream not in streams:
        raise DataError(f'{option}: no stream {stream!r}; there are {", ".join(streams)}')
  for stream, kind in declared.kinds.items():
    if kind not in KINDS:
      raise DataError(f'--kinds: {stream}={kind}: unknown kind; known: {", ".join(KINDS)}')
  for stream, text in declared.layouts.items():
    axes = layout.parse(text)
    if declared.kinds.get(stream, axes.kind) != axes.kind:
      raise DataError(
        f'--layout={stream}={text} is a {axes.kind}, --kinds says {declared.kinds[stream]}; '
        'the layout alone is enough'
      )
  names.normal_form(declared.match)
  for option, limits in (
    ('--max_frames', declared.max_frames),
    ('--max_regions', declared.max_regions),
    ('--blocks', declared.blocks),
  ):
    for stream, limit in limits.items():
      if limit < 1:
        raise DataError(f'{option}={stream}={limit}: at least 1')
  for stream, block in declared.blocks.items():
    if declared.max_frames.get(stream, block) < block:
      raise DataError(
        f'--max_frames={stream}={declared.max_frames[stream]}: at least one unit of the clock, '
        f'{block} frames by --blocks'
      )
  grouped: list[str] = []
  for group, policy in declared.align.items():
    if policy not in POLICIES:
      raise DataError(f'--align={group}={policy}: {", ".join(POLICIES)}')
    if len(groups[group]) < 2 or {*grouped} & {*groups[group]}:
      raise DataError(f'--align={group}: two or more streams, and each stream in one group only')
    grouped += groups[group]
  if declared.bad not in (None, 'fail', 'skip'):
    raise DataError(f'--bad={declared.bad}: fail or skip')
