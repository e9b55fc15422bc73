"""Shards of changed inputs are written again."""

import numpy as np
import pytest

from data_prep.dataset import writer
from data_prep.dataset.builder import build
from tests.building import options
from vidcap_jax.data.schema import read_manifest


@pytest.mark.parametrize('change', ['features', 'captions', 'shard', 'options'])
def test_shards_of_changed_inputs_are_written_again(source, monkeypatch, change):
  made = options(source, missing='skip')

  def stop(*args):
    raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr(writer, 'write_tfds_metadata', stop)
    with pytest.raises(KeyboardInterrupt):
      build(made)
  if change == 'features':
    np.save(source / 'image' / 'v3.npy', np.zeros((7, 4)))
  elif change == 'captions':
    (source / 'clips.csv').write_text(
      (source / 'clips.csv').read_text().replace('a dog runs', 'a cow')
    )
  elif change == 'shard':
    path = source / 'out' / 'out-train.array_record-00000-of-00001'
    path.write_bytes(path.read_bytes()[:-1])
  else:
    made = options(source, missing='skip', dtype='float32')
  _, report = build(made)
  assert report.reused == (0 if change == 'options' else 2)
  fresh, _ = build(
    options(source, missing='skip', dtype=made.dtype, out=str(source / 'fresh'), name='out')
  )
  assert read_manifest(source / 'out').hash == fresh.hash
