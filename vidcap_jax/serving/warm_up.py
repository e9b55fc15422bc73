"""Files and videos that are read at the start, so that everything is compiled before requests."""

import pathlib

import numpy as np

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream

_FRAMES, _RATE, _SOUND_RATE = 40, 10, 16_000
_SIZE = 96


def write_files(folder: pathlib.Path) -> list[pathlib.Path]:
  """Writes a clip of four seconds with sound, and a picture; returns their paths.

  Raises:
    ModuleNotFoundError: PyAV or Pillow is not installed.
  """
  from vidcap_jax.features.picture_files import import_pillow

  clip, picture = folder / 'clip.mkv', folder / 'picture.png'
  _write_clip(clip)
  image_module, _ = import_pillow()
  image_module.fromarray(_frame(0)).save(picture)
  return [clip, picture]


def _frame(number: int) -> np.ndarray:
  return np.full((_SIZE, _SIZE, 3), 5 * number, np.uint8)


def _write_clip(path: pathlib.Path) -> None:
  from vidcap_jax.features.video_decoder import import_av

  av = import_av()
  with av.open(str(path), 'w') as file:
    stream = file.add_stream('mpeg4', rate=_RATE)
    stream.width = stream.height = _SIZE
    stream.pix_fmt = 'yuv420p'
    sound = file.add_stream('pcm_s16le', rate=_SOUND_RATE)
    sound.layout = 'mono'
    for number in range(_FRAMES):
      file.mux(stream.encode(av.VideoFrame.from_ndarray(_frame(number), format='rgb24')))
    samples = np.arange(_SOUND_RATE * _FRAMES // _RATE, dtype=np.int16)[None]
    frame = av.AudioFrame.from_ndarray(samples, format='s16', layout='mono')
    frame.sample_rate = _SOUND_RATE
    frame.pts = 0
    file.mux(sound.encode(frame))
    file.mux(stream.encode())
    file.mux(sound.encode())


def example_video(provenance: FeatureProvenance) -> Video:
  """A video with features of all streams, of the shapes that the models read."""
  return Video('', (), {stream.name: _features(stream) for stream in provenance.streams})


def _features(stream: Stream) -> np.ndarray:
  return np.ones([size or 1 for size in stream.shape], stream.dtype)
