"""The spectrogram of VGGish against plain sums."""

import pathlib

import jax
import numpy as np

from tests.vidcap_jax.features import seeded
from tests.vidcap_jax.features.backbones.test_vggish import stretches
from vidcap_jax.features.backbones import log_mel, vggish

EXPECTED = pathlib.Path(__file__).with_name('expected.npz')

spectrogram = jax.jit(log_mel.log_mel)


def test_spectrogram_is_the_published_one():
  found = spectrogram(stretches())
  with np.load(EXPECTED) as expected:
    assert found.shape == tuple(expected['log_mel_shape']) == (2, vggish.PIECES, log_mel.BANDS)
    np.testing.assert_allclose(seeded.sample(found, 600), expected['log_mel'], atol=2e-3)


def test_segments_give_the_spectrogram_of_the_whole_sound():
  """Cut at each 0.96 seconds, no piece is lost or shifted."""
  whole = np.asarray(spectrogram(seeded.waves()[None]))[0]
  assert whole.shape == (198, 64)
  pieces = np.asarray(spectrogram(stretches())).reshape(-1, 64)
  np.testing.assert_allclose(pieces, whole[:192], atol=1e-4)


def test_tone_is_in_its_band():
  seconds = np.arange(4000) / log_mel.RATE
  middles = np.linspace(log_mel._mel(125.0), log_mel._mel(7500.0), 66)[1:-1]
  hertz = np.array([300.0, 1000.0, 5000.0, 0.0])
  tones = np.sin(2 * np.pi * hertz[:, None] * seconds).astype(np.float32)
  found = np.asarray(spectrogram(tones))  # (4, pieces, 64)
  nearest = np.abs(middles - log_mel._mel(hertz[:3])[:, None]).argmin(1)
  np.testing.assert_array_equal(found[:3].mean(1).argmax(1), nearest)
  np.testing.assert_allclose(found[3], np.log(0.01), rtol=1e-6)  # silence
