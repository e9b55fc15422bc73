"""Exports a checkpoint's decoding, by ``jax.export``, to files that need no code of this package.

  DIR/greedy.bin, beam.bin   functions (parameters, inputs) -> captions, for CPU, CUDA and TPU
  DIR/parameters.npz         their parameters, by name
  DIR/vocabulary.json        the words of the tokens
  DIR/manifest.json          inputs and padding, settings, versions, checksums

The functions take a batch of any size and videos of any length:

  inputs['features'][stream]  (b, T, …), as the data set stores them; padding may have any values
  inputs['frames'][stream]    (b,) int32, the frames that are not padding; for a vector 0 or 1
  inputs['category']          (b,) int32, -1 where unknown; only if the model reads it
  inputs['key_frame']         (b,) int32, likewise

and return {'tokens': (b, n_best, L), 'log_prob', 'score', 'ended': (b, n_best)}, best first.
"""

import dataclasses
import hashlib
import importlib.metadata
import json
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jax import export as jax_export
from ml_collections import ConfigDict

from vidcap_jax.checkpoints.restore import Restored, require_captioner
from vidcap_jax.data.schema import Stream
from vidcap_jax.decoding.decode import check_decode
from vidcap_jax.errors import UserError
from vidcap_jax.files import partial_path
from vidcap_jax.inference.captioning import decoder_fn
from vidcap_jax.models.captioner import Needs
from vidcap_jax.models.streams import stream_sizes

FORMAT_VERSION = 1
METHODS = ('greedy', 'beam')
PLATFORMS = ('cpu', 'cuda', 'tpu')
PADDING = (
  'T of a stream is its block times its clock, a whole number from 1; streams of a clock share it. '
  'Of a video longer than longest keep as many whole blocks, evenly spaced; of more regions than '
  'most_regions keep the first, fill up with zeros. A row without a video has 0 frames.'
)


def export(restored: Restored, out: pathlib.Path) -> None:
  """Writes a checkpoint's greedy and beam decoding to a new folder.

  Args:
    restored: the checkpoint, with the decoding settings to export.
    out: a folder that is empty or doesn't exist; it is created when all files are complete.

  Raises:
    ConfigError: the model makes no captions, or its settings don't fit beam search.
    UserError: the folder is not empty.
  """
  require_captioner(restored)
  if out.exists() and (not out.is_dir() or any(out.iterdir())):
    raise UserError(f'--output={out}: not an empty folder; name a new one')
  settings = {method: decode_settings(restored.config.decode, method) for method in METHODS}
  partial = partial_path(out)
  shutil.rmtree(partial, ignore_errors=True)
  partial.mkdir(parents=True)
  np.savez(partial / 'parameters.npz', **jax.device_get(by_name(restored.params)))
  _write_json(partial / 'vocabulary.json', restored.vocabulary.to_dict())
  for method in METHODS:
    exported = export_method(restored, settings[method])
    (partial / f'{method}.bin').write_bytes(exported.serialize())
  manifest = describe(restored, settings)
  manifest['calling_convention'] = exported.calling_convention_version
  manifest['files'] = {path.name: _sha256(path.read_bytes()) for path in sorted(partial.iterdir())}
  manifest['hash'] = _sha256(json.dumps(manifest, sort_keys=True).encode())
  _write_json(partial / 'manifest.json', manifest)
  partial.replace(out)
  size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
  print(f'{out}: {" and ".join(METHODS)} decoding for {", ".join(PLATFORMS)}, {size:.1f} MB')


def decode_settings(settings: Mapping, method: str) -> dict[str, Any]:
  """A checkpoint's decoding settings for a method, which need not be its own.

  Greedy decoding gives one caption per video, without groups or forced words.
  """
  changed = {**settings, 'method': method}
  if method == 'greedy':
    changed |= {'n_best': 1, 'groups': 1, 'force': ()}
  check_decode(changed)
  return changed


def by_name(params: Mapping) -> dict[str, Any]:
  """Parameters by the names of their modules, joined by '/'."""
  return flatten_dict(params, sep='/')


def export_method(restored: Restored, settings: Mapping) -> jax_export.Exported:
  """Decoding by ``settings``, lowered for all platforms: (parameters by name, inputs) -> dict."""
  config = ConfigDict(restored.config.to_dict())
  config.decode = ConfigDict(settings)
  streams = restored.streams
  run = decoder_fn(restored.module, streams, restored.vocabulary, config, restored.length)

  @jax.jit
  def caption(parameters, inputs):
    captions = run(unflatten_dict(parameters, sep='/'), to_batch(inputs, streams))
    return {field.name: getattr(captions, field.name) for field in dataclasses.fields(captions)}

  shapes = {k: jax.ShapeDtypeStruct(x.shape, x.dtype) for k, x in by_name(restored.params).items()}
  return jax_export.export(caption, platforms=PLATFORMS)(shapes, input_shapes(restored))


