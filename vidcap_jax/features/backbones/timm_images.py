"""Any image network of timm by name: ``timm/resnet152``, ``timm/vit_base_patch32_clip_224.openai``.

``timm/NAME`` is the pooled feature before the classifier, (T, D); ``timm/NAME/grid`` the last
feature map, (T, rows, columns, D); ``timm/NAME/head`` what the network's own last layer makes of
the pooled one: a CLIP model's joint space with text, a classifier's scores. Size, crop, mean and
spread are those that the network was trained with.
"""

import difflib
import functools
import math
import pathlib

from vidcap_jax.features import weights
from vidcap_jax.features.backbones import torch_runtime
from vidcap_jax.features.extractors import Extractor, ExtractorError
from vidcap_jax.features.networks import Forward, Network

OUTPUTS = ('pooled', 'grid', 'head')


@functools.cache
def family(rest: str) -> tuple[Extractor, Network]:
  """The extractor and network of a name without ``timm/``.

  Raises:
    ExtractorError: a network that timm does not have, or an output that this one does not.
    ModuleNotFoundError: timm is not installed; says how to install it.
  """
  name, slash, output = rest.rpartition('/')
  if not slash or output not in OUTPUTS:
    name, output = rest, 'pooled'
  model, config = _outline(name)
  _, rows, columns = config['input_size']
  if rows != columns:
    raise ExtractorError(f'timm/{name}: reads {rows} x {columns}; only square frames are made')
  shapes = _shapes(model, config)
  if output not in shapes:
    raise ExtractorError(f'timm/{name}: has no output {output!r}; it has {", ".join(shapes)}')
  settings = model.pretrained_cfg
  scale = math.floor(rows / config['crop_pct']) if config['crop_mode'] == 'center' else rows
  network = Network(
    rows,
    functools.partial(_load, name),
    scale=scale,
    weights=lambda: (weights.find(f'timm/{name}', _fetch(settings)),),
  )
  known = '.'.join(filter(None, (settings['architecture'], settings.get('tag'))))
  extractor = Extractor(
    kind='grid' if output == 'grid' else 'sequence',
    shape=(None, *shapes[output]),
    version=f'timm-1/{known}/{{weights}}',
    network=f'timm/{name}',
    outputs=(output,),
    finish=lambda array: array,
  )
  return extractor, network


def _outline(name: str):
  """The model without its numbers, and how its inputs are made."""
  torch, timm = torch_runtime.require('torch'), torch_runtime.require('timm')
  base = name.partition('.')[0]
  if not timm.is_model(base):
    near = difflib.get_close_matches(base, timm.list_models(), 3)
    hint = f'; near it: {", ".join(near)}' if near else ''
    raise ExtractorError(f'timm has no model {name!r}{hint}')
  if name != base and name not in timm.list_pretrained(f'{base}.*'):
    tags = ', '.join(timm.list_pretrained(f'{base}.*')) or 'none'
    raise ExtractorError(f'timm has no weights {name!r}; of {base} there are: {tags}')
  with torch.device('meta'):
    model = timm.create_model(name).eval()
  return model, timm.data.resolve_model_data_config(model)


def _shapes(model, config) -> dict[str, tuple[int, ...]]:
  """The shapes of the outputs that it has, for one frame."""
  torch = torch_runtime.require('torch')
  with torch.inference_mode():
    found = _outputs(model, torch.empty(1, *config['input_size'], device='meta'), OUTPUTS)
  shapes = {name: tuple(tensor.shape[1:]) for name, tensor in found.items() if tensor is not None}
  if not model.num_classes:
    shapes.pop('head')
  return shapes


def _outputs(model, x, wanted) -> dict:
  """Outputs of frames (B, 3, rows, columns); None for a grid that it has not."""
  features = model.forward_features(x)
  found = {}
  for output in wanted:
    if output == 'grid':
      found[output] = _grid(model, features)
    else:
      found[output] = model.forward_head(features, pre_logits=output == 'pooled')
  return found


def _grid(model, features):
  """(B, rows, columns, D) from a feature map or tokens; None if it has no places."""
  if features.ndim == 4:
    return features if getattr(model, 'output_fmt', 'NCHW') == 'NHWC' else features.movedim(1, -1)
  if features.ndim != 3 or not hasattr(model, 'patch_embed'):
    return None
  rows, columns = model.patch_embed.grid_size
  tokens = features[:, getattr(model, 'num_prefix_tokens', 0) :]
  return tokens.unflatten(1, (rows, columns)) if tokens.shape[1] == rows * columns else None


def _fetch(settings) -> str:
  hub, file = settings.get('hf_hub_id'), settings.get('hf_hub_filename') or 'model.safetensors'
  if hub:
    return f'{file} of https://huggingface.co/{hub}'
  return settings.get('url') or 'a state dict of it (none is published by timm)'


def _load(name: str, path: pathlib.Path) -> Forward:
  torch, timm = torch_runtime.require('torch'), torch_runtime.require('timm')
  try:
    # As downloaded weights are: checked key by key, once older spellings are renamed.
    overlay = {'file': str(path), 'source': 'timm'}
    model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
  except Exception as error:  # by network and file: RuntimeError, KeyError, UnpicklingError …
    told = ' '.join(str(error).split())[:400]
    raise weights.WeightsError(f'{path}: not the weights of timm/{name}: {told}') from None
  config = timm.data.resolve_model_data_config(model)
  model = torch_runtime.ready(model)

  def forward(frames, wanted):
    with torch.inference_mode():
      x = torch_runtime.pixels(frames, config['mean'], config['std']).movedim(-1, 1)
      found = _outputs(model, x, wanted)
    return {output: torch_runtime.numbers(tensor) for output, tensor in found.items()}

  return forward
