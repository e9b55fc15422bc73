r"""Which frames and which sound are read of random clips, against what was written into them.

    python -m benchmarks.frames --clips=1000 --json=FILE

Each clip is drawn from containers, codecs, rates, B-frames, irregular moments, missing pictures,
late starts and late or broken sound. Its pictures hold their number, its sound a click, so that the
right answer comes from how the clip was drawn and not from its time stamps.
"""

import argparse
import bisect
import collections
import dataclasses
import os
import pathlib
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks import Row, add_json, report
from vidcap_jax import command_errors
from vidcap_jax.features import sampling, video, video_decoder
from vidcap_jax.progress import progress

SIZE = 64  # rows and columns of a picture: eight stripes, one for each bit of its number
SOUND_RATE = 48_000
READ_RATE = 16_000
RATES = tuple(
  map(Fraction, ('24', '25', '30', '60', '12', '25/2', '24000/1001', '30000/1001', '60000/1001'))
)
CODECS = {
  'avi': ('mpeg4', 'libx264'),
  'mp4': ('mpeg4', 'libx264', 'libx265', 'libsvtav1', 'libvpx-vp9'),
  'matroska': ('mpeg4', 'libx264', 'libx265', 'libvpx-vp9'),
  'webm': ('libvpx-vp9', 'libsvtav1'),
  'mpegts': ('mpeg2video', 'libx264', 'libx265'),
}
REORDERS = ('mpeg4', 'mpeg2video', 'libx264', 'libx265')  # codecs with B-frames
SOUND = {'avi': 'pcm_s16le', 'mp4': 'aac', 'matroska': 'pcm_s16le', 'webm': 'libopus'}
SOUND['mpegts'] = 'aac'
# Seconds: Matroska rounds the starts of pictures and of sound to 1 ms; codecs smear a click.
CLICK_ERROR = {'pcm_s16le': 0.002, 'aac': 0.004, 'libopus': 0.004}


@dataclasses.dataclass(frozen=True)
class Clip:
  """How a clip is written.

  Attributes:
    container, codec: of FFmpeg.
    bframes: most of them between two other frames.
    rate: pictures a second, or None where ``moments`` are irregular.
    moments: of the pictures, seconds after the first.
    start: of the pictures in the file, seconds.
    sound: when sound is there, (begin, end) in the file, seconds; () for none.
    clicks: moments in the file at which the sound has a click, seconds.
  """

  container: str
  codec: str
  bframes: int
  rate: Fraction | None
  moments: tuple[Fraction, ...]
  start: Fraction
  sound: tuple[tuple[Fraction, Fraction], ...]
  clicks: tuple[Fraction, ...]


