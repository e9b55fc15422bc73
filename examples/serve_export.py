"""Captions videos with an exported model and features; needs only jax, numpy and flatbuffers.

  python examples/serve_export.py --export=DIR --features=image=FOLDER,motion=FOLDER [--method=beam]

DIR comes from `python -m vidcap_jax.main --mode=export`. A folder holds one VIDEO.npy for each
video, in the shapes used for training: (T, D), (T, N, D), (T, rows, columns, D), or (D,) for a
vector. It prints one JSON line for each video. A bad file is reported on stderr, its video is left
out, and the exit code is 1.

This file works for any exported model and can be copied to the machine that serves captions.
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


class InputError(ValueError):
  """An export, a flag or a feature file that cannot be used; the message says why."""


def load(folder: pathlib.Path, method: str) -> tuple[dict, list[str], Callable]:
  """Reads an export: its manifest, its words, and a function from inputs to captions.

  Raises:
    InputError: there is no export, or it is damaged, or this jax or device cannot run it.
  """
  try:
    manifest = json.loads((folder / 'manifest.json').read_text(encoding='utf-8'))
  except (OSError, ValueError) as error:
    raise InputError(f'{folder}: no export: {error}') from None
  version = manifest.get('format_version')
  if version != FORMAT_VERSION:
    raise InputError(f'{folder}: format version {version}; this program reads {FORMAT_VERSION}')
  hashed = {key: value for key, value in manifest.items() if key != 'hash'}
  if (
    manifest.get('hash') != hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()
  ):
    raise InputError(f'{folder}/manifest.json has changed since the export; export the model again')
  supported = range(
    jax_export.minimum_supported_calling_convention_version,
    jax_export.maximum_supported_calling_convention_version + 1,
  )
  if manifest['calling_convention'] not in supported:
    raise InputError(
      f'{folder} was exported by jax {manifest["versions"]["jax"]} (calling convention '
      f'{manifest["calling_convention"]}); jax {jax.__version__} runs {supported.start} '
      f'to {supported.stop - 1}; install that jax, or export again with this one'
    )
  # Exports have jax's names of devices, except for NVIDIA's.
  platform = {'gpu': 'cuda'}.get(jax.default_backend(), jax.default_backend())
  if platform not in manifest['platforms']:
    raise InputError(
      f'{folder} was exported for {", ".join(manifest["platforms"])}, not {platform}'
    )

  def read(name: str) -> pathlib.Path:
    path = folder / name
    if not path.is_file():
      raise InputError(f'{path}: no such file; the export is incomplete')
    if hashlib.sha256(path.read_bytes()).hexdigest() != manifest['files'].get(name):
      raise InputError(f'{path}: it has changed since the export (checksum); copy it again')
    return path

  words = json.loads(read('vocabulary.json').read_text(encoding='utf-8'))['words']
  program = jax_export.deserialize(bytearray(read(f'{method}.bin').read_bytes()))
  with np.load(read('parameters.npz')) as saved:
    parameters = jax.device_put({name: saved[name] for name in saved.files})
  call = jax.jit(program.call)
  return manifest, words, lambda inputs: jax.device_get(call(parameters, inputs))


# ---------------------------------------------------------------- from videos to a batch


def check(array: np.ndarray | None, stream: Mapping) -> np.ndarray:
  """Checks and converts a video's array of a stream, frames first, for the model.

  Raises:
    InputError: it is missing, has another shape, or is not made of finite numbers.
  """
  shape = tuple(stream['shape'])  # None for any size
  if array is None:
    if not stream['optional']:
      raise InputError('no such file')
    inner = shape if stream['kind'] == 'vector' else shape[1:]
    array = np.zeros((0, *(0 if n is None else n for n in inner)))
  elif array.dtype.kind not in 'fiu':
    raise InputError(f'its dtype is {array.dtype}, not numbers')
  elif array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape)):
    raise InputError(f'its shape is {array.shape}, the model needs {shape} (None: any size)')
  elif stream['kind'] == 'vector':
    array = array[None]
  if not array.size and not stream['optional']:
    raise InputError(f'it is empty: its shape is {array.shape}')
  with np.errstate(over='ignore'):
    array = array.astype(stream['dtype'])
  if not np.isfinite(array).all():
    raise InputError(f'it has NaN, infinity, or values too large for {stream["dtype"]}')
  if stream['kind'] == 'regions':
    array = array[:, : stream['most_regions']]
  return array if stream['kind'] == 'vector' else array[select_frames(len(array), stream)]


def select_frames(frames: int, stream: Mapping) -> np.ndarray:
  """The indices of evenly spaced blocks of a long video, the first and the last included."""
  longest, block = stream['longest'], stream['block']
  if frames <= longest:
    return np.arange(frames)
  available, kept = -(-frames // block), longest // block  # blocks
  chosen = np.rint(np.linspace(0, available - 1, kept)) if kept > 1 else np.array([available // 2])
  chosen = (chosen.astype(int)[:, None] * block + np.arange(block)).reshape(-1)
  return chosen[chosen < frames]


def batch_of(
  videos: Mapping[str, Mapping[str, np.ndarray]], manifest: Mapping, rows: int
) -> dict[str, Any]:
  """Inputs of `rows` rows, which begin with these videos: id -> stream -> checked array.

  Lengths are rounded up to powers of two, up to the longest in training, because every new shape is
  compiled.
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
  """The words of (L,) tokens, up to the first EOS or PAD."""
  ends = np.isin(tokens, (PAD, EOS))
  return ' '.join(words[t] for t in tokens[: ends.argmax() if ends.any() else None])


