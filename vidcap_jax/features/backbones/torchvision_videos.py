"""torchvision's video networks for Kinetics-400: R3D, MC3, R(2+1)D, S3D, Swin3D and MViT.

``torchvision/r3d_18`` gives the feature before the classifier for each window, (T, D), and
``torchvision/r3d_18/grid`` the last feature map, (T, rows, columns, D), the steps of
all windows in sequence (MViT has no grid).
"""

import functools
import pathlib
import threading
from collections.abc import Callable

from vidcap_jax.features.backbones import torch_runtime
from vidcap_jax.features.extractors import Extractor, ExtractorError
from vidcap_jax.features.finish import join_windows
from vidcap_jax.features.networks import Forward, Network

OUTPUTS = ('pooled', 'grid')
DEFAULT_OUTPUT = 'pooled'
RATE = 15.0  # frames a second, as in their training


def make(
  name: str, output: str, find: Callable[[], tuple[pathlib.Path, ...]]
) -> tuple[Extractor, Network]:
  """The extractor and network of a video network; ``find`` returns its weights file.

  Raises:
    ExtractorError: MViT's grid.
  """
  torch = torch_runtime.require('torch')
  if output == 'grid' and name.startswith('mvit'):
    raise ExtractorError(f'torchvision/{name}: has no grid; it has pooled')
  size, scale, mean, std = _inputs(name)
  window = 32 if name.startswith('swin3d') else 16
  with torch.device('meta'), torch.inference_mode():
    shape = with_outputs(build(name))(torch.empty(1, window, size, size, 3))[output].shape[1:]
  network = Network(
    size,
    functools.partial(_load, name, mean, std),
    reads='windows',
    scale=scale,
    batch=2,
    window=window
    if name.startswith('mvit')
    else None,  # it has learned embeddings of positions in time
    weights=find,
  )
  extractor = Extractor(
    kind='grid' if output == 'grid' else 'sequence',
    shape=(None, *shape[1:]) if output == 'grid' else (None, *shape),
    version=f'torchvision-1/{name}/{{weights}}',
    network=f'torchvision/{name}',
    outputs=(output,),
    finish=join_windows if output == 'grid' else (lambda array: array),
    sampling={'fps': RATE, 'window': window, 'stride': window},
  )
  return extractor, network


def _inputs(name: str) -> tuple[int, int, list[float], list[float]]:
  """Rows of a frame, the length that its shorter side is scaled to, mean and standard deviation."""
  models = torch_runtime.require('torchvision').models
  transform = models.get_model_weights(name).DEFAULT.transforms()
  return transform.crop_size[0], min(transform.resize_size), transform.mean, transform.std


def build(name: str):
  """The network with random weights."""
  return torch_runtime.require('torchvision').models.get_model(name, weights=None).eval()


def with_outputs(model) -> Callable:
  """A function from normalized windows (B, T, rows, columns, 3) to a network's outputs.

  These are 'pooled' (B, D) and, for all but MViT, 'grid' (B, T', rows', columns', D). Removes the
  classifier from the model.
  """
  torch = torch_runtime.require('torch')
  last = next(part for part in ('fc', 'head', 'classifier') if hasattr(model, part))
  setattr(model, last, torch.nn.Identity())
  captured = threading.local()  # the input of the last pooling, in each thread that runs the model
  if hasattr(model, 'avgpool'):
    model.avgpool.register_forward_pre_hook(lambda _, inputs: setattr(captured, 'maps', inputs[0]))

  def outputs(x) -> dict:
    results = {'pooled': model(x.movedim(-1, 1))}
    if hasattr(captured, 'maps'):
      results['grid'] = captured.maps.movedim(1, -1)
    return results

  return outputs


def _load(name: str, mean, std, path: pathlib.Path) -> Forward:
  torch = torch_runtime.require('torch')
  model = build(name)
  torch_runtime.load_state(model, path)
  outputs = with_outputs(torch_runtime.prepare(model))

  def forward(windows, wanted):
    with torch.inference_mode():
      results = outputs(torch_runtime.pixels(windows, mean, std))
    return {output: torch_runtime.to_numpy(results[output]) for output in wanted}

  return forward
