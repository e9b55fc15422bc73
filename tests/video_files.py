"""Writes small video files with sound for tests; test modules that import it need PyAV."""

import numpy as np
import pytest

av = pytest.importorskip('av', reason='the extra "video" is not installed')

RATE = 10  # frames a second
SOUND_RATE = 22_050  # samples a second


def gray(level: int, rows: int = 48, columns: int = 64) -> np.ndarray:
  return np.full((rows, columns, 3), level, np.uint8)


def ramp(frames: int = 40) -> list[np.ndarray]:
  """Frame i has the gray level 10 + 5 i."""
  return [gray(10 + 5 * i) for i in range(frames)]


def levels_of(frames) -> list[int]:
  """Which frames of the ramp these are."""
  return [round((float(frame.image.mean()) - 10) / 5) for frame in frames]


def tone(seconds: float, hertz: float = 440.0, rate: int = SOUND_RATE) -> np.ndarray:
  """A sine of half the full amplitude, float32 (samples,)."""
  return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype('f')


def write_video(
  path, images, *, times=None, container='mp4', codec='mpeg4', options=None, sound=None
):
  """Encodes images and sound.

  Args:
    path: of the file.
    images: uint8 (rows, columns, 3) each; empty for a file with sound only.
    times: time stamps of the images, in units of 1 / RATE seconds.
    container, codec, options: of FFmpeg.
    sound: float32 (samples,) or (2, samples) at SOUND_RATE, or None.
  """
  with av.open(str(path), 'w', format=container, options=options or {}) as file:
    if images:
      stream = file.add_stream(codec, rate=RATE)
      stream.height, stream.width = images[0].shape[:2]
      stream.pix_fmt = 'yuv420p'
      stream.codec_context.qmin = stream.codec_context.qmax = 2
    if sound is not None:
      sound = np.atleast_2d(sound)
      audio = file.add_stream('pcm_s16le' if container != 'mp4' else 'aac', rate=SOUND_RATE)
      audio.layout = 'stereo' if len(sound) == 2 else 'mono'
    for i, image in enumerate(images):
      frame = av.VideoFrame.from_ndarray(image, format='rgb24')
      frame.pts = i if times is None else times[i]
      file.mux(stream.encode(frame))
    if images:
      file.mux(stream.encode())
    if sound is not None:
      resampler = av.AudioResampler(format=audio.format, layout=audio.layout, rate=SOUND_RATE)
      for begin in range(0, sound.shape[1], 1024):
        piece = np.ascontiguousarray(sound[:, begin : begin + 1024], np.float32)
        frame = av.AudioFrame.from_ndarray(piece, format='fltp', layout=audio.layout.name)
        frame.sample_rate = SOUND_RATE
        frame.pts = begin
        for ready in resampler.resample(frame):
          file.mux(audio.encode(ready))
      file.mux(audio.encode())
  return path


def write_folder(folder):
  """Writes v0 to v4, of which v1 has no sound, and a file that is no video; returns the folder."""
  for i in range(5):
    sound = None if i == 1 else tone(1 + i / 2, 200 * (i + 1))
    write_video(folder / f'v{i}.mp4', ramp(10 + 3 * i), sound=sound)
  (folder / 'broken.mp4').write_text('no video')
  return folder
