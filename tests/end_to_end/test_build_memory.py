"""A build holds one video at a time: its memory doesn't grow with the features' size."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

VIDEOS, FRAMES, CHANNELS = 40, 1000, 2048  # 8 MB of float32 a video, 320 MB in all.

BUILD = """
import pathlib, resource, sys
from data_prep.build import main
code = main(sys.argv[1:])
# Peak of this program itself: ru_maxrss counts the parent's before exec as well.
status = pathlib.Path('/proc/self/status').read_text()
print([line for line in status.splitlines() if line.startswith('VmHWM')][0].split()[1])
sys.exit(code)
"""


def peak_mib(folder: pathlib.Path, features: pathlib.Path, out: str) -> float:
  given = [
    *('--format=csv', f'--annotations={folder}/clips.csv', '--min_count=1', '--missing=skip'),
    *(f'--features=image={features}', f'--output={folder / out}', '--shard_mb=16'),
  ]
  command = [sys.executable, '-c', BUILD, *given]
  done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
  return int(done.stdout.split()[-1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path('/proc/self/status').exists(), reason='reads /proc')
def test_memory_is_bounded(tmp_path):
  """Ten times as many videos may take a fifth of what they hold together, no more."""
  ids = [f'v{n}' for n in range(VIDEOS)]
  rows = [f'{video},a dog runs,train' for video in ids]
  (tmp_path / 'clips.csv').write_text('\n'.join(['video_id,caption,split', *rows]))
  few, many = tmp_path / 'few', tmp_path / 'many'
  few.mkdir()
  many.mkdir()
  for video in ids:
    file = np.lib.format.open_memmap(
      many / f'{video}.npy', mode='w+', dtype=np.float32, shape=(FRAMES, CHANNELS)
    )
    file[0] = 1  # The rest is a hole in the file.
    file.flush()
    del file
  for video in ids[:4]:
    (few / f'{video}.npy').symlink_to(many / f'{video}.npy')
  small, large = peak_mib(tmp_path, few, 'one'), peak_mib(tmp_path, many, 'two')
  size = VIDEOS * FRAMES * CHANNELS * 4 / 2**20
  assert large - small < size / 5, f'{small:.0f} MiB for 4 videos, {large:.0f} MiB for {VIDEOS}'
