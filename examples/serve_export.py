"""Captions videos from an exported model and features; needs jax, numpy and flatbuffers alone.

  python examples/serve_export.py --export=DIR --features=image=FOLDER,motion=FOLDER [--method=beam]

DIR comes from `python -m vidcap_jax.main --mode=export`. A folder holds one VIDEO.npy for each
video, as it was given to training: (T, D), (T, N, D), (T, rows, columns, D), or (D,) for a vector.
One JSON line for each video on stdout; what fails is named on stderr and makes the exit code 1.

Nothing of this file knows the model: it can be copied to where captions are served.
"""

import argparse
import hashlib
import json
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import export as jax_export

FORMAT_VERSION = 1
PAD, EOS = 0, 2


class Refused(ValueError):
  """Something does not fit; the message says what, and what to do."""


def load(folder: pathlib.Path, method: str) -> tuple[dict, list[str], Callable]:
  """Reads an export: its manifest, its words, and inputs -> captions.

  Raises:
    Refused: no export there, a damaged one, or one that this jax or device cannot run.
  """
  try:
    manifest = json.loads((folder / 'manifest.json').read_text(encoding='utf-8'))
  except (OSError, ValueError) as error:
    raise Refused(f'{folder}: no export: {error}') from None
  version = manifest.get('format_version')
  if version != FORMAT_VERSION:
    raise Refused(f'{folder}: format version {version}; this program reads {FORMAT_VERSION}')
  said = {key: value for key, value in manifest.items() if key != 'hash'}
  if manifest.get('hash') != hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest():
    raise Refused(f'{folder}/manifest.json was changed; export the model again')
  known = range(
    jax_export.minimum_supported_calling_convention_version,
    jax_export.maximum_supported_calling_convention_version + 1,
  )
  if manifest['calling_convention'] not in known:
    raise Refused(
      f'{folder} was exported by jax {manifest["versions"]["jax"]} (calling convention '
      f'{manifest["calling_convention"]}); jax {jax.__version__} runs {known.start} to '
      f'{known.stop - 1}: install that jax, or export again with this one'
    )
  # What a device is called here is what it is called there but for NVIDIA's.
  platform = {'gpu': 'cuda'}.get(jax.default_backend(), jax.default_backend())
  if platform not in manifest['platforms']:
    raise Refused(f'{folder} was exported for {", ".join(manifest["platforms"])}, not {platform}')

  def read(name: str) -> pathlib.Path:
    path = folder / name
    if not path.is_file():
      raise Refused(f'{path}: no such file; the export is not whole')
    if hashlib.sha256(path.read_bytes()).hexdigest() != manifest['files'].get(name):
      raise Refused(f'{path}: not the file that was exported (other checksum); copy it again')
    return path

  words = json.loads(read('vocabulary.json').read_text(encoding='utf-8'))['words']
  program = jax_export.deserialize(bytearray(read(f'{method}.bin').read_bytes()))
  with np.load(read('parameters.npz')) as saved:
    parameters = jax.device_put({name: saved[name] for name in saved.files})
  call = jax.jit(program.call)
  return manifest, words, lambda inputs: jax.device_get(call(parameters, inputs))


# ---------------------------------------------------------------- from videos to a batch


def check(array: np.ndarray | None, stream: Mapping) -> np.ndarray:
  """A video's array of a stream, frames first, as the model takes it.

  Raises:
    Refused: it is missing, of another shape, or not finite numbers.
  """
  shape = tuple(stream['shape'])  # None where any size will do
  if array is None:
    if not stream['optional']:
      raise Refused('no such file')
    inner = shape if stream['kind'] == 'vector' else shape[1:]
    array = np.zeros((0, *(0 if n is None else n for n in inner)))
  elif array.dtype.kind not in 'fiu':
    raise Refused(f'it holds {array.dtype}, not numbers')
  elif array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape)):
    raise Refused(f'it has shape {array.shape}, the model was made for {shape} (None: any size)')
  elif stream['kind'] == 'vector':
    array = array[None]
  if not array.size and not stream['optional']:
    raise Refused(f'it is empty: {array.shape}')
  with np.errstate(over='ignore'):
    array = array.astype(stream['dtype'])
  if not np.isfinite(array).all():
    raise Refused(f'it holds NaN, infinity, or what is too large for {stream["dtype"]}')
  if stream['kind'] == 'regions':
    array = array[:, : stream['most_regions']]
  return array if stream['kind'] == 'vector' else array[keep(len(array), stream)]


