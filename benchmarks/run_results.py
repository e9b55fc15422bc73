"""The results of a training run, in a form to compare with those of another run."""

import hashlib
import json
import pathlib

import jax
import numpy as np
import orbax.checkpoint as ocp

from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.training.metric_log import TIMING, read_metric_log


def read_run(workdir: pathlib.Path) -> dict:
  """Captions, records (without times), stages and checkpoints (as digests) of a workdir."""
  files = {
    str(path.relative_to(workdir)): path.read_text()
    for path in sorted(workdir.glob('eval/**/captions.json'))
  }
  records = [{k: v for k, v in r.items() if k not in TIMING} for r in read_metric_log(workdir)]
  checkpoints = {
    str(path.relative_to(workdir)): read_checkpoint(path)
    for path in sorted(workdir.glob('checkpoints/*/*'))
    if path.name.isdigit()
  }
  stages = json.loads((workdir / 'stages.json').read_text())
  return {'captions': files, 'records': records, 'stages': stages, 'checkpoints': checkpoints}


def read_checkpoint(path: pathlib.Path) -> dict:
  """The digests of all arrays of a checkpoint folder by name, and the training progress."""
  device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  items = {}
  for name in ('params', 'training'):
    saved = ocp.StandardCheckpointHandler().metadata((path / name).absolute()).tree
    items[name] = ocp.args.StandardRestore(checkpoint.abstract(saved, device))
  with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
    arrays = dict(reader.restore(path.absolute(), args=ocp.args.Composite(**items)))
  digests = {
    jax.tree_util.keystr(name): digest(np.asarray(leaf))
    for name, leaf in jax.tree.leaves_with_path(arrays)
  }
  assert len(digests) > 10
  return {'arrays': digests, 'progress': checkpoint.read_meta(path)['progress']}


def digest(array: np.ndarray) -> str:
  """A string that depends on every bit of an array, its shape and its dtype."""
  return f'{array.dtype}{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:12]}'
