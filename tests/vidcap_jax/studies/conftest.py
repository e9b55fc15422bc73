import pathlib
import shutil

import pytest

from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed import mesh
from vidcap_jax.evaluation import evaluate


@pytest.fixture(scope='session')
def evaluated_run(tiny_run, tmp_path_factory) -> pathlib.Path:
  """A copy of ``tiny_run`` that is evaluated on its validation split, which has references."""
  workdir = tmp_path_factory.mktemp('evaluated') / 'run'
  shutil.copytree(tiny_run, workdir)
  restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())
  with tiny.unscored_by_java():
    evaluate.evaluate_command(restored, None, 'val', None)
  return workdir
