"""What is logged about the training split."""

import json
import pathlib
import shutil

from etils import epath

from tests import tiny
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.training.stage import set_up
from vidcap_jax.training.train_data import lengths_to_come, log_train_data, read_train_data


def logged(data, tmp_path) -> list[str]:
  config = tiny.small_config(str(data))
  mesh = make_mesh()
  stage = set_up(config, mesh)
  lines: list[str] = []
  train_data = read_train_data(config, stage, epath.Path(tmp_path))
  log_train_data(config, stage, train_data, mesh, lines.append)
  return lines


def test_one_line_warns_of_a_leaking_vocabulary(tiny_data, tmp_path):
  data = pathlib.Path(shutil.copytree(tiny_data, tmp_path / 'data'))
  assert not any('leaks' in line for line in logged(data, tmp_path))
  manifest = json.loads((data / 'manifest.json').read_text())
  manifest['vocabulary']['leaked_from'] = ['val', 'test']
  (data / 'manifest.json').write_text(json.dumps(manifest))
  (warning,) = (line for line in logged(data, tmp_path) if 'leaks' in line)
  assert 'val and test' in warning


def test_only_lengths_that_come_need_a_program(tiny_data, tmp_path):
  """In the order of their first use, and none for buckets that no batch of the steps is cut to."""
  config = tiny.small_config(tiny_data, epochs=4.0)
  config.data.length_buckets = (2, 6, 12)  # no caption has one word or more than seven
  data = read_train_data(config, set_up(config, make_mesh()), epath.Path(tmp_path))
  used = [6 if data.order.longest(step) <= 6 else 12 for step in range(8)]
  assert set(used) == {6, 12}
  for start in range(8):
    come = lengths_to_come(config, data, range(start, 8))
    assert come == list(dict.fromkeys(used[start:]))
  assert lengths_to_come(config, data, range(0)) == []
  config.data.length_buckets = ()
  assert lengths_to_come(config, data, range(8)) == [data.length]
