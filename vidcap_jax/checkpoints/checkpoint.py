"""Saves and restores checkpoints with Orbax, which no other module uses.

A checkpoint is a folder ``…/checkpoints/STAGE/STEP`` of three items: ``params``; ``training``
(optimiser state and all else that training resumes from); ``meta``, JSON with the config, the
vocabulary, the streams and the progress, so that evaluation needs nothing but the folder.
"""

import contextlib
import functools
import json
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint import checkpoint_managers

from vidcap_jax.checkpoints import damage
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.files import absolute

SCORE = 'score'
# Orbax writes this file last: a step folder without it is not a checkpoint.
_COMPLETE = '_CHECKPOINT_METADATA'


def open_manager(directory: epath.Path, keep: int) -> ocp.CheckpointManager:
  """Opens a manager that keeps the latest ``keep`` checkpoints and the one with the best score."""
  read_score = lambda metrics: metrics[SCORE]  # noqa: E731
  policy = checkpoint_managers.AnyPreservationPolicy(
    [
      checkpoint_managers.LatestN(keep),
      checkpoint_managers.BestN(
        get_metric_fn=read_score, reverse=False, n=1, keep_checkpoints_without_metrics=False
      ),
    ]
  )
  options = ocp.CheckpointManagerOptions(
    preservation_policy=policy, best_fn=read_score, best_mode='max'
  )
  logging.getLogger('absl').addFilter(_is_relevant)
  # Orbax needs an absolute path, and would fail only in the background of a save.
  return ocp.CheckpointManager(absolute(directory), options=options)


def _is_relevant(record: logging.LogRecord) -> bool:
  """Filters out Orbax's warnings about checkpoints without a score, as all between validations
  are, and its threads' errors, which are raised again when the save is waited for."""
  raised_again = bool(record.exc_info) and 'orbax' in record.pathname
  return not raised_again and 'tracked_metric' not in str(record.msg)


def save(
  manager: ocp.CheckpointManager,
  step: int,
  params: Any,
  training: Any,
  meta: Mapping,
  score: float | None = None,
) -> None:
  """Saves in the background; a score that is None or not finite never counts as the best.

  Raises:
    UserError: this checkpoint, or the one still being written, can't be written.
  """
  items = ocp.args.Composite(
    params=ocp.args.StandardSave(params),
    training=ocp.args.StandardSave(training),
    meta=ocp.args.JsonSave(dict(meta)),
  )
  metrics = {SCORE: float(score)} if score is not None and math.isfinite(score) else None
  with _write_errors(manager):  # errors of the save before are raised here, too
    manager.save(step, args=items, metrics=metrics, force=True)


def finish(manager: ocp.CheckpointManager) -> None:
  """Waits for the last save and closes the manager.

  Raises:
    UserError: the checkpoint can't be written.
  """
  try:
    with _write_errors(manager):
      manager.wait_until_finished()
  except UserError:
    with contextlib.suppress(Exception):  # the same error again
      manager.close()
    raise
  manager.close()


@contextlib.contextmanager
def _write_errors(manager: ocp.CheckpointManager) -> Iterator[None]:
  """Turns errors of the file system into a UserError."""
  try:
    yield
  except (OSError, ValueError, RuntimeError) as error:  # TensorStore raises the last two
    if isinstance(error, jax.errors.JaxRuntimeError):
      raise
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0] if len(lines[0]) < 200 else f'… {lines[0][-200:]}'  # the reason comes last
    raise UserError(
      f'no checkpoint could be written to {manager.directory} ({reason}); the ones before it are '
      'intact. Free disk space or make the folder writable, and run the same command to resume'
    ) from error


def steps(directory: epath.Path) -> list[int]:
  """The steps with a completely written checkpoint in a stage's folder, ascending."""
  return [step for step in _step_folders(directory) if _is_complete(directory / str(step))]


