"""CLIP's image encoder and video networks of transformers, from local copies of hub folders.

``transformers/openai/clip-vit-base-patch32`` gives the image's embedding in the space shared with
text, (T, D); ``transformers/MCG-NJU/videomae-base`` the mean of a window's tokens, (T, D), and
``transformers/facebook/timesformer-base-finetuned-k400`` a window's first token. With ``/grid``
appended, CLIP and VideoMAE give the grid of their tokens, (T, rows, columns, D).
"""

import functools
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vidcap_jax.features import weights
from vidcap_jax.features.backbones import torch_runtime
from vidcap_jax.features.extractors import Extractor, ExtractorError
from vidcap_jax.features.finish import join_windows
from vidcap_jax.features.networks import Forward, Network

SETTINGS = 'config.json'
INPUTS = ('preprocessor_config.json', 'processor_config.json')
STATES = ('model.safetensors', 'pytorch_model.bin')


class _Model(NamedTuple):
  """One type of model of transformers.

  Attributes:
    kind: name of its class.
    reads: 'frames' or 'windows'.
    outputs: (the model's return value, its settings) -> {output: tensor}.
  """

  kind: str
  reads: str
  outputs: Callable[[Any, Any], dict]


def _clip(result, settings) -> dict:
  side = settings.image_size // settings.patch_size
  tokens = result.last_hidden_state[:, 1:]  # without the class token
  return {'pooled': result.image_embeds, 'grid': tokens.unflatten(1, (side, side))}


def _videomae(result, settings) -> dict:
  tokens = result.last_hidden_state
  side = settings.image_size // settings.patch_size
  steps = settings.num_frames // settings.tubelet_size
  return {'pooled': tokens.mean(1), 'grid': tokens.unflatten(1, (steps, side, side))}


def _first(result, settings) -> dict:
  return {'pooled': result.last_hidden_state[:, 0]}


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
    ExtractorError: an unknown type of model, or an output that it does not have.
    weights.WeightsError: missing files; says what to fetch.
    ModuleNotFoundError: transformers is not installed; says how to install it.
  """
  name, _, last = rest.rpartition('/')
  name, output = (name, 'grid') if last == 'grid' else (rest, 'pooled')
  files = _files(name)  # not cached: ``weights.set_paths`` may have changed them
  return _extractor_and_network(name, output, files)


@functools.cache
def _extractor_and_network(
  name: str, output: str, files: tuple[pathlib.Path, ...]
) -> tuple[Extractor, Network]:
  settings = read_settings(files[0])
  if settings.model_type not in _MODELS:
    known = ', '.join(_MODELS)
    raise ExtractorError(
      f'transformers/{name}: {files[0]} says model_type {settings.model_type!r}; known: {known}'
    )
  model = _MODELS[settings.model_type]
  vision = getattr(settings, 'vision_config', settings)
  inputs = read_inputs(files[1])
  frames = (vision.num_frames,) if model.reads == 'windows' else ()
  shape = _shape(model, settings, vision, frames, output)
  if shape is None:
    raise ExtractorError(f'transformers/{name}: has no output {output!r}; it has pooled')
  has_steps = model.reads == 'windows' and output == 'grid'  # several steps a window
  network = Network(
    vision.image_size,
    functools.partial(_load, name),
    reads=model.reads,
    scale=shorter_side(inputs, vision.image_size),
    batch=2 if frames else 8,
    window=frames[0] if frames else None,
    weights=lambda: _files(name),
  )
  extractor = Extractor(
    kind='grid' if output == 'grid' else 'sequence',
    shape=(None, *shape[1:]) if has_steps else (None, *shape),
    version=f'transformers-1/{settings.model_type}/{{weights}}',
    network=f'transformers/{name}',
    outputs=(output,),
    finish=join_windows if has_steps else (lambda array: array),
    sampling={'fps': 8.0, 'window': frames[0], 'stride': frames[0]} if frames else {'uniform': 20},
  )
  return extractor, network


def _shape(model: _Model, settings, vision, frames, output: str) -> tuple[int, ...] | None:
  """The shape of an output for one frame or window; None if there is no such output."""
  torch = torch_runtime.require('torch')
  with torch.device('meta'), torch.inference_mode():
    empty_model = _class(model)(_vision_settings(settings)).eval()
    x = torch.empty(1, *frames, 3, vision.image_size, vision.image_size)
    result = model.outputs(empty_model(pixel_values=x), vision)
  return tuple(result[output].shape[1:]) if output in result else None


def _class(model: _Model):
  return getattr(torch_runtime.require('transformers'), model.kind)


def _vision_settings(settings):
  """The settings of the part that is used: for CLIP, of its image encoder."""
  vision = getattr(settings, 'vision_config', None)
  if vision is None:
    return settings
  vision.projection_dim = settings.projection_dim
  return vision


def _files(name: str) -> tuple[pathlib.Path, ...]:
  """The files of a model's settings, inputs and weights."""
  given = weights.paths().get(f'transformers/{name}')
  folder = given.parent if given else weights.folder() / 'transformers' / name
  return find_files(
    f'weights of transformers/{name}',
    folder,
    ((SETTINGS,), INPUTS, (given.name,) if given else STATES),
    f'Fetch {SETTINGS}, {INPUTS[0]} and {STATES[0]} of https://huggingface.co/{name}, and put '
    f'them there (the environment variable {weights.VARIABLE} names another weights folder)',
  )


