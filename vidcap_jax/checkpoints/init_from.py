"""Where a stage's parameters come from when they are not random: another run's checkpoint."""

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
  """The folder that ``train.init_from`` or ``eval.fallback`` means: 'stage:NAME' or a path."""
  if setting.startswith('stage:'):
    return str(workdir / 'checkpoints' / setting.removeprefix('stage:'))
  return setting


def start_from(
  path: epath.Path,
  params,
  config: ConfigDict,
  vocabulary: Vocabulary,
  streams: Sequence[Stream],
  say: Callable[[str], None],
):
  """Our initial parameters with those of another run's checkpoint put in; says what differs."""
  meta = checkpoint.read_meta(path)
  moved, changed = transfer.transfer(
    checkpoint.read_params_as_saved(path),
    mesh.to_host(params),
    sharding.vocabulary_axes(restore.params_by_size(streams, config)),
    Vocabulary.from_dict(meta['vocabulary']),
    vocabulary,
  )
  changed = [*_other_features(meta, streams, config), *changed]
  say(f'parameters from {path}' + (':' if changed else ', all of them'))
  for line in changed:
    say(f'  {line}')
  return jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), moved, params)


def _other_features(meta: Mapping, streams: Sequence[Stream], config: ConfigDict) -> list[str]:
  """What is fed to the parameters otherwise than where they were trained, a line each."""
  lines = []
  trained, now = meta['config']['data']['standardise'], config.data.standardise
  if trained != now:
    lines.append(f'data.standardise: {trained} in the checkpoint, {now} here')
  theirs = {stream.name: stream for stream in map(stream_from_dict, meta['streams'])}
  for ours in streams:
    if not (before := theirs.get(ours.name)):
      continue
    for field, (old, new) in differences(before, ours).items():
      lines.append(f'stream {ours.name!r}: {field} {old!r} in the checkpoint, {new!r} here')
    if trained and now and (before.mean, before.std) != (ours.mean, ours.std):
      lines.append(f"stream {ours.name!r}: standardised by this data set's mean and deviation")
  return lines
