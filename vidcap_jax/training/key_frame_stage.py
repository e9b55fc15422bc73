"""The key frames that a trained model chooses, saved by a stage and fixed in a later one.

A stage whose ``task`` is 'key_frames' writes WORKDIR/key_frames/STAGE.json. ``data.key_frames``
names such a stage or file to train with; its table becomes a part of the checkpoints, so that
evaluation needs no file.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from etils import epath
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import init_from, restore
from vidcap_jax.data import key_frames
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import Stream, read_manifest
from vidcap_jax.data.texts import read_texts
from vidcap_jax.data.vocabulary import BOS
from vidcap_jax.distributed.mesh import is_main, to_devices, to_host
from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import evaluate
from vidcap_jax.inference import captioning
from vidcap_jax.models.captioner import Needs, bind
from vidcap_jax.models.streams import to_inputs

# The attention whose largest weight is a model's key frame.
ATTENTION = 'keyframe'


def key_frame_file(setting: str, workdir: epath.Path) -> epath.Path:
  """The file that ``data.key_frames`` means: 'stage:NAME' or a path."""
  if setting.startswith('stage:'):
    return workdir / 'key_frames' / f'{setting.removeprefix("stage:")}.json'
  return epath.Path(setting)


def read_key_frames(config: ConfigDict, needs: Needs, workdir: epath.Path) -> dict[str, int]:
  """Video id -> key frame from the file that ``data.key_frames`` names; {} where that is \'\'.

  Raises:
    ConfigError: the model does not take key frames from outside.
    DataError: no such file, or its frames were counted with another data.max_frames.
  """
  setting = config.data.key_frames
  if setting and not needs.key_frames:
    raise ConfigError(
      f"config.data.key_frames={setting}: model {config.model.name!r} takes none; set it to ''"
    )
  return (
    key_frames.load(key_frame_file(setting, workdir), config.data.max_frames) if setting else {}
  )


def check_named(config: ConfigDict, stage: str) -> None:
  """ConfigError where ``train.init_from`` names no model that is to choose."""
  if not config.train.init_from:
    raise ConfigError(
      f"stage {stage!r} has task 'key_frames' and no train.init_from; name the stage or "
      "checkpoint whose model is to choose, e.g. 'stage:joint'"
    )


def choose_key_frames(config: ConfigDict, stage: str, workdir: epath.Path, mesh: Mesh) -> dict:
  """A stage that trains nothing: the key frames of a model for every split of the data set.

  Args:
    config: the stage's own; the best checkpoint of ``train.init_from`` chooses.
    stage: its name.
    workdir: WORKDIR/key_frames/STAGE.json is written.
    mesh: of all devices.

  Returns:
    The checkpoint, the file and the number of videos.

  Raises:
    ConfigError: no ``train.init_from``, or a model that chooses no key frame or takes none.
    DataError: no checkpoint there.
  """
  check_named(config, stage)
  source = init_from.source_of(config.train.init_from, workdir)
  path = restore.find_checkpoint(source, 'config.train.init_from')
  restored = restore.restore(path, mesh)
  manifest = read_manifest(config.data.dir)
  evaluate.check_streams(restored, manifest, config.data.dir)
  if not restored.module.config.needs.key_frames:
    raise ConfigError(
      f'{path}: model {restored.config.model.name!r} has no key frames that could be fixed later'
    )
  chosen = make_program(restored.config, restored.module, restored.streams, str(path))
  splits = {split: _of_split(restored, chosen, config.data.dir, split) for split in manifest.splits}
  file = key_frame_file(f'stage:{stage}', workdir)
  if is_main():
    key_frames.save(file, splits, str(path), restored.config.data.max_frames)
    counts = ', '.join(f'{split} {len(frames)}' for split, frames in splits.items())
    print(f'[{stage}] key frames by {path}: {counts}; written to {file}', flush=True)
  videos = sum(len(frames) for frames in splits.values())
  return {'checkpoint': str(path), 'key_frames': str(file), 'videos': videos}


def make_program(
  config: ConfigDict, module: nn.Module, streams: Sequence[Stream], where: str
) -> jax.stages.Wrapped:
  """A jitted function (params, batch) -> (B,): the frame of the largest key-frame weight.

  Of equal weights the first counts. Tracing it raises ConfigError if the model chooses no key
  frame.

  Args:
    config, module, streams: a stage's or a checkpoint's.
    where: the stage or checkpoint, for that message.
  """

  @jax.jit
  def chosen(params, batch):
    captioner = bind(module, params)
    inputs = to_inputs(batch, streams, config.data.standardise)
    memory = captioner.encode(inputs, None, train=False)
    x = captioner.embed(jnp.full((inputs.batch_size, 1), BOS, jnp.int32), None)
    _, _, extras = captioner.step(captioner.start(memory, 1, 1), x, memory, None, train=False)
    if ATTENTION not in extras.attention:
      raise ConfigError(
        f'{where}: this model chooses no key frame: it has no attention {ATTENTION!r}, only: '
        f'{", ".join(extras.attention) or "none"}'
      )
    return jnp.argmax(extras.attention[ATTENTION][:, 0], axis=-1)

  return chosen


def _of_split(
  restored: restore.Restored, chosen: jax.stages.Wrapped, directory: str, split: str
) -> dict[str, int]:
  """Video id -> the key frame that the program ``chosen`` gives it."""
  source = open_split(directory, split)
  ids = [video.video_id for video in read_texts(source, restored.config.data.threads)]
  found: dict[str, int] = {}
  for _, rows in captioning.batches_of(restored, source, label=f'key frames, {split}'):
    batch = to_devices(rows, restored.mesh)
    index, frames = to_host((batch['video_index'], chosen(restored.params, batch)))
    found |= {ids[i]: int(frame) for i, frame in zip(index, frames) if i >= 0}
  return found