def _step_folders(directory: epath.Path) -> list[int]:
  return sorted(int(name) for name in _names(directory) if name.isdigit())


def _is_complete(path: epath.Path) -> bool:
  return _COMPLETE in _names(path)


def _names(folder: epath.Path) -> list[str]:
  """The names of a folder's entries, [] if there is no folder.

  Raises OSError for a folder that can't be listed, which ``is_dir`` would report as missing.
  """
  try:
    return [path.name for path in folder.iterdir()]
  except (FileNotFoundError, NotADirectoryError):
    return []


def restore_latest(
  directory: epath.Path, params: Any, training: Any, check: Callable[[Mapping], None]
) -> tuple[int, Any, Any, dict] | None:
  """Restores the newest readable checkpoint: (step, params, training, meta), None if there is none.

  Incomplete and damaged step folders are skipped with a message and renamed, so that their step can
  be saved again. The main process decides for all processes which ones are damaged.

  Args:
    directory: of the stage.
    params, training: abstract trees (``jax.ShapeDtypeStruct`` with shardings) to restore into.
    check: called with a checkpoint's meta before its arrays are read. Its errors are raised here,
      so that a checkpoint of another model is not mistaken for a damaged one.

  Raises:
    UserError: no checkpoint can be read though one was once complete, or a cause other than damage
      prevents reading one. No folder is renamed then.
  """
  damaged: list[tuple[epath.Path, DataError]] = []
  restored, step = None, math.inf
  while not restored and (step := _main_step_before(step, directory)) >= 0:
    path = directory / str(int(step))
    try:
      meta = _read_on_all(path, functools.partial(read_meta, path))
      check(meta)
      arrays = _read_on_all(
        path,
        functools.partial(
          _read,
          path,
          params=ocp.args.StandardRestore(params),
          training=ocp.args.StandardRestore(training),
        ),
      )
    except _Damaged as error:
      damaged.append((path, error))
    else:
      restored = int(step), arrays['params'], arrays['training'], meta
  once_complete = [str(reason) for path, reason in damaged if _is_complete(path)]
  if not restored and mesh.from_main(bool(once_complete)):
    # Training from the start would overwrite the logs of the earlier training.
    raise UserError(
      f'{"; ".join(once_complete)}: no checkpoint is left to resume from. Copy one back from a '
      f'backup; or move {directory} away, and run the same command to train this stage anew'
    )
  for path, damage_error in damaged:
    _set_aside(path, damage_error)
  return restored


class _Damaged(DataError):
  """A checkpoint is incomplete, or its files are not what was saved."""


def _main_step_before(step: float, directory: epath.Path) -> float:
  """The newest step folder before a step, as the main process lists them; -1 if there is none."""
  return mesh.from_main(max([n for n in _step_folders(directory) if n < step], default=-1))


def _read_on_all(path: epath.Path, read: Callable[[], Any]) -> Any:
  """Returns ``read()``; raises _Damaged on all processes if the main one finds damage."""
  result, local_error = None, None
  try:
    result = read()
  except _Damaged as error:
    local_error = error
  if mesh.from_main(bool(local_error)):
    raise local_error or _Damaged(f'checkpoint {path} cannot be read by the main process')
  if local_error:
    raise UserError(
      f"{local_error}, but the main process can read it: check this machine's disks"
    ) from local_error
  return result


def _set_aside(path: epath.Path, error: DataError) -> None:
  """Renames a damaged step folder and prints why; the main process does it for all."""
  if mesh.is_main():
    number = 0
    while (aside := path.with_name(f'{path.name}.broken{number or ""}')).exists():
      number += 1
    path.rename(aside)
    print(f'{error}: skipped, renamed to {aside.name}', file=sys.stderr, flush=True)
  mesh.wait_for_all('set_aside')


