"""Writes a run of this project from the checkpoint of another one."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax import config_diff, models
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.checkpoints.pytorch import tables
from vidcap_jax.checkpoints.pytorch.imported import Imported
from vidcap_jax.checkpoints.restore import abstract_params
from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.errors import UserError, first_few
from vidcap_jax.files import write_json

STAGE = 'imported'


def check_workdir(workdir: epath.Path) -> None:
  """Checks that the folder of a run to write is new, or empty but for hidden files.

  Raises:
    UserError: it has a run or other files.
  """
  if (workdir / 'config.json').exists() or (workdir / 'checkpoints').exists():
    raise UserError(
      f'--output={workdir}: there is a run already; give a new folder, or remove this one'
    )
  if workdir.is_dir():
    names = sorted(path.name for path in workdir.iterdir() if not path.name.startswith('.'))
    if names:
      raise UserError(
        f'--output={workdir}: the folder has other files ({first_few(names)}); give a new folder'
      )


def write_run(
  workdir: epath.Path,
  base: ConfigDict,
  imported: Imported,
  arrays: Mapping[str, np.ndarray],
  source: pathlib.Path,
  project: str,
) -> epath.Path:
  """Writes a run with one finished stage, ``STAGE``, whose only checkpoint has the parameters.

  Args:
    workdir: a folder that passes ``check_workdir``.
    base: a config with all keys; changed as the import needs.
    imported: the checkpoint's settings.
    arrays: its state dict.
    source: the file of the state dict.
    project: that it is from.

  Returns:
    The checkpoint's folder.

  Raises:
    UserError: the workdir has a run or other files.
    DataError: the state dict is not that of the table.
  """
  check_workdir(workdir)
  config = _config(base, imported)
  module = models.build(config.model, len(imported.vocabulary), config.train.dtype)
  shapes = abstract_params(module, imported.streams, config)
  params = tables.convert(imported.table, arrays, shapes, str(source))
  with source.open('rb') as file:
    digest = hashlib.file_digest(file, 'sha256').hexdigest()
  origin = {'project': project, 'weights': str(source), 'sha256': digest}
  data = {'name': f'not known (imported from {project})', 'hash': ''}
  meta = {**_meta(config, imported), 'imported': origin, 'data': data}
  workdir.mkdir(parents=True, exist_ok=True)
  write_json(workdir / 'config.json', config_diff.as_saved(config))
  folder = workdir / 'checkpoints' / STAGE
  manager = checkpoint.open_manager(folder, keep=1)
  # Nothing is resumed from here, but the item must not be empty.
  checkpoint.save(manager, imported.step, params, {'step': np.int32(imported.step)}, meta)
  checkpoint.finish(manager)
  write_json(workdir / 'stages.json', {STAGE: {'step': imported.step}})
  return folder / str(imported.step)


def _config(base: ConfigDict, imported: Imported) -> ConfigDict:
  config = base.copy_and_resolve_references()
  with config.unlocked():
    config.order = (STAGE,)
    config.stages = ConfigDict({STAGE: {}})
    config.model = ConfigDict(dict(imported.model))
    config.data.standardise = False
    config.data.max_words = imported.max_words
    config.decode.update(dict(imported.decode))
  return config


def _meta(config: ConfigDict, imported: Imported) -> dict[str, Any]:
  """What a checkpoint has in ``meta``, as far as it is known without training data."""
  made = FeatureProvenance(imported.streams, options={'layouts': imported.layouts})
  return {
    'format': 1,
    'stage': STAGE,
    'step': imported.step,
    'progress': {},
    'config': config.to_dict(),
    'vocabulary': imported.vocabulary.to_dict(),
    'streams': [dataclasses.asdict(stream) for stream in imported.streams],
    'making': made.to_dict(),
    'top_captions': [],
    'key_frames': {},
  }
