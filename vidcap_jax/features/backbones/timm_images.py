"""Any image network of timm by name: ``timm/resnet152``, ``timm/vit_base_patch32_clip_224.openai``.

``timm/NAME`` is the pooled feature before the classifier, (T, D); ``timm/NAME/grid`` the last
feature map, (T, rows, columns, D); ``timm/NAME/head`` the output of the network's last layer: the
embedding of a CLIP model in the space shared with text, or the scores of a classifier. Size, crop,
mean and standard deviation are those of the network's training.
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
    ExtractorError: a network that timm does not have, or an output that this one does not have.
    ModuleNotFoundError: timm is not installed; says how to install it.
  """
  name, slash, output = rest.rpartition('/')
  if not slash or output not in OUTPUTS:
    name, output = rest, 'pooled'
  model, config = _empty_model(name)
  _, rows, columns = config['input_size']
  if rows != columns:
    raise ExtractorError(f'timm/{name}: reads {rows} x {columns}; only square frames are supported')
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


def _empty_model(name: str):
  """The model without weights, and the configuration of its inputs."""
  torch, timm = torch_runtime.require('torch'), torch_runtime.require('timm')
  base = name.partition('.')[0]
  if not timm.is_model(base):
    near = difflib.get_close_matches(base, timm.list_models(), 3)
    hint = f'; similar: {", ".join(near)}' if near else ''
    raise ExtractorError(f'timm has no model {name!r}{hint}')
  if name != base and name not in timm.list_pretrained(f'{base}.*'):
    tags = ', '.join(timm.list_pretrained(f'{base}.*')) or 'none'
    raise ExtractorError(f'timm has no weights {name!r}; known for {base}: {tags}')
  with torch.device('meta'):
    model = timm.create_model(name).eval()
  return model, timm.data.resolve_model_data_config(model)


def _shapes(model, config) -> dict[str, tuple[int, ...]]:
  """The shapes of the outputs that the model has, for one frame."""
  torch = torch_runtime.require('torch')
  with torch.inference_mode():
    outputs = _outputs(model, torch.empty(1, *config['input_size'], device='meta'), OUTPUTS)
  shapes = {name: tuple(tensor.shape[1:]) for name, tensor in outputs.items() if tensor is not None}
  if not model.num_classes:
    shapes.pop('head')
  return shapes


def _outputs(model, x, wanted) -> dict:
  """Outputs for frames (B, 3, rows, columns); None for the grid of a model without one."""
  features = model.forward_features(x)
  outputs = {}
  for output in wanted:
    if output == 'grid':
      outputs[output] = _grid(model, features)
    else:
      outputs[output] = model.forward_head(features, pre_logits=output == 'pooled')
  return outputs


def _grid(model, features):
  """(B, rows, columns, D) from a feature map or tokens; None if tokens are not on a grid."""
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
    # timm loads the file like a downloaded one: it renames old keys and checks all of them.
    overlay = {'file': str(path), 'source': 'timm'}
    model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
  except Exception as error:  # RuntimeError, KeyError, UnpicklingError …
    reason = ' '.join(str(error).split())[:400]
    raise weights.WeightsError(f'{path}: not the weights of timm/{name}: {reason}') from None
  config = timm.data.resolve_model_data_config(model)
  model = torch_runtime.prepare(model)

  def forward(frames, wanted):
    with torch.inference_mode():
      x = torch_runtime.pixels(frames, config['mean'], config['std']).movedim(-1, 1)
      outputs = _outputs(model, x, wanted)
    return {output: torch_runtime.to_numpy(tensor) for output, tensor in outputs.items()}

  return forward