def _read(path: epath.Path, **items: ocp.args.CheckpointArgs) -> Mapping:
  """Reads some items of a checkpoint folder.

  Raises:
    DataError: there is no checkpoint, or it is damaged.
    UserError: something other than damage prevents reading it.
  """
  with _read_errors(path):
    if not _is_complete(path):
      raise _Damaged(f'checkpoint {path} was not completely written')
    return _checkpointer().restore(absolute(path), args=ocp.args.Composite(**items))


@contextlib.contextmanager
def _read_errors(path: epath.Path) -> Iterator[None]:
  """Turns errors of reading into _Damaged, or into a UserError if the cause is another one."""
  try:
    yield
  except (_Damaged, jax.errors.JaxRuntimeError):  # the latter e.g. for lack of device memory
    raise
  except Exception as error:  # damage raises errors of many types
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if other := damage.other_cause(error, path):
      raise UserError(
        f'checkpoint {path} could not be read ({other}); it may be undamaged and is left as it is. '
        'Fix the cause, or move that folder away, and run the same command again'
      ) from error
    raise _Damaged(f'checkpoint {path} cannot be read ({lines[0][:200]})') from error


def read_meta(path: epath.Path) -> dict:
  """Reads the ``meta`` of a checkpoint folder.

  Raises:
    DataError: no checkpoint there, or a damaged one.
    UserError: something other than damage prevents reading it.
  """
  return _read(path, meta=ocp.args.JsonRestore())['meta']


def read_params(path: epath.Path, params: Any) -> Any:
  """Reads the parameters of a checkpoint folder, sharded as the abstract tree ``params``.

  Raises:
    DataError: no checkpoint there, or a damaged one.
    UserError: something other than damage prevents reading it.
  """
  return _read(path, params=ocp.args.StandardRestore(params))['params']


def read_params_as_saved(path: epath.Path) -> Any:
  """Reads the parameters of a checkpoint folder in their saved shapes, onto one device.

  Raises:
    DataError, UserError: as ``read_params``.
  """
  saved = _saved_params(path)
  device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  abstract = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device), saved
  )
  return read_params(path, abstract)


def count_parameters(path: epath.Path) -> int:
  """The number of parameters in a checkpoint folder; none of them is read.

  Raises:
    DataError, UserError: as ``read_params``.
  """
  return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(_saved_params(path)))


def _saved_params(path: epath.Path) -> Any:
  """The saved parameters' shapes and dtypes."""
  with _read_errors(path):
    return ocp.StandardCheckpointHandler().metadata(absolute(path / 'params')).tree


def best_step(directory: epath.Path) -> int | None:
  """The step with the best score in a stage's folder, or the latest if none has a score.

  None if there is no checkpoint.
  """
  complete = steps(directory)
  if not complete:
    return None
  # The latest of equal scores, as the preservation policy chooses.
  return max(complete, key=lambda step: (score_of(directory / str(step)), step))


def score_of(path: epath.Path) -> float:
  """The score that a checkpoint was saved with; -inf if it was saved without one."""
  file = path / 'metrics' / 'metrics'  # written by Orbax, whose manager uses it
  try:
    return json.loads(file.read_text())[SCORE]
  except (FileNotFoundError, ValueError):  # saved between validations, or damaged
    return float('-inf')


def abstract(tree: Any, sharding: Any) -> Any:
  """A tree as ``jax.ShapeDtypeStruct``, with one sharding for all arrays or a tree of shardings."""

  def struct(x, x_sharding):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x_sharding)

  if sharding is None or isinstance(sharding, jax.sharding.Sharding):
    return jax.tree.map(lambda x: struct(x, sharding), tree)
  return jax.tree.map(struct, tree, sharding)


def _checkpointer() -> ocp.Checkpointer:
  # Each process reads by itself: Orbax would otherwise wait for a process that has found damage.
  options = ocp.options.MultiprocessingOptions(active_processes={jax.process_index()})
  return ocp.Checkpointer(ocp.CompositeCheckpointHandler(), multiprocessing_options=options)
