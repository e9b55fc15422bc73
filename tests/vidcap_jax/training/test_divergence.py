"""Updates and losses that are not finite end a run with a name for the cause."""

import jax
import numpy as np
import pytest

from tests import tiny
from vidcap_jax.training import compiled, divergence


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


def test_too_many_end_the_run(tiny_data, tmp_path, with_inf, capsys):
  config = tiny.small_config(tiny_data, max_skipped=2, batch_size=16)
  with pytest.raises(
    divergence.Diverged, match=r'3 updates .* train.max_skipped=2; last at step 5 .*v0'
  ):
    tiny.run(config, tmp_path / 'work')
  assert '9 rows of every batch empty; 7 is enough' in capsys.readouterr().out


def test_the_first_nan_is_named(tiny_data, tmp_path, with_inf, monkeypatch):
  by_shape = compiled.compile_by_shape

  def looking(*settings):
    return jax.debug_nans(True)(by_shape(*settings))  # all else has been compiled without

  monkeypatch.setattr(compiled, 'compile_by_shape', looking)
  message = (
    r'step 1: invalid value \(nan\) encountered in [a-z_]+ at \S+/vidcap_jax/\S+\.py:\d+ '
    r'\(runtime.check_nans\); videos: .*v0'
  )
  with pytest.raises(divergence.Diverged, match=message):
    tiny.run(tiny.short_config(tiny_data), tmp_path / 'work')


def test_a_learning_rate_that_is_not_finite(tiny_data, tmp_path):
  config = tiny.small_config(tiny_data, max_skipped=3)
  config.optimizer.learning_rate = float('nan')
  with pytest.raises(divergence.Diverged, match='4 updates were not finite'):
    tiny.run(config, tmp_path / 'work')
  assert all(
    np.isfinite(leaf).all() for leaf in jax.tree.leaves(tiny.read_params(tmp_path / 'work'))
  )
