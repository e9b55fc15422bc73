"""Where a stage's parameters come from when they are not random: another run's checkpoint."""

from collections.abc import Callable, Sequence

import jax
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax import checkpoint, distributed, restore, transfer
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import Vocabulary


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
  theirs = Vocabulary.from_dict(checkpoint.read_meta(path)['vocabulary'])
  moved, differences = transfer.transfer(
    checkpoint.read_params_as_saved(path),
    distributed.to_host(params),
    transfer.vocabulary_axes(restore.params_by_size(streams, config)),
    theirs,
    vocabulary,
  )
  say(f'parameters from {path}' + (':' if differences else ', all of them'))
  for line in differences:
    say(f'  {line}')
  return jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), moved, params)
