"""torchvision's networks by name: video networks, and detectors for regions."""

import functools

from vidcap_jax.features import weights
from vidcap_jax.features.backbones import torch_runtime, torchvision_regions, torchvision_videos
from vidcap_jax.features.extractors import Extractor, ExtractorError
from vidcap_jax.features.networks import Network


@functools.cache
def family(rest: str) -> tuple[Extractor, Network]:
  """The extractor and network of a name without ``torchvision/``: regions or windows.

  Raises:
    ExtractorError: a network that torchvision does not have, or an output that the network does
      not have.
    ModuleNotFoundError: torchvision is not installed; says how to install it.
  """
  models = torch_runtime.require('torchvision').models
  name, _, output = rest.partition('/')
  videos = models.list_models(module=models.video)
  detectors = models.list_models(module=models.detection)
  regions = [n for n in detectors if n.partition('_')[0] in torchvision_regions.KINDS]
  if name not in [*videos, *regions]:
    known = ', '.join([*regions, *videos])
    raise ExtractorError(f'torchvision/{name}: unknown; known: {known}; for images see timm/NAME')
  part = torchvision_videos if name in videos else torchvision_regions
  if (output or part.DEFAULT_OUTPUT) not in part.OUTPUTS:
    raise ExtractorError(
      f'torchvision/{name}: has no output {output!r}; it has {", ".join(part.OUTPUTS)}'
    )
  url = models.get_model_weights(name).DEFAULT.url
  find = lambda: (weights.find(f'torchvision/{name}', url),)  # noqa: E731
  return part.make(name, output or part.DEFAULT_OUTPUT, find)
