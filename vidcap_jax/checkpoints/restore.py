"""Finds a checkpoint and restores from it alone all that captioning needs."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from etils import epath
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import models
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.data.schema import Stream, stream_from_dict
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.decoding.decode import (
  CHECKPOINT_SETTINGS,
  DEFAULTS_FOR_OLD_CHECKPOINTS,
  check_decode,
  check_pass,
  check_width,
)
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.files import is_local, read_json
from vidcap_jax.models import sharding
from vidcap_jax.models.captioner import init_params, is_captioner, sharded_axes
from vidcap_jax.models.streams import example_inputs


@dataclasses.dataclass(frozen=True)
class Restored:
  """A restored checkpoint: the module, its parameters, and what it was trained on."""

  path: epath.Path
  meta: Mapping
  config: ConfigDict
  module: nn.Module
  params: Any
  mesh: Mesh
  vocabulary: Vocabulary
  streams: tuple[Stream, ...]

  @property
  def key_frames(self) -> Mapping[str, int]:
    """Video id -> the key frame that the model was trained with; {} if it chose its own."""
    return self.meta.get('key_frames', {})

  @property
  def length(self) -> int:
    """L, the most tokens of a caption in training, EOS included."""
    return (self.config.data.max_words or self.vocabulary.max_words) + 1

  def data_folder(self, given: str | None = None) -> str:
    """The folder of the data set to use: the given one, or the one that was trained on.

    Raises:
      DataError: nothing is given, and the data set that was trained on is not there.
    """
    trained_on = self.config.data.dir
    if not (given or trained_on):
      raise DataError(f'{self.path} was imported, so its data set is not known; give --data=DIR')
    if given or not is_local(trained_on) or epath.Path(trained_on).is_dir():
      return given or trained_on
    start = self.meta.get('data', {}).get(
      'relative_to'
    )  # None for absolute paths, and before it existed
    if start is None and epath.Path(trained_on).is_absolute():
      raise DataError(
        f'{self.path} was trained on {trained_on}, which is no longer there; give --data=DIR'
      )
    where = f'in the folder {start}' if start else 'in another folder'
    raise DataError(
      f'{self.path} was trained {where} on {trained_on}, which is not in {pathlib.Path.cwd()}; '
      f'give --data={epath.Path(start) / trained_on if start else "DIR"}'
    )


def find_checkpoint(path: str, setting: str = '--checkpoint') -> epath.Path:
  """Finds the step folder of a checkpoint.

  Args:
    path: a step folder; a stage folder, for its best checkpoint; or a workdir, for the best
      checkpoint of its last finished stage that makes captions (of its last stage with checkpoints
      if none is finished).
    setting: the flag or config key that holds the path, for messages.

  Raises:
    DataError: no checkpoint there.
  """
  folder = epath.Path(path)
  if not folder.is_dir():
    raise DataError(f'{setting}={path}: no such folder')
  if (best := checkpoint.best_step(folder)) is not None:
    return folder / str(best)
  if folder.name.isdigit() and int(folder.name) in checkpoint.steps(folder.parent):
    return folder
  finished = finished_stages(folder)
  stages = [folder / 'checkpoints' / name for name in reversed(finished)]
  if not stages:
    parent = folder / 'checkpoints'
    stages = sorted(parent.iterdir(), key=lambda p: -p.stat().mtime) if parent.is_dir() else []
  found = [(stage, checkpoint.best_step(stage)) for stage in stages]
  paths = [stage / str(best) for stage, best in found if best is not None]
  if paths:
    # The last stage of a recipe may rank captions; users mean the captioner before it.
    return next((path for path in paths if not _ranks_captions(path)), paths[0])
  if seeds := sorted(str(run) for run in folder.glob('seed_*') if run.is_dir()):
    raise DataError(
      f'{setting}={path}: the runs of several seeds; give the workdir of one: {", ".join(seeds)}'
    )
  raise DataError(f'{setting}={path}: no checkpoint in this folder; give a workdir or step folder')


def _ranks_captions(path: epath.Path) -> bool:
  name = checkpoint.read_meta(path)['config']['model']['name']
  return not is_captioner(models.find(name)[1])


def finished_stages(workdir: epath.Path) -> dict[str, dict]:
  """The entries of a workdir's ``stages.json``: finished stages by name, in the order they ran."""
  path = workdir / 'stages.json'
  return read_json(path) if path.is_file() else {}


