"""The log-mel spectrogram that VGGish reads, in JAX.

Frames of 25 ms, 10 ms apart, with a periodic Hann window; the magnitudes of their spectra; 64
triangular filters on HTK's mel scale from 125 to 7500 Hz; the logarithm of that plus 0.01.
"""

import functools

import jax.numpy as jnp
import numpy as np

RATE = 16_000  # samples a second
PIECE = 400  # samples of a piece
HOP = 160  # samples from one piece to the next
BANDS = 64
LOWEST, HIGHEST = 125.0, 7500.0  # Hertz
OFFSET = 0.01

_FFT = 512


def _mel(hertz):
  return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


@functools.cache
def bands() -> np.ndarray:
  """The weight of each frequency in each band: (257, 64) float32.

  The triangles are linear in mel, not in Hertz; the constant part of the sound has no weight.
  """
  frequencies = _mel(np.linspace(0.0, RATE / 2, _FFT // 2 + 1))[:, None]  # (257, 1)
  edges = np.linspace(_mel(LOWEST), _mel(HIGHEST), BANDS + 2)
  low, middle, high = edges[:-2], edges[1:-1], edges[2:]
  rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
  weights = np.maximum(0.0, np.minimum(rising, falling))
  weights[0] = 0.0
  return weights.astype(np.float32)


def log_mel(waves):
  """Spectrograms of segments of sound.

  Args:
    waves: (B, samples) from -1 to 1, ``RATE`` samples a second, at least ``PIECE`` samples.

  Returns:
    (B, pieces, 64) float32; the number of pieces is 1 + (samples - 400) // 160.
  """
  starts = np.arange(0, waves.shape[1] - PIECE + 1, HOP)
  pieces = jnp.asarray(waves, jnp.float32)[:, starts[:, None] + np.arange(PIECE)]
  hann = 0.5 - 0.5 * np.cos(2 * np.pi / PIECE * np.arange(PIECE))
  spectrum = jnp.fft.rfft(pieces * hann.astype(np.float32)[None, None], _FFT)  # (B, pieces, 257)
  return jnp.log(jnp.abs(spectrum) @ bands() + OFFSET)