def find_files(
  what: str, folder: pathlib.Path, names: Sequence[Sequence[str]], fetch: str
) -> tuple[pathlib.Path, ...]:
  """The files of a model in its folder.

  Args:
    what: the model, for the message.
    folder: of the model.
    names: of each file, the first that exists.
    fetch: what to do if one is missing, for the message.

  Raises:
    weights.WeightsError: there is none of a file's names.
  """
  files = []
  for choices in names:
    existing = [folder / choice for choice in choices if (folder / choice).is_file()]
    if not existing:
      raise weights.WeightsError(f'{what}: no {" or ".join(choices)} in {folder}. {fetch}')
    files.append(existing[0])
  return tuple(files)


def read_inputs(path: pathlib.Path) -> dict:
  try:
    result = json.loads(path.read_text())
  except (OSError, ValueError) as error:
    raise weights.WeightsError(f'{path}: cannot be read ({error})') from None
  if not isinstance(result, dict):
    raise weights.WeightsError(f'{path}: a JSON object expected')
  return result.get('image_processor') or result.get('video_processor') or result


def read_settings(path: pathlib.Path):
  read_inputs(path)
  transformers = torch_runtime.require('transformers')
  try:
    return transformers.AutoConfig.from_pretrained(path.parent, local_files_only=True)
  except (ValueError, KeyError, OSError) as error:
    reason = ' '.join(str(error).split())[:300]
    raise weights.WeightsError(f'{path}: not the settings of a model ({reason})') from None


def shorter_side(inputs: Mapping, size: int) -> int:
  """The length to scale a frame's shorter side to, before its central square is cut out."""
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
  settings = read_settings(settings_file)
  model = _MODELS[settings.model_type]
  vision, inputs = getattr(settings, 'vision_config', settings), read_inputs(inputs_file)
  mean, std = mean_and_std(inputs, inputs_file)
  network = load_model(_class(model), _vision_settings(settings), path, name)
  network = torch_runtime.prepare(network)

  def forward(frames, wanted):
    with torch.inference_mode():
      x = torch_runtime.pixels(frames, mean, std).movedim(-1, -3)
      result = model.outputs(network(pixel_values=x), vision)
    return {output: torch_runtime.to_numpy(result[output]) for output in wanted}

  return forward


def mean_and_std(inputs: Mapping, path: pathlib.Path) -> tuple[Sequence[float], Sequence[float]]:
  """Of the pixels by channel; WeightsError names the file that lacks them."""
  try:
    return inputs['image_mean'], inputs['image_std']
  except KeyError as error:
    raise weights.WeightsError(f'{path}: {error} is missing') from None


def load_model(kind: Any, settings: Any, path: pathlib.Path, name: str) -> Any:
  """A model of a class of transformers.

  Args:
    kind: the class.
    settings: of the model.
    path: of the weights, in the model's folder.
    name: of the model, for messages.

  Raises:
    weights.WeightsError: the file can't be read, or lacks some weights.
  """
  try:
    network, report = kind.from_pretrained(
      path.parent, config=settings, local_files_only=True, output_loading_info=True
    )
  except Exception as error:  # OSError, RuntimeError, SafetensorError …
    reason = ' '.join(str(error).split())[:400]
    raise weights.WeightsError(f'{path}: not the weights of {name}: {reason}') from None
  if report['missing_keys']:
    missing = ', '.join(sorted(report['missing_keys'])[:4])
    raise weights.WeightsError(f'{path}: not the weights of {name}: missing {missing}')
  return network