def keep(frames: int, stream: Mapping) -> np.ndarray:
  """Which frames of a long video stay: whole blocks, evenly spaced, the first and the last."""
  longest, block = stream['longest'], stream['block']
  if frames <= longest:
    return np.arange(frames)
  units, kept = -(-frames // block), longest // block
  chosen = np.rint(np.linspace(0, units - 1, kept)) if kept > 1 else np.array([units // 2])
  chosen = (chosen.astype(int)[:, None] * block + np.arange(block)).reshape(-1)
  return chosen[chosen < frames]


def batch_of(
  videos: Mapping[str, Mapping[str, np.ndarray]], manifest: Mapping, rows: int
) -> dict[str, Any]:
  """Inputs of `rows` rows, the first of them for these videos: id -> stream -> checked array.

  Lengths are rounded up to powers of two, at most the longest in training: every shape is compiled
  once, so there should be few.
  """
  units: dict[str, int] = {}
  for stream in manifest['streams']:
    if stream['kind'] != 'vector':
      block = stream['block']
      needed = max([1, *(-(-len(arrays[stream['name']]) // block) for arrays in videos.values())])
      rounded = min(2 ** (needed - 1).bit_length(), stream['longest'] // block)
      units[stream['clock']] = max(rounded, units.get(stream['clock'], 1))
  inputs: dict[str, Any] = {'features': {}, 'frames': {}}
  for stream in manifest['streams']:
    name, kind, shape = stream['name'], stream['kind'], stream['shape']
    T = 1 if kind == 'vector' else units[stream['clock']] * stream['block']
    inner = [stream['most_regions']] if kind == 'regions' else shape[1:-1]
    x, frames = np.zeros((rows, T, *inner, shape[-1]), stream['dtype']), np.zeros(rows, np.int32)
    for row, arrays in enumerate(videos.values()):
      array = arrays[name]
      x[row][tuple(slice(n) for n in array.shape)] = array
      frames[row] = len(array)
    inputs['features'][name] = x[:, 0] if kind == 'vector' else x
    inputs['frames'][name] = frames
  for number in manifest['numbers']:
    inputs[number] = np.full(rows, -1, np.int32)  # unknown
  if 'key_frame' in manifest['numbers']:
    given = [manifest['key_frames'].get(video, -1) for video in videos]
    inputs['key_frame'][: len(given)] = given
  return inputs


# ---------------------------------------------------------------- the command


def text_of(tokens: np.ndarray, words: Sequence[str]) -> str:
  """The words of (L,) tokens, up to the first that ends a caption."""
  ends = np.isin(tokens, (PAD, EOS))
  return ' '.join(words[t] for t in tokens[: ends.argmax() if ends.any() else None])


def folders_of(text: str, manifest: Mapping) -> dict[str, pathlib.Path]:
  """Stream -> folder, of --features.

  Raises:
    Refused: a stream without a folder, or a folder of no stream.
  """
  known = [stream['name'] for stream in manifest['streams']]
  given = dict(part.partition('=')[::2] for part in text.split(','))
  if set(given) != set(known):
    wanted = ','.join(f'{name}=FOLDER' for name in known)
    raise Refused(f'--features={text}: the model reads the streams {", ".join(known)}: {wanted}')
  folders = {name: pathlib.Path(path) for name, path in given.items()}
  for folder in folders.values():
    if not folder.is_dir():
      raise Refused(f'--features: {folder}: no such folder')
  return folders


def read(path: pathlib.Path) -> np.ndarray:
  """The array of a file; Refused where there is no whole array of numbers in it."""
  try:
    return np.load(path)
  except (EOFError, ValueError):  # empty, cut short, Python objects or something else altogether
    raise Refused('not a whole .npy file of numbers') from None


def main(argv: Sequence[str] | None = None) -> int:
  """The command; returns the exit code."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--export', required=True, type=pathlib.Path, help='folder of the export')
  parser.add_argument('--features', required=True, help='STREAM=FOLDER, commas between them')
  parser.add_argument('--method', choices=('greedy', 'beam'), default='beam', help='of decoding')
  parser.add_argument('--batch_size', type=int, default=8, help='videos captioned at a time')
  flags = parser.parse_args(argv)
  try:
    manifest, words, caption = load(flags.export, flags.method)
    folders = folders_of(flags.features, manifest)
  except Refused as error:
    print(f'error: {error}', file=sys.stderr)
    return 1

  def flush(videos: dict[str, dict[str, np.ndarray]]) -> None:
    made = caption(batch_of(videos, manifest, flags.batch_size))
    for video, tokens, log_prob in zip(videos, made['tokens'], made['log_prob']):
      several = [
        {'caption': text_of(t, words), 'log_prob': float(p)} for t, p in zip(tokens, log_prob)
      ]
      more = {'captions': several} if len(several) > 1 else {}
      print(json.dumps({'video_id': video, **several[0], **more}, ensure_ascii=False), flush=True)
    videos.clear()

  videos: dict[str, dict[str, np.ndarray]] = {}
  failed = False
  for video in sorted({path.stem for folder in folders.values() for path in folder.glob('*.npy')}):
    arrays = {}
    for stream in manifest['streams']:
      path = folders[stream['name']] / f'{video}.npy'
      try:
        arrays[stream['name']] = check(read(path) if path.is_file() else None, stream)
      except (Refused, OSError) as error:
        print(f'{path}: {error}', file=sys.stderr, flush=True)
        failed = True
    if len(arrays) == len(folders):
      videos[video] = arrays
    if len(videos) == flags.batch_size:
      flush(videos)
  if videos:
    flush(videos)
  return int(failed)


if __name__ == '__main__':
  sys.exit(main())
