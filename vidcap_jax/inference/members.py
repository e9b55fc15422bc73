"""The checkpoints that caption together: one, or several as an ensemble."""

import os
from collections.abc import Iterable, Mapping, Sequence

from etils import epath
from jax.sharding import Mesh

from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data import provenance
from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.schema import Stream
from vidcap_jax.decoding.ensemble import check_weights
from vidcap_jax.errors import DataError, UserError

# Fields that must be equal in streams of the same name that two models read.
_STREAM_FIELDS = ('kind', 'channels', 'dtype', 'extractor', 'version', 'sampling')


def find_members(
  paths: Sequence[str | os.PathLike[str]],
  weights: Sequence[float] | None = None,
  setting: str = '--checkpoint',
) -> list[epath.Path]:
  """The step folders of checkpoints; weights and paths are checked before any is read.

  Args:
    paths: workdirs, stage folders or step folders, see ``restore.find_checkpoint``.
    weights: of an ensemble; None: equal weights.
    setting: the flag or argument that holds the paths, for messages.

  Raises:
    UserError: no checkpoint, or weights that don't fit.
  """
  names = [os.fspath(path) for path in paths]
  if not names or not all(names):
    raise UserError(
      f'{setting}={",".join(names)}: an empty name, as before or after a comma; give workdirs or '
      'step folders'
    )
  if weights is not None:
    if len(names) == 1:
      flag = '--weights' if setting.startswith('--') else 'weights'
      raise UserError(f'{flag} needs several checkpoints, and there is one: leave it out')
    check_weights(weights, len(names))
  return [restore.find_checkpoint(name, setting) for name in names]


def restore_members(
  paths: Sequence[epath.Path], mesh: Mesh, decode: Sequence[str] = ()
) -> list[Restored]:
  """Restores checkpoints; ``decode`` as for ``restore.restore``."""
  return [restore.restore(path, mesh, decode) for path in paths]


def joint_provenance(members: Sequence[Restored]) -> FeatureProvenance:
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
