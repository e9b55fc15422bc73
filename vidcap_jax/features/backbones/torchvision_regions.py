"""Regions of frames by torchvision's Faster, Mask and Keypoint R-CNN.

``torchvision/fasterrcnn_resnet50_fpn`` gives the box head's features of each detection
(T, N, 1024), ``torchvision/fasterrcnn_resnet50_fpn/boxes`` its box, score and class (T, N, 6):
left, top, right, bottom as fractions of the frame's width and height, the score, and COCO's class
number. N = ``MAX_REGIONS`` for both: the detections with the highest scores, in order, then rows of
zeros.
"""

import functools
import pathlib
from collections.abc import Callable

from vidcap_jax.features.backbones import torch_runtime
from vidcap_jax.features.extractors import Extractor
from vidcap_jax.features.networks import Forward, Network

KINDS = ('fasterrcnn', 'maskrcnn', 'keypointrcnn')
MAX_REGIONS = 10
CHANNELS = 1024  # of a region's features, the box head's last layer
OUTPUTS = {'features': CHANNELS, 'boxes': 6}
DEFAULT_OUTPUT = 'features'


def make(
  name: str, output: str, find: Callable[[], tuple[pathlib.Path, ...]]
) -> tuple[Extractor, Network]:
  """The extractor and network of a detector; ``find`` returns its weights file."""
  network = Network(None, functools.partial(_load, name), batch=2, weights=find)
  extractor = Extractor(
    kind='regions',
    shape=(None, MAX_REGIONS, OUTPUTS[output]),
    version=f'torchvision-1/{name}/{{weights}}',
    network=f'torchvision/{name}',
    outputs=(output,),
    finish=lambda array: array,
  )
  return extractor, network


def build(name: str):
  """The detector with random weights."""
  models = torch_runtime.require('torchvision').models
  return models.get_model(name, weights=None, weights_backbone=None)


def _load(name: str, path: pathlib.Path) -> Forward:
  torch = torch_runtime.require('torch')
  model = build(name)
  torch_runtime.load_state(model, path)
  model = torch_runtime.prepare(model)
  heads = model.roi_heads
  heads.detections_per_img = MAX_REGIONS
  heads.mask_roi_pool = heads.keypoint_roi_pool = None  # these outputs are not used

  def forward(frames, wanted):
    with torch.inference_mode():
      outputs = detect(model, torch_runtime.pixels(frames, (0.0,), (1.0,)).movedim(-1, 1))
    return {output: torch_runtime.to_numpy(outputs[output]) for output in wanted}

  return forward


def detect(model, frames) -> dict:
  """Detects regions in frames (B, 3, rows, columns) from 0 to 1.

  Returns:
    ``OUTPUTS`` by name, (B, MAX_REGIONS, D).
  """
  torch = torch_runtime.require('torch')
  images, _ = model.transform(list(frames))
  maps = model.backbone(images.tensors)
  proposals, _ = model.rpn(images, maps)
  heads = model.roi_heads
  detections, _ = heads(maps, proposals, images.image_sizes)  # highest scores first
  boxes = [d['boxes'] for d in detections]
  pooled = heads.box_head(heads.box_roi_pool(maps, boxes, images.image_sizes))
  outputs = {
    name: frames.new_zeros(len(detections), MAX_REGIONS, size) for name, size in OUTPUTS.items()
  }
  sizes = zip(images.image_sizes, pooled.split([len(b) for b in boxes]), strict=True)
  for i, ((rows, columns), features) in enumerate(sizes):
    count = len(features)
    outputs['features'][i, :count] = features
    places = boxes[i] / boxes[i].new_tensor([columns, rows, columns, rows])
    scores, classes = detections[i]['scores'][:, None], detections[i]['labels'][:, None]
    outputs['boxes'][i, :count] = torch.cat([places, scores, classes], 1)
  return outputs