def to_batch(inputs: Mapping, streams: Sequence[Stream]) -> dict[str, Any]:
  """Converts an exported function's inputs to a batch (see ``vidcap_jax.data.batch``)."""
  features, masks = {}, {}
  for stream in streams:
    x, frames = inputs['features'][stream.name], inputs['frames'][stream.name]
    B = x.shape[0]
    if stream.kind == 'vector':
      features[stream.name], masks[stream.name] = x, frames > 0
      continue
    T = x.shape[1]
    mask = jnp.arange(T, dtype=frames.dtype)[None] < frames[:, None]  # (B, T)
    if stream.kind == 'grid':
      x = x.reshape(B, T, x.shape[2] * x.shape[3], x.shape[4])  # cells row by row
      mask = jnp.broadcast_to(mask[..., None], x.shape[:3])
    elif stream.kind == 'regions':
      mask = mask[..., None] & (x != 0).any(axis=-1)  # all zero: no region
    features[stream.name], masks[stream.name] = x, mask
  unknown = jnp.full_like(frames, -1)
  return {
    'features': features,
    'masks': masks,
    'video_index': unknown,  # only sampling depends on it
    'category': inputs.get('category', unknown),
    'key_frame': inputs.get('key_frame', unknown),
  }


def clock(stream: Stream, needs: Needs) -> tuple[int, str]:
  """(block, symbol) of a stream: its T is the block times the symbol in its shape."""
  return (
    (needs.blocks[stream.name], 't') if stream.name in needs.blocks else (1, f't_{stream.name}')
  )


def axes(stream: Stream, needs: Needs) -> list[str | int]:
  """Axes of a stream in a batch, with symbols for free sizes: ['b', '3*t', 36, 2048]."""
  if stream.kind == 'vector':
    return ['b', stream.channels]
  block, symbol = clock(stream, needs)
  regions = stream.kind == 'regions'
  inner = [max(1, stream.most_regions)] if regions else list(stream.shape[1:-1])
  return ['b', symbol if block == 1 else f'{block}*{symbol}', *inner, stream.channels]


def input_shapes(restored: Restored) -> dict[str, Any]:
  """Shapes and dtypes of an exported function's inputs."""
  needs = restored.module.config.needs
  symbols = {clock(s, needs)[1] for s in restored.streams if s.kind != 'vector'}
  scope = jax_export.SymbolicScope([f'{symbol} >= 1' for symbol in sorted({'b', *symbols})])

  def shape(axes: Sequence[str | int], dtype: Any) -> jax.ShapeDtypeStruct:
    text = ', '.join(str(axis) for axis in axes)
    return jax.ShapeDtypeStruct(jax_export.symbolic_shape(text, scope=scope), dtype)

  numbers = [name for name, is_read in _numbers(needs).items() if is_read]
  return {
    'features': {s.name: shape(axes(s, needs), s.dtype) for s in restored.streams},
    'frames': {s.name: shape(['b'], jnp.int32) for s in restored.streams},
    **{name: shape(['b'], jnp.int32) for name in numbers},
  }


def _numbers(needs: Needs) -> dict[str, bool]:
  """The inputs of one number per video, and whether the model reads them."""
  return {'category': needs.categories > 0, 'key_frame': needs.key_frames}


def describe(restored: Restored, settings: Mapping[str, Mapping]) -> dict[str, Any]:
  """The manifest, without checksums."""
  needs = restored.module.config.needs
  longest = stream_sizes(restored.streams, restored.config, needs)
  streams = []
  for s in restored.streams:
    block, symbol = clock(s, needs)
    stream = {k: getattr(s, k) for k in ('name', 'kind', 'shape', 'dtype', 'optional')}
    stream |= {'axes': axes(s, needs)}
    if s.kind != 'vector':
      stream |= {'block': block, 'clock': symbol, 'longest': longest[s.name][0]}
    if s.kind == 'regions':
      stream |= {'most_regions': max(1, s.most_regions)}
    streams.append(stream | {k: getattr(s, k) for k in ('extractor', 'version', 'sampling')})
  versions = {name: importlib.metadata.version(name) for name in ('jax', 'jaxlib', 'flax')}
  return {
    'format_version': FORMAT_VERSION,
    'checkpoint': str(restored.path),
    'model': restored.config.model.to_dict(),
    'dtype': restored.config.train.dtype,
    'streams': streams,
    'padding': PADDING,
    'numbers': [name for name, read in _numbers(needs).items() if read],
    'key_frames': dict(restored.key_frames),
    'length': restored.length,
    'decode': {method: dict(settings[method]) for method in METHODS},
    'platforms': PLATFORMS,
    'vocabulary_hash': restored.vocabulary.hash,
    'versions': versions,
  }


def _sha256(data: bytes) -> str:
  return hashlib.sha256(data).hexdigest()


def _write_json(path: pathlib.Path, data: Mapping) -> None:
  path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + '\n', encoding='utf-8')
