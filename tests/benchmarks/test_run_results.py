"""Results of a run, to compare with those of another."""

import numpy as np

from benchmarks.run_results import digest, read_run


def test_digest_depends_on_every_bit_shape_and_dtype():
  zeros = np.zeros((2, 3), np.float32)
  assert digest(zeros) == digest(zeros.copy())
  others = [-zeros, zeros.reshape(3, 2), zeros.view(np.int32), zeros.astype(np.float16)]
  assert len({digest(a) for a in [zeros, *others]}) == 5


def test_read_run(tiny_run):
  found = read_run(tiny_run)
  assert found.keys() == {'captions', 'records', 'stages', 'checkpoints'}
  assert found['checkpoints']
  assert found['records']
