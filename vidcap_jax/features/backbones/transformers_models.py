"""CLIP's image encoder and video networks of transformers, from a folder as its hub has them.

``transformers/openai/clip-vit-base-patch32`` is the image's place in the space that it shares with
text, (T, D); ``transformers/MCG-NJU/videomae-base`` the mean of a window's tokens, (T, D), and
``transformers/facebook/timesformer-base-finetuned-k400`` a window's first one. With ``/grid``
behind it CLIP and VideoMAE give their tokens by place, (T, rows, columns, D).
"""

import functools
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from vidcap_jax.features import weights
from vidcap_jax.features.backbones import torch_runtime
from vidcap_jax.features.extractors import Extractor, ExtractorError, joined
from vidcap_jax.features.networks import Forward, Network

_SETTINGS = 'config.json'
_INPUTS = ('preprocessor_config.json', 'processor_config.json')
_STATES = ('model.safetensors', 'pytorch_model.bin')


class _Model(NamedTuple):
  """One type of model of transformers.

  Attributes:
    kind: its class.
    reads: 'frames' or 'windows'.
    outputs: (what it returns, its settings) -> {output: tensor}.
  """

  kind: str
  reads: str
  outputs: Callable[[Any, Any], dict]


def _clip(found, settings) -> dict:
  side = settings.image_size // settings.patch_size
  tokens = found.last_hidden_state[:, 1:]  # the first is of no place
  return {'pooled': found.image_embeds, 'grid': tokens.unflatten(1, (side, side))}


def _videomae(found, settings) -> dict:
  tokens = found.last_hidden_state
  side = settings.image_size // settings.patch_size
  steps = settings.num_frames // settings.tubelet_size
  return {'pooled': tokens.mean(1), 'grid': tokens.unflatten(1, (steps, side, side))}


def _first(found, settings) -> dict:
  return {'pooled': found.last_hidden_state[:, 0]}


_MODELS = {
  'clip': _Model('CLIPVisionModelWithProjection', 'frames', _clip),
  'clip_vision_model': _Model('CLIPVisionModelWithProjection', 'frames', _clip),
  'videomae': _Model('VideoMAEModel', 'windows', _videomae),
  'timesformer': _Model('TimesformerModel', 'windows', _first),
  'vivit': _Model('VivitModel', 'windows', _first),
}


def family(rest: str) -> tuple[Extractor, Network]:
  """The extractor and network of a name without ``transformers/``.

  Raises:
    ExtractorError: a type of model that is not known here, or an output that it does not have.
    weights.WeightsError: files that are not there; says what to fetch.
    ModuleNotFoundError: transformers is not installed; says how to install it.
  """
  name, _, last = rest.rpartition('/')
  name, output = (name, 'grid') if last == 'grid' else (rest, 'pooled')
  files = _files(name)  # their weights may have been given anew since the last call
  return _made(name, output, files)


@functools.cache
def _made(name: str, output: str, files: tuple[pathlib.Path, ...]) -> tuple[Extractor, Network]:
  settings = _settings(files[0])
  if settings.model_type not in _MODELS:
    known = ', '.join(_MODELS)
    raise ExtractorError(
      f'transformers/{name}: {files[0]} says model_type {settings.model_type!r}; known: {known}'
    )
  model = _MODELS[settings.model_type]
  seen = getattr(settings, 'vision_config', settings)
  inputs = _read_json(files[1])
  frames = (seen.num_frames,) if model.reads == 'windows' else ()
  shape = _shape(model, settings, seen, frames, output)
  if shape is None:
    raise ExtractorError(f'transformers/{name}: has no output {output!r}; it has pooled')
  whole = model.reads == 'windows' and output == 'grid'  # several steps a window
  network = Network(
    seen.image_size,
    functools.partial(_load, name),
    reads=model.reads,
    scale=_scale(inputs, seen.image_size),
    batch=2 if frames else 8,
    window=frames[0] if frames else None,
    weights=lambda: _files(name),
  )
  extractor = Extractor(
    kind='grid' if output == 'grid' else 'sequence',
    shape=(None, *shape[1:]) if whole else (None, *shape),
    version=f'transformers-1/{settings.model_type}/{{weights}}',
    network=f'transformers/{name}',
    outputs=(output,),
    finish=joined if whole else (lambda array: array),
    sampling={'fps': 8.0, 'window': frames[0], 'stride': frames[0]} if frames else {'uniform': 20},
  )
  return extractor, network


