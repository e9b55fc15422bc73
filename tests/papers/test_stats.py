"""STaTS: the share of given words in training, 24 / (24 + exp(p / 24)) at epoch p."""

import jax.numpy as jnp
import numpy as np

from vidcap_jax.objectives.cross_entropy import own_word_ratio


def test_training_ratio(oracle, precision, close, strict_dtypes):
  d = oracle('stats_eq1_12')
  settings = {'name': 'inverse_sigmoid', 'eta': 24.0}
  epochs = jnp.asarray(d['out/teacher_forcing/epoch'], precision)
  # Anywhere within an epoch the ratio is that of its start.
  for fraction in (0.0, 0.5):
    ours = own_word_ratio(settings, epochs + jnp.asarray(fraction, precision))
    close(1 - np.asarray(ours), d['out/teacher_forcing/ratio'])
