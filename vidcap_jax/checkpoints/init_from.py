"""Initialises a stage's parameters from another run's checkpoint (``train.init_from``)."""

from collections.abc import Callable, Mapping, Sequence

import jax
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint, restore, transfer
from vidcap_jax.data.schema import Stream, stream_from_dict
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.distributed import mesh
from vidcap_jax.models import sharding
from vidcap_jax.models.streams import differences


def source_of(setting: str, workdir: epath.Path) -> str:
  """The folder that a setting like ``train.init_from`` names, by 'stage:NAME' or a path."""
  if setting.startswith('stage:'):
    return str(workdir / 'checkpoints' / setting.removeprefix('stage:'))
  return setting


def start_from(
  path: epath.Path,
  params,
  config: ConfigDict,
  vocabulary: Vocabulary,
  streams: Sequence[Stream],
  log: Callable[[str], None],
):
  """Copies a checkpoint's parameters into the initial ones, and logs every difference.

  Args:
    path: a step folder of any run.
    params: initial parameters, sharded.
    config: of the stage that is to be trained.
    vocabulary: its vocabulary.
    streams: the streams that its model reads.
    log: called with each line.

  Returns:
    The new parameters, sharded as ``params`` are.

  Raises:
    DataError: no checkpoint there, a damaged one, or one of which no parameter fits.
  """
  meta = checkpoint.read_meta(path)
  new_params, changed = transfer.transfer(
    checkpoint.read_params_as_saved(path),
    mesh.to_host(params),
    sharding.vocabulary_axes(restore.params_by_size(streams, config)),
    Vocabulary.from_dict(meta['vocabulary']),
    vocabulary,
  )
  changed = [*_feature_differences(meta, streams, config), *changed]
  log(f'parameters from {path}' + (':' if changed else ', all of them'))
  for line in changed:
    log(f'  {line}')
  return jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), new_params, params)


def _feature_differences(meta: Mapping, streams: Sequence[Stream], config: ConfigDict) -> list[str]:
  """How the features differ from those that the checkpoint was trained on, a line each."""
  lines = []
  trained, now = meta['config']['data']['standardise'], config.data.standardise
  if trained != now:
    lines.append(f'data.standardise: {trained} in the checkpoint, {now} here')
  saved_streams = {stream.name: stream for stream in map(stream_from_dict, meta['streams'])}
  for stream in streams:
    if not (saved := saved_streams.get(stream.name)):
      continue
    for field, (old, new) in differences(saved, stream).items():
      lines.append(f'stream {stream.name!r}: {field} {old!r} in the checkpoint, {new!r} here')
    if trained and now and (saved.mean, saved.std) != (stream.mean, stream.std):
      lines.append(f"stream {stream.name!r}: standardised by this data set's mean and deviation")
  return lines