def _shape(model: _Model, settings, seen, frames, output: str) -> tuple[int, ...] | None:
  """The shape of an output for one frame or window; None if there is no such output."""
  torch = torch_runtime.require('torch')
  with torch.device('meta'), torch.inference_mode():
    made = _class(model)(_own(model, settings)).eval()
    x = torch.empty(1, *frames, 3, seen.image_size, seen.image_size)
    found = model.outputs(made(pixel_values=x), seen)
  return tuple(found[output].shape[1:]) if output in found else None


def _class(model: _Model):
  return getattr(torch_runtime.require('transformers'), model.kind)


def _own(model: _Model, settings):
  """The settings of the part that is used: of CLIP, the one that sees."""
  seen = getattr(settings, 'vision_config', None)
  if seen is None:
    return settings
  seen.projection_dim = settings.projection_dim
  return seen


def _files(name: str) -> tuple[pathlib.Path, ...]:
  """Settings, inputs and weights of a model."""
  given = weights.given().get(f'transformers/{name}')
  folder = given.parent if given else weights.folder() / 'transformers' / name
  files = []
  for choices in ((_SETTINGS,), _INPUTS, (given.name,) if given else _STATES):
    there = [folder / choice for choice in choices if (folder / choice).is_file()]
    if not there:
      raise weights.WeightsError(
        f'weights of transformers/{name}: no {" or ".join(choices)} in {folder}. Fetch '
        f'{_SETTINGS}, {_INPUTS[0]} and {_STATES[0]} of https://huggingface.co/{name}, and put '
        f'them there (the environment variable {weights.VARIABLE} names another weights folder)'
      )
    files.append(there[0])
  return tuple(files)


def _read_json(path: pathlib.Path) -> dict:
  try:
    found = json.loads(path.read_text())
  except (OSError, ValueError) as error:
    raise weights.WeightsError(f'{path}: cannot be read ({error})') from None
  if not isinstance(found, dict):
    raise weights.WeightsError(f'{path}: a JSON object expected')
  return found.get('image_processor') or found.get('video_processor') or found


def _settings(path: pathlib.Path):
  _read_json(path)
  transformers = torch_runtime.require('transformers')
  try:
    return transformers.AutoConfig.from_pretrained(path.parent, local_files_only=True)
  except (ValueError, KeyError, OSError) as error:
    told = ' '.join(str(error).split())[:300]
    raise weights.WeightsError(f'{path}: not the settings of a model ({told})') from None


def _scale(inputs: Mapping, size: int) -> int:
  """What a frame's shorter side is scaled to before the middle is cut."""
  wanted = inputs.get('size', size)
  if isinstance(wanted, Mapping):
    wanted = wanted.get('shortest_edge') or min(
      wanted.get('height', size), wanted.get('width', size)
    )
  return max(int(wanted), size)


def _load(
  name: str, settings_file: pathlib.Path, inputs_file: pathlib.Path, path: pathlib.Path
) -> Forward:
  torch = torch_runtime.require('torch')
  settings = _settings(settings_file)
  model = _MODELS[settings.model_type]
  seen, inputs = getattr(settings, 'vision_config', settings), _read_json(inputs_file)
  try:
    mean, std = inputs['image_mean'], inputs['image_std']
  except KeyError as error:
    raise weights.WeightsError(f'{inputs_file}: {error} is missing') from None
  try:
    made, report = _class(model).from_pretrained(
      path.parent, config=_own(model, settings), local_files_only=True, output_loading_info=True
    )
  except Exception as error:  # by model and file: OSError, RuntimeError, SafetensorError …
    told = ' '.join(str(error).split())[:400]
    raise weights.WeightsError(f'{path}: not the weights of {name}: {told}') from None
  if report['missing_keys']:
    told = ', '.join(sorted(report['missing_keys'])[:4])
    raise weights.WeightsError(f'{path}: not the weights of {name}: missing {told}')
  made = torch_runtime.ready(made)

  def forward(frames, wanted):
    with torch.inference_mode():
      x = torch_runtime.pixels(frames, mean, std).movedim(-1, -3)
      found = model.outputs(made(pixel_values=x), seen)
    return {output: torch_runtime.numbers(found[output]) for output in wanted}

  return forward
