"""What a build did to features on their way into records: for prediction to do it again.

A checkpoint carries ``Making.to_dict`` of the streams that its model reads.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from vidcap_jax.data.schema import Manifest, Stream, stream_from_dict

FILES = ('layouts', 'keys', 'rows', 'readers')  # how files are read
KEPT = ('max_frames', 'max_regions', 'blocks', 'align')  # what is kept of what is in them

# Options of ``data_prep.build`` as ``Manifest.source`` holds them, by those names: by stream, but
# ``align`` by 'image+motion'.
Options = Mapping[str, Mapping]


@dataclasses.dataclass(frozen=True)
class Making:
  """How records came of features as found.

  Attributes:
    streams: those that a model reads.
    beside: those that it does not read, but that decide which frames of the others are kept.
    options: of all these.
  """

  streams: tuple[Stream, ...]
  beside: tuple[Stream, ...] = ()
  options: Options = dataclasses.field(default_factory=dict)

  def to_dict(self) -> dict:
    """As JSON, without the streams themselves, which a checkpoint has anyway."""
    return {'beside': [dataclasses.asdict(s) for s in self.beside], 'options': self.options}


def making_of(manifest: Manifest, streams: Sequence[Stream]) -> Making:
  """How some of a data set's streams were made."""
  read = {s.name for s in streams}
  names = tied(manifest.source, read)
  beside = (s for s in manifest.streams if s.name in names - read)
  return Making(tuple(streams), tuple(beside), options_of(manifest.source, names))


def from_dict(data: Mapping, streams: Sequence[Stream]) -> Making:
  """The inverse of ``Making.to_dict``; ``{}`` is of checkpoints that do not say."""
  beside = tuple(stream_from_dict(s) for s in data.get('beside', ()))
  return Making(tuple(streams), beside, data.get('options', {}))


def tied(options: Options, names: Collection[str]) -> set[str]:
  """Streams, and all those that decide with them how many frames are kept of each."""
  groups = [{*g.split('+')} for g, policy in options.get('align', {}).items() if policy != 'error']
  groups.append({*_clock(options)})
  found = set(names)
  while more := [group for group in groups if group & found and not group <= found]:
    found.update(*more)
  return found


def options_of(options: Options, names: Collection[str]) -> dict[str, dict]:
  """What the options say of these streams."""
  by_stream = {option: options.get(option, {}) for option in (*FILES, *KEPT)}
  by_stream['blocks'] = _clock(options)
  found = {o: {k: v for k, v in of.items() if k in names} for o, of in by_stream.items()}
  groups = {k: [n for n in k.split('+') if n in names] for k in options.get('align', {})}
  found['align'] = {'+'.join(g): options['align'][k] for k, g in groups.items() if len(g) > 1}
  return {option: of for option, of in found.items() if of}


def _clock(options: Options) -> Mapping:
  """``blocks``, if units of that clock are left out of videos that are too long."""
  blocks = options.get('blocks', {})
  return blocks if blocks.keys() & options.get('max_frames', {}).keys() else {}