def folders_of(text: str, manifest: Mapping) -> dict[str, pathlib.Path]:
  """Parses --features: stream -> folder.

  Raises:
    InputError: a stream without a folder, an unknown stream, or a missing folder.
  """
  known = [stream['name'] for stream in manifest['streams']]
  given = dict(part.partition('=')[::2] for part in text.split(','))
  if set(given) != set(known):
    wanted = ','.join(f'{name}=FOLDER' for name in known)
    raise InputError(f'--features={text}: the model reads the streams {", ".join(known)}: {wanted}')
  folders = {name: pathlib.Path(path) for name, path in given.items()}
  for folder in folders.values():
    if not folder.is_dir():
      raise InputError(f'--features: {folder}: no such folder')
  return folders


def read(path: pathlib.Path) -> np.ndarray:
  """The array of a file.

  Raises:
    InputError: the file is no complete .npy file of numbers.
  """
  try:
    return np.load(path)
  except (EOFError, ValueError):  # empty, truncated, Python objects or another format
    raise InputError('not a complete .npy file of numbers') from None


def read_video(
  video: str, folders: Mapping[str, pathlib.Path], manifest: Mapping
) -> dict[str, np.ndarray] | None:
  """The checked arrays of a video, stream -> array, or None after reporting its bad files."""
  arrays = {}
  for stream in manifest['streams']:
    path = folders[stream['name']] / f'{video}.npy'
    try:
      arrays[stream['name']] = check(read(path) if path.is_file() else None, stream)
    except (InputError, OSError) as error:
      print(f'{path}: {error}', file=sys.stderr, flush=True)
  return arrays if len(arrays) == len(folders) else None


def print_captions(videos: Sequence[str], outputs: Mapping, words: Sequence[str]) -> None:
  """Prints a JSON line for each video, with all its captions if there are several."""
  for video, tokens, log_prob in zip(videos, outputs['tokens'], outputs['log_prob']):
    captions = [
      {'caption': text_of(t, words), 'log_prob': float(p)} for t, p in zip(tokens, log_prob)
    ]
    more = {'captions': captions} if len(captions) > 1 else {}
    print(json.dumps({'video_id': video, **captions[0], **more}, ensure_ascii=False), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
  """The command; returns the exit code."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--export', required=True, type=pathlib.Path, help='folder of the export')
  parser.add_argument('--features', required=True, help='STREAM=FOLDER, separated by commas')
  parser.add_argument('--method', choices=('greedy', 'beam'), default='beam', help='of decoding')
  parser.add_argument('--batch_size', type=int, default=8, help='videos per batch')
  flags = parser.parse_args(argv)
  try:
    manifest, words, caption = load(flags.export, flags.method)
    folders = folders_of(flags.features, manifest)
  except InputError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1

  failed = False
  batch: dict[str, dict[str, np.ndarray]] = {}
  videos = {path.stem for folder in folders.values() for path in folder.glob('*.npy')}
  for video in sorted(videos):
    if (arrays := read_video(video, folders, manifest)) is None:
      failed = True
      continue
    batch[video] = arrays
    if len(batch) == flags.batch_size:
      print_captions(list(batch), caption(batch_of(batch, manifest, flags.batch_size)), words)
      batch.clear()
  if batch:
    print_captions(list(batch), caption(batch_of(batch, manifest, flags.batch_size)), words)
  return int(failed)


if __name__ == '__main__':
  sys.exit(main())
