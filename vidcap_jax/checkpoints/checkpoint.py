"""Saving and restoring, by Orbax; no other file knows it.

A checkpoint is a folder ``…/checkpoints/STAGE/STEP`` of three items: ``params``; ``training``
(optimiser state and what else training needs to go on); ``meta``, JSON with the config, the
vocabulary, the streams and the progress, so that evaluation needs the folder alone.
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
  """A writer that keeps the latest ``keep`` checkpoints and the one of the best score."""
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
  logging.getLogger('absl').addFilter(_worth_reading)
  # Orbax wants an absolute path, and finds out only inside an asynchronous save.
  return ocp.CheckpointManager(absolute(directory), options=options)


def _worth_reading(record: logging.LogRecord) -> bool:
  """Not so: Orbax's warning at each checkpoint between validations that it has no score; and the
  errors of its threads, each of which is raised again where it is waited for."""
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
    UserError: it can't be written, or the one before could not.
  """
  items = ocp.args.Composite(
    params=ocp.args.StandardSave(params),
    training=ocp.args.StandardSave(training),
    meta=ocp.args.JsonSave(dict(meta)),
  )
  metrics = {SCORE: float(score)} if score is not None and math.isfinite(score) else None
  with _writing(manager):  # fails for the checkpoint before, too, which was still being written
    manager.save(step, args=items, metrics=metrics, force=True)


def finish(manager: ocp.CheckpointManager) -> None:
  """Waits for what is still being written, and closes.

  Raises:
    UserError: it could not be written.
  """
  try:
    with _writing(manager):
      manager.wait_until_finished()
  except UserError:
    with contextlib.suppress(Exception):  # it would say the same once more
      manager.close()
    raise
  manager.close()


@contextlib.contextmanager
def _writing(manager: ocp.CheckpointManager) -> Iterator[None]:
  try:
    yield
  except (OSError, ValueError, RuntimeError) as error:  # of the disk, or by TensorStore
    if isinstance(error, jax.errors.JaxRuntimeError):
      raise
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0] if len(lines[0]) < 200 else f'… {lines[0][-200:]}'  # it stands at the end
    raise UserError(
      f'no checkpoint could be written to {manager.directory} ({reason}); those before it are '
      'whole. Make room or the folder writable, and the same command goes on from there'
    ) from error


def steps(directory: epath.Path) -> list[int]:
  """The steps of a stage's folder that look whole, ascending."""
  return [step for step in _numbered(directory) if _looks_whole(directory / str(step))]


def _numbered(directory: epath.Path) -> list[int]:
  return sorted(int(name) for name in _names(directory) if name.isdigit())


def _looks_whole(path: epath.Path) -> bool:
  return _COMPLETE in _names(path)


def _names(folder: epath.Path) -> list[str]:
  """What lies in a folder, if there is one. OSError for one that can't be looked into, which
  ``is_dir`` and ``is_file`` take for one that is not there."""
  try:
    return [path.name for path in folder.iterdir()]
  except (FileNotFoundError, NotADirectoryError):
    return []


