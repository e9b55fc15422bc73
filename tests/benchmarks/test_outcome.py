"""Equal runs leave equal digests, and no bit may differ."""

import numpy as np

from benchmarks.outcome import digest, left_by


def test_a_digest_changes_with_any_bit_shape_or_dtype():
  zeros = np.zeros((2, 3), np.float32)
  assert digest(zeros) == digest(zeros.copy())
  others = [-zeros, zeros.reshape(3, 2), zeros.view(np.int32), zeros.astype(np.float16)]
  assert len({digest(a) for a in [zeros, *others]}) == 5


def test_what_a_run_leaves(tiny_run):
  found = left_by(tiny_run)
  assert found.keys() == {'captions', 'records', 'stages', 'checkpoints'}
  assert found['checkpoints']
  assert found['records']
