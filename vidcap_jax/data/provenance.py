"""How a build turned feature files into records, so that prediction does the same.

A checkpoint stores ``FeatureProvenance.to_dict`` of the streams that its model reads, as ``making``
in its ``meta``.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from vidcap_jax.data.schema import Manifest, Stream, stream_from_dict

READ_OPTIONS = ('layouts', 'keys', 'rows', 'readers')  # how feature files are read
SELECTION_OPTIONS = ('max_frames', 'max_regions', 'blocks', 'align')  # which features are stored

# Options of ``data_prep.build`` as in ``Manifest.source``: option -> stream name -> value, but
# ``align`` has groups of streams, 'image+motion', in place of stream names.
Options = Mapping[str, Mapping]


@dataclasses.dataclass(frozen=True)
class FeatureProvenance:
  """How the records of some streams were made from feature files.

  Attributes:
    streams: the streams that a model reads.
    alignment_streams: streams that it doesn't read, but that decide which frames of the others are
      stored.
    options: the build's options for all these streams.
  """

  streams: tuple[Stream, ...]
  alignment_streams: tuple[Stream, ...] = ()
  options: Options = dataclasses.field(default_factory=dict)

  def to_dict(self) -> dict:
    """JSON-ready, without ``streams``, which a checkpoint stores anyway."""
    alignment_streams = [dataclasses.asdict(stream) for stream in self.alignment_streams]
    return {'beside': alignment_streams, 'options': self.options}


def provenance_of(manifest: Manifest, streams: Sequence[Stream]) -> FeatureProvenance:
  """The provenance of some of a data set's streams."""
  read = {stream.name for stream in streams}
  names = aligned_with(manifest.source, read)
  alignment_streams = (stream for stream in manifest.streams if stream.name in names - read)
  options = options_of(manifest.source, names)
  return FeatureProvenance(tuple(streams), tuple(alignment_streams), options)


def from_dict(data: Mapping, streams: Sequence[Stream]) -> FeatureProvenance:
  """The inverse of ``FeatureProvenance.to_dict``; ``{}`` for old checkpoints that lack it."""
  alignment_streams = tuple(stream_from_dict(stream) for stream in data.get('beside', ()))
  return FeatureProvenance(tuple(streams), alignment_streams, data.get('options', {}))


def aligned_with(options: Options, names: Collection[str]) -> set[str]:
  """The named streams, and all streams that decide with them how many frames are stored."""
  groups = [
    set(group.split('+')) for group, policy in options.get('align', {}).items() if policy != 'error'
  ]
  groups.append(set(_limited_blocks(options)))
  found = set(names)
  while overlapping := [group for group in groups if group & found and not group <= found]:
    found.update(*overlapping)
  return found


def options_of(options: Options, names: Collection[str]) -> dict[str, dict]:
  """The part of the options that concerns the named streams; empty options are left out."""
  all_values = {option: options.get(option, {}) for option in (*READ_OPTIONS, *SELECTION_OPTIONS)}
  all_values['blocks'] = _limited_blocks(options)
  found = {
    option: {name: value for name, value in values.items() if name in names}
    for option, values in all_values.items()
  }
  groups = {
    group: [name for name in group.split('+') if name in names]
    for group in options.get('align', {})
  }
  found['align'] = {
    '+'.join(members): options['align'][group]
    for group, members in groups.items()
    if len(members) > 1
  }
  return {option: values for option, values in found.items() if values}


def _limited_blocks(options: Options) -> Mapping:
  """The option ``blocks`` if a stream in it has a limit of frames, {} otherwise.

  Only then are whole blocks of all its streams left out of videos that are too long.
  """
  blocks = options.get('blocks', {})
  return blocks if blocks.keys() & options.get('max_frames', {}).keys() else {}
