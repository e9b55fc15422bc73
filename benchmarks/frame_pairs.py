"""Frames of MSR-VTT from a public collection of frame pairs, as folders that ``extract`` reads.

  python -m benchmarks.frame_pairs --pairs=all_concat --output=frames

The collection (github.com/BennoKrojer/imagecode-msrvtt-pairs) has pictures of two frames side by
side, in folders ``…_videoNNNN-shotS_P`` for pair P of shot S. A video's frames are those of its
pairs in order: OUTPUT/videoNNNN/0000.jpg, 0001.jpg, …
"""

import argparse
import pathlib
import re
import sys
from collections import defaultdict
from collections.abc import Sequence

from vidcap_jax import command_errors
from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError
from vidcap_jax.files import check_input, check_output

_FOLDER = re.compile(r'_(?P<video>video[0-9]+)-shot(?P<shot>[0-9]+)_(?P<pair>[0-9]+)$')


def pairs_of_videos(folder: pathlib.Path) -> dict[str, list[pathlib.Path]]:
  """Video id -> its pictures of pairs, in order.

  Raises:
    DataError: no folder of pairs, or a folder of another name.
  """
  found: dict[str, list[tuple[int, int, pathlib.Path]]] = defaultdict(list)
  for pair in sorted(path for path in folder.iterdir() if path.is_dir()):
    match = _FOLDER.search(pair.name)
    if not match:
      raise DataError(f'{pair}: the name does not end in _videoNNNN-shotS_P')
    for picture in sorted(pair.glob('*.jpg')):
      found[match['video']].append((int(match['shot']), int(match['pair']), picture))
  if not found:
    raise DataError(f'{folder}: has no folder …_videoNNNN-shotS_P with a .jpg')
  return {video: [picture for *_, picture in sorted(pairs)] for video, pairs in found.items()}


def split_pairs(pictures: Sequence[pathlib.Path], output: pathlib.Path) -> int:
  """Writes the left and the right half of each picture; returns the number of frames."""
  from PIL import Image

  output.mkdir(parents=True, exist_ok=True)
  for i, path in enumerate(pictures):
    with Image.open(path) as picture:
      width, height = picture.size
      for half in (0, 1):
        frame = picture.crop((half * width // 2, 0, (half + 1) * width // 2, height))
        frame.save(output / f'{2 * i + half:04}.jpg', quality=95)
  return 2 * len(pictures)


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit code."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.frame_pairs',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--pairs', required=True, metavar='DIR', help='folder all_concat')
  parser.add_argument('--output', required=True, metavar='DIR', help='folder for VIDEO/NNNN.jpg')
  args = parser.parse_args(argv)
  check_input('--pairs', args.pairs, 'the folder all_concat', 'folder')
  check_output('--output', args.output, folder=True)
  videos = pairs_of_videos(pathlib.Path(args.pairs))
  frames = 0
  for video, pictures in videos.items():
    frames += split_pairs(pictures, pathlib.Path(args.output, video))
  print(f'{args.output}: {counted(frames, "frame")} of {counted(len(videos), "video")}')
  return 0


if __name__ == '__main__':
  sys.exit(main())
