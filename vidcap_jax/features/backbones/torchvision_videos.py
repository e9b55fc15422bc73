"""torchvision's video networks: R3D, MC3, R(2+1)D, S3D, Swin3D and MViT, of Kinetics-400.

``torchvision/r3d_18`` gives the feature before the classifier for each window, (T, D), and
``torchvision/r3d_18/grid`` the last feature map, (T, rows, columns, D), its steps of all windows
end to end (MViT has none).
"""

import functools
import pathlib
import threading
from collections.abc import Callable

from vidcap_jax.features.backbones import torch_runtime
from vidcap_jax.features.extractors import Extractor, ExtractorError, joined
from vidcap_jax.features.networks import Forward, Network

OUTPUTS = ('pooled', 'grid')
USUAL = 'pooled'
RATE = 15.0  # frames a second that they were trained with


def make(
  name: str, output: str, find: Callable[[], tuple[pathlib.Path, ...]]
) -> tuple[Extractor, Network]:
  """The extractor and network of a video network; ``find`` gives its weights file.

  Raises:
    ExtractorError: MViT's grid.
  """
  torch = torch_runtime.require('torch')
  if output == 'grid' and name.startswith('mvit'):
    raise ExtractorError(f'torchvision/{name}: has no grid; it has pooled')
  size, scale, mean, std = _inputs(name)
  window = 32 if name.startswith('swin3d') else 16
  with torch.device('meta'), torch.inference_mode():
    shape = tapped(build(name))(torch.empty(1, window, size, size, 3))[output].shape[1:]
  network = Network(
    size,
    functools.partial(_load, name, mean, std),
    reads='windows',
    scale=scale,
    batch=2,
    window=window if name.startswith('mvit') else None,  # its places in time are learnt
    weights=find,
  )
  extractor = Extractor(
    kind='grid' if output == 'grid' else 'sequence',
    shape=(None, *shape[1:]) if output == 'grid' else (None, *shape),
    version=f'torchvision-1/{name}/{{weights}}',
    network=f'torchvision/{name}',
    outputs=(output,),
    finish=joined if output == 'grid' else (lambda array: array),
    sampling={'fps': RATE, 'window': window, 'stride': window},
  )
  return extractor, network


def _inputs(name: str) -> tuple[int, int, list[float], list[float]]:
  """Rows of a frame, what its shorter side is scaled to before, mean and spread."""
  models = torch_runtime.require('torchvision').models
  made = models.get_model_weights(name).DEFAULT.transforms()
  return made.crop_size[0], min(made.resize_size), made.mean, made.std


def build(name: str):
  """The network with random weights."""
  return torch_runtime.require('torchvision').models.get_model(name, weights=None).eval()


def tapped(model) -> Callable:
  """A network as a function from windows (B, T, rows, columns, 3), normalised, to its outputs.

  These are 'pooled' (B, D) and, of all but MViT, 'grid' (B, T', rows', columns', D). Takes the
  classifier off the model.
  """
  torch = torch_runtime.require('torch')
  last = next(part for part in ('fc', 'head', 'classifier') if hasattr(model, part))
  setattr(model, last, torch.nn.Identity())
  kept = threading.local()  # what the last pooling was given, in each thread that runs the model
  if hasattr(model, 'avgpool'):
    model.avgpool.register_forward_pre_hook(lambda _, given: setattr(kept, 'maps', given[0]))

  def outputs(x) -> dict:
    found = {'pooled': model(x.movedim(-1, 1))}
    if hasattr(kept, 'maps'):
      found['grid'] = kept.maps.movedim(1, -1)
    return found

  return outputs


def _load(name: str, mean, std, path: pathlib.Path) -> Forward:
  torch = torch_runtime.require('torch')
  model = build(name)
  torch_runtime.load_state(model, path)
  outputs = tapped(torch_runtime.ready(model))

  def forward(windows, wanted):
    with torch.inference_mode():
      found = outputs(torch_runtime.pixels(windows, mean, std))
    return {output: torch_runtime.numbers(found[output]) for output in wanted}

  return forward