def draw(rng: random.Random) -> Clip:
  """A random clip."""
  container = rng.choice(sorted(CODECS))
  codec = rng.choice(CODECS[container])
  least = 16 if container == 'mpegts' else 1  # FFmpeg does not recognise a shorter stream
  frames = rng.choice((least, least + 1, rng.randint(least, 90)))
  # The MP4 writer refuses what libx265 with B-frames makes of a single picture.
  bframes = rng.choice((0, 2)) if codec in REORDERS and frames > 2 else 0
  irregular = container != 'avi' and codec not in ('mpeg4', 'mpeg2video') and rng.random() < 0.3
  if irregular:
    rate, moment, moments = None, Fraction(0), [Fraction(0)]
    for _ in range(frames - 1):
      moment += Fraction(rng.randint(8, 120), 1000)
      moments.append(moment)
  else:
    rate = rng.choice(RATES)
    places = range(frames)
    if frames > 8 and rng.random() < 0.2:  # some pictures are missing
      missing = {*rng.sample(range(1, frames), frames // 8)}
      places = [place for place in places if place not in missing]
    moments = [place / rate for place in places]
  late = container != 'avi' and rng.random() < 0.4
  step = 1 / rate if rate else Fraction(1, 1000)
  start = round(Fraction(rng.randint(1, 2000), 1000) / step) * step if late else Fraction(0)
  sound, clicks = _draw_sound(rng, container, start, moments[-1])
  return Clip(container, codec, bframes, rate, tuple(moments), start, sound, clicks)


def _draw_sound(rng: random.Random, container: str, start: Fraction, span: Fraction):
  """The stretches of a clip's sound, and its clicks after the pictures' start."""
  if rng.random() < 0.4:
    return (), ()
  end = start + span + 2
  begin = Fraction(0)
  if container != 'avi' and rng.random() < 0.5:
    begin = Fraction(rng.randint(0, 1000), 1000)
  stretches = [(begin, end)]
  if container == 'matroska' and rng.random() < 0.3:  # a gap
    gap = begin + (end - begin) / 3
    stretches = [(begin, gap), (gap + Fraction(rng.randint(200, 500), 1000), end)]
  # One click, well inside the last stretch.
  click = max(stretches[-1][0], start) + Fraction(rng.randint(200, 400), 1000)
  return tuple(stretches), (click,) if click < end - Fraction(1, 4) else ()


# ---------------------------------------------------------------- writing


def picture(number: int) -> np.ndarray:
  """A picture that holds its number, uint8 (SIZE, SIZE, 3)."""
  bits = np.array([number >> bit & 1 for bit in range(8)], np.uint8)
  row = np.repeat(bits * 255, SIZE // 8)
  return np.broadcast_to(row[None, :, None], (SIZE, SIZE, 3)).copy()


def number_of(image: np.ndarray) -> int:
  """The inverse of ``picture``, of any size."""
  stripe = image.shape[1] // 8
  middle = image[image.shape[0] // 2]
  return sum(1 << b for b in range(8) if middle[stripe * b + stripe // 2].mean() > 127)


def write(clip: Clip, path: pathlib.Path) -> pathlib.Path:
  """Writes a clip; returns its path."""
  av = video_decoder.import_av()
  with av.open(str(path), 'w', format=clip.container) as file:
    stream = file.add_stream(clip.codec, rate=clip.rate or Fraction(30))
    base = 1 / clip.rate if clip.rate else Fraction(1, 1000)
    stream.codec_context.time_base = base
    stream.width = stream.height = SIZE
    stream.pix_fmt = 'yuv420p'
    stream.options = _options(clip)
    audio = None
    if clip.sound:
      audio = file.add_stream(SOUND[clip.container], rate=SOUND_RATE)
      audio.layout = 'mono'
    packets = []
    for number, moment in enumerate(clip.moments):
      frame = av.VideoFrame.from_ndarray(picture(number), 'rgb24')
      frame.pts, frame.time_base = round((clip.start + moment) / base), base
      packets += stream.encode(frame)
    packets += stream.encode()
    if audio is not None:
      packets += _encode_sound(av, audio, clip)
    # Readers expect pictures and sound side by side.
    for packet in sorted(packets, key=lambda p: (p.dts if p.dts is not None else 0) * p.time_base):
      file.mux(packet)
  return path


def _options(clip: Clip) -> dict[str, str]:
  """The encoder's options: pictures that stay readable, and as many B-frames as asked for."""
  bframes = str(clip.bframes)
  return {
    'libx264': {'crf': '1', 'bf': bframes, 'preset': 'ultrafast'},
    'libx265': {
      'x265-params': f'crf=4:bframes={bframes}:pools=none:frame-threads=1:log-level=none',
      'preset': 'ultrafast',
    },
    'libvpx-vp9': {'crf': '10', 'b': '0', 'cpu-used': '8', 'deadline': 'realtime'},
    'libsvtav1': {'crf': '10', 'preset': '12', 'svtav1-params': 'pred-struct=1'},
  }.get(clip.codec, {'bf': bframes, 'qmin': '2', 'qmax': '2'})


def _encode_sound(av, stream, clip: Clip) -> list:
  """The packets of a clip's sound."""
  packets = []
  resampler = av.AudioResampler(format=stream.format, layout='mono', rate=SOUND_RATE)
  for begin, end in clip.sound:
    first = round(begin * SOUND_RATE)
    wave = np.zeros((1, round(end * SOUND_RATE) - first), np.float32)
    for click in clip.clicks:
      place = round(click * SOUND_RATE) - first
      if place >= 0:
        wave[:, place : place + 48] = 0.9
    frame_size = stream.codec_context.frame_size or 960
    for i in range(0, wave.shape[1] // frame_size * frame_size, frame_size):
      frame = av.AudioFrame.from_ndarray(wave[:, i : i + frame_size].copy(), 'fltp', 'mono')
      frame.sample_rate, frame.pts = SOUND_RATE, first + i
      frame.time_base = Fraction(1, SOUND_RATE)
      for ready in resampler.resample(frame):
        ready.pts, ready.time_base = first + i, Fraction(1, SOUND_RATE)
        packets += stream.encode(ready)
  return packets + list(stream.encode())


# ---------------------------------------------------------------- the right answer


def expected(clip: Clip, how: Mapping[str, Any]) -> list[int]:
  """Numbers of the pictures that a sampling chooses, by its definition in ``sampling``."""
  moments = clip.moments
  count = len(moments)
  mean = moments[-1] / (count - 1) if count > 1 else Fraction(0)
  length = moments[-1] + mean
  if 'every' in how:
    chosen = list(range(0, count, how['every']))
  else:
    if 'uniform' in how:
      times = [length * (2 * i + 1) / (2 * how['uniform']) for i in range(how['uniform'])]
    else:
      step = 1 / Fraction(str(how['fps']))
      times = [i * step for i in range(max(1, -int(-length // step)))]
    chosen = [bisect.bisect_right(moments, time) - 1 for time in times]
  group = how.get('one_in', 1)
  if group > 1:
    middle = (group - 1) // 2
    rest = len(chosen) % group
    last = chosen[-1:] if 0 < rest <= middle else []
    chosen = chosen[middle::group] + last
  return chosen


def draw_sampling(rng: random.Random, clip: Clip) -> dict[str, Any]:
  """A random sampling for frames."""
  kind = rng.choice(('uniform', 'fps', 'every'))
  amount: Any = {
    'uniform': rng.choice((1, 8, 20, len(clip.moments), rng.randint(1, 100))),
    'every': rng.randint(1, 12),
    'fps': rng.choice((1.0, 2.0, 3.0, 5.0, 10.0, 12.5, 15.0, 24.0, 25.0, 30.0)),
  }[kind]
  how = {kind: amount}
  if rng.random() < 0.2:
    how['one_in'] = rng.randint(2, 4)
  return sampling.check(how)


def differences(clip: Clip, how: Mapping[str, Any], path: pathlib.Path) -> list[str]:
  """What is read of a clip and is not what was written into it."""
  wanted: dict[str, Any] = {'pictures': video.Pictures(how, SIZE)}
  if clip.clicks:
    wanted['sound'] = video.Sound(READ_RATE)
  numbers, sound = [], []
  for name, item in video.read(path, wanted):
    if name == 'pictures':
      numbers.append(number_of(item.image))
    else:
      sound.append(item)
  found = []
  if numbers != (right := expected(clip, how)):
    found.append(f'frames {numbers[:12]}, right are {right[:12]}')
  if clip.clicks:
    heard = np.argmax(np.abs(np.concatenate(sound))) / READ_RATE if sound else -1.0
    right_click = float(clip.clicks[0] - clip.start)
    if abs(heard - right_click) > CLICK_ERROR[SOUND[clip.container]]:
      found.append(f'click at {heard:.4f} s, right is {right_click:.4f} s')
  return found


def measure(seeds: Sequence[int]) -> dict[str, list[str]]:
  """Container -> a line for each clip that is read otherwise than written, '' for the others."""
  os.environ['SVT_LOG'] = '1'  # errors only
  results: dict[str, list[str]] = collections.defaultdict(list)
  with tempfile.TemporaryDirectory() as folder:
    for seed in progress(seeds, len(seeds), 'clips', unit='clips'):
      rng = random.Random(seed)
      clip = draw(rng)
      how = draw_sampling(rng, clip)
      path = write(clip, pathlib.Path(folder) / f'clip.{clip.container}')
      try:
        found = differences(clip, how, path)
      except video.VideoError as error:
        found = [str(error)]
      results[clip.container].append(f'seed {seed}: {clip}, {how}: {found}' if found else '')
  return results


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; 1 if any clip differs."""
  parser = argparse.ArgumentParser(prog='python -m benchmarks.frames', description=__doc__)
  parser.add_argument('--clips', type=int, default=1000, metavar='N')
  parser.add_argument('--seed', type=int, default=0, metavar='N', help='of the first clip')
  add_json(parser)
  args = parser.parse_args(argv)
  results = measure(range(args.seed, args.seed + args.clips))
  for line in filter(None, (line for lines in results.values() for line in lines)):
    print(line, file=sys.stderr)
  rows = [
    Row(f'{container}: clips that differ', wrong, f'of {len(lines)}', goal=0, met=not wrong)
    for container, lines in sorted(results.items())
    for wrong in [sum(map(bool, lines))]
  ]
  return 0 if report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