def restore_latest(
  directory: epath.Path, params: Any, training: Any, check: Callable[[Mapping], None]
) -> tuple[int, Any, Any, dict] | None:
  """The newest checkpoint that can be read, as (step, params, training, meta); None without any.

  Args:
    directory: of the stage.
    params, training: abstract trees (``jax.ShapeDtypeStruct`` with shardings) of what to expect.
    check: called with a checkpoint's meta before its arrays are read; what it raises is raised
      here, so that a checkpoint of something else is not taken for a damaged one.

  Half-written, empty or damaged step folders are passed over with a message and set aside under
  another name, so that their step can be saved again. The main process finds what is damaged.

  Raises:
    UserError: none can be read though some were once whole, or something other than damage keeps
      one from being read; nothing is set aside then.
  """
  damaged: list[tuple[epath.Path, DataError]] = []
  found, step = None, math.inf
  while not found and (step := _main_step_before(step, directory)) >= 0:
    path = directory / str(int(step))
    try:
      meta = _as_main_finds(path, functools.partial(read_meta, path))
      check(meta)
      arrays = _as_main_finds(
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
      found = int(step), arrays['params'], arrays['training'], meta
  whole = [str(why) for path, why in damaged if _looks_whole(path)]
  if not found and mesh.from_main(bool(whole)):
    # Starting anew would cut the records of what was trained.
    raise UserError(
      f'{"; ".join(whole)}: no checkpoint is left to go on from. Bring one back from a copy; or '
      f'move {directory} away, and the same command trains this stage anew'
    )
  for path, why in damaged:
    _set_aside(path, why)
  return found


class _Damaged(DataError):
  """A checkpoint is not whole, or holds something other than what was saved."""


def _main_step_before(step: float, directory: epath.Path) -> float:
  """The newest step folder before a step, as the main process sees them; -1 without any."""
  return mesh.from_main(max([n for n in _numbered(directory) if n < step], default=-1))


def _as_main_finds(path: epath.Path, read: Callable[[], Any]) -> Any:
  """What ``read`` gives; raises _Damaged on all processes if the main one finds damage."""
  found, here = None, None
  try:
    found = read()
  except _Damaged as error:
    here = error
  if mesh.from_main(bool(here)):
    raise here or _Damaged(f'checkpoint {path} cannot be read by the main process')
  if here:
    raise UserError(f'{here}, but the main process can read it: look at this machine') from here
  return found


def _set_aside(path: epath.Path, error: DataError) -> None:
  if mesh.is_main():
    number = 0
    while (aside := path.with_name(f'{path.name}.broken{number or ""}')).exists():
      number += 1
    path.rename(aside)
    print(f'{error}: passed over, moved to {aside.name}', file=sys.stderr, flush=True)
  mesh.wait_for_all('set_aside')


def _read(path: epath.Path, **items: ocp.args.CheckpointArgs) -> Mapping:
  """Some items of a checkpoint folder.

  Raises:
    DataError: there is none, or it is damaged.
    UserError: something else keeps it from being read.
  """
  with _reading(path):
    if not _looks_whole(path):
      raise _Damaged(f'checkpoint {path} was not completely written')
    return _checkpointer().restore(absolute(path), args=ocp.args.Composite(**items))


@contextlib.contextmanager
def _reading(path: epath.Path) -> Iterator[None]:
  try:
    yield
  except (_Damaged, jax.errors.JaxRuntimeError):  # the latter of devices, e.g. their memory
    raise
  except Exception as error:  # damage shows as many kinds
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if other := damage.other_cause(error, path):
      raise UserError(
        f'checkpoint {path} could not be read ({other}); that need not be damage, so it is left as '
        'it is. Mend it, or move that folder away, and start the same command again'
      ) from error
    raise _Damaged(f'checkpoint {path} cannot be read ({lines[0][:200]})') from error


def read_meta(path: epath.Path) -> dict:
  """The ``meta`` of a checkpoint folder.

  Raises:
    DataError: no checkpoint there, or a damaged one.
    UserError: something other than damage keeps it from being read.
  """
  return _read(path, meta=ocp.args.JsonRestore())['meta']


def read_params(path: epath.Path, params: Any) -> Any:
  """The parameters of a checkpoint folder, onto the shardings of the abstract tree ``params``.

  Raises:
    DataError: no checkpoint there, or a damaged one.
    UserError: something other than damage keeps it from being read.
  """
  return _read(path, params=ocp.args.StandardRestore(params))['params']


def read_params_as_saved(path: epath.Path) -> Any:
  """The parameters of a checkpoint folder in the shapes they were saved in, on one device.

  Raises:
    DataError, UserError: as of ``read_params``.
  """
  with _reading(path):
    saved = ocp.StandardCheckpointHandler().metadata(absolute(path / 'params')).tree
  device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  abstract = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device), saved
  )
  return read_params(path, abstract)


def best_step(directory: epath.Path) -> int | None:
  """The step of the best score in a stage's folder, else the latest; None without checkpoints."""
  whole = steps(directory)
  if not whole:
    return None
  # Of equal scores the latest, as the preservation policy decides it.
  return max(whole, key=lambda step: (_score(directory / str(step)), step))


def _score(path: epath.Path) -> float:
  file = path / 'metrics' / 'metrics'  # Orbax's own; its manager chooses the best by it too
  try:
    return json.loads(file.read_text())[SCORE]
  except (FileNotFoundError, ValueError):  # saved between validations, or damaged
    return float('-inf')


def abstract(tree: Any, sharding: Any) -> Any:
  """Shapes and dtypes of a tree with one sharding for all or a tree of them, as reading wants."""

  def of(x, its):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=its)

  if sharding is None or isinstance(sharding, jax.sharding.Sharding):
    return jax.tree.map(lambda x: of(x, sharding), tree)
  return jax.tree.map(of, tree, sharding)


def _checkpointer() -> ocp.Checkpointer:
  # Alone, or a process would wait after reading for one that has found damage.
  alone = ocp.options.MultiprocessingOptions(active_processes={jax.process_index()})
  return ocp.Checkpointer(ocp.CompositeCheckpointHandler(), multiprocessing_options=alone)