def restore(path: epath.Path, mesh: Mesh, decode: Sequence[str] = ()) -> Restored:
  """Restores a checkpoint from its step folder.

  Args:
    path: from ``find_checkpoint``.
    mesh: of all devices.
    decode: changes to the decoding settings, each 'key=value'; lists of words are comma-separated.

  Raises:
    DataError: no checkpoint there.
    ConfigError: an unknown decoding setting, or a value of another type.
  """
  meta = checkpoint.read_meta(path)
  config = ConfigDict(meta['config'])
  config.decode = ConfigDict({**DEFAULTS_FOR_OLD_CHECKPOINTS, **config.decode})
  for change in decode:
    _change(config.decode, change)
  vocabulary = Vocabulary.from_dict(meta['vocabulary'])
  if decode:  # what was saved before there was a limit is decoded all the same
    check_width(config.decode, len(vocabulary))
  check_decode(config.decode)
  streams = tuple(stream_from_dict(s) for s in meta['streams'])
  module = models.build(config.model, len(vocabulary), config.train.dtype)
  check_pass(config.decode, module)
  sizes = params_by_size(streams, config)
  choice = config.mesh.get('params', 'replicated')
  axes = sharded_axes(module)
  shardings = sharding.param_shardings(choice, mesh, len(vocabulary), sizes, axes)
  params = checkpoint.read_params(path, checkpoint.abstract(sizes(len(vocabulary)), shardings))
  return Restored(path, meta, config, module, params, mesh, vocabulary, streams)


def require_captioner(restored: Restored) -> None:
  """Raises ConfigError if the checkpoint's model makes no captions."""
  if not is_captioner(restored.module):
    raise ConfigError(
      f'{restored.path} is of model {restored.config.model.name!r}, which compares captions with '
      'videos and makes none; give the checkpoint of another stage, WORKDIR/checkpoints/STAGE, or '
      'score this one with --mode=evaluate'
    )


def with_decode(restored: Restored, changes: Mapping[str, Any]) -> Restored:
  """The checkpoint with other decoding settings.

  Args:
    restored: the checkpoint; it is not changed.
    changes: values by key of ``config.decode``.

  Raises:
    ConfigError: an unknown setting, a value of another type, or settings that don't fit together
      or the model.
  """
  config = restored.config.copy_and_resolve_references()
  with config.unlocked():
    for key, value in changes.items():
      _set(config.decode, key, value, f'{key}={value!r}')
  check_width(config.decode, len(restored.vocabulary))
  check_decode(config.decode)
  check_pass(config.decode, restored.module)
  return dataclasses.replace(restored, config=config)


def _change(decode: ConfigDict, change: str) -> None:
  key, _, value = change.partition('=')
  is_list = isinstance(decode.get(key), list | tuple)
  words = list(filter(None, value.split(',')))
  _set(decode, key, words if is_list else value, f'--decode={change}')


def _set(decode: ConfigDict, key: str, value: Any, where: str) -> None:
  """Sets a decoding setting to a value, converted to the type of its default."""
  known = {**CHECKPOINT_SETTINGS, **decode}
  if key not in known:
    raise ConfigError(f'{where}: unknown setting {key!r}; known: {", ".join(known)}')
  kind = type(known[key])
  if issubclass(kind, list | tuple) and isinstance(value, str):
    value = [value]
  try:
    converted = kind(value)
    if isinstance(converted, int) and converted != float(value):
      raise ValueError(value)
  except (TypeError, ValueError):
    raise ConfigError(f'{where}: {value!r} is not of type {kind.__name__}') from None
  decode[key] = converted


def params_by_size(streams: Sequence[Stream], config: ConfigDict) -> Callable[[int], Any]:
  """Returns a function of the vocabulary size V that gives the model's abstract parameters."""

  def sized_params(V):
    return abstract_params(models.build(config.model, V, config.train.dtype), streams, config)

  return sized_params


def abstract_params(module: nn.Module, streams: Sequence[Stream], config: ConfigDict) -> Any:
  """A module's parameters as ``jax.ShapeDtypeStruct``."""
  inputs = example_inputs(streams, config, module.config.needs)
  return jax.eval_shape(lambda key: init_params(module, key, inputs), jax.random.key(0))
