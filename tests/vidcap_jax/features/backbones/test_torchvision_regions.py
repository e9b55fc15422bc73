"""torchvision's detectors. Skipped without the extra "torch"."""

import numpy as np
import pytest

REASON = 'the extra "torch" is not installed'
torch = pytest.importorskip('torch', reason=REASON)
torchvision = pytest.importorskip('torchvision', reason=REASON)

from vidcap_jax.features.backbones import (  # noqa: E402
  torchvision_models,
  torchvision_regions,
)

DETECTOR = 'fasterrcnn_mobilenet_v3_large_320_fpn'


def random_detector(torchvision_folder):
  torch.manual_seed(0)
  model = torchvision_regions.build(DETECTOR)
  with torch.no_grad():  # so that random weights are sure of something
    model.roi_heads.box_predictor.cls_score.weight.mul_(10)
    model.roi_heads.box_predictor.cls_score.bias[7] = 3.0
    model.roi_heads.box_predictor.cls_score.bias[9] = 2.0
  torch.save(model.state_dict(), torchvision_folder / f'{DETECTOR}.pth')
  return model.eval()


def test_regions(torchvision_folder):
  model = random_detector(torchvision_folder)
  features, network = torchvision_models.family(DETECTOR)
  boxes, same = torchvision_models.family(f'{DETECTOR}/boxes')
  most = torchvision_regions.MAX_REGIONS
  assert (features.kind, features.shape) == ('regions', (None, most, 1024))
  assert (boxes.kind, boxes.shape) == ('regions', (None, most, 6))
  assert features.network == boxes.network
  assert (network.size, same.size) == (None, None)

  frames = np.random.default_rng(0).integers(0, 256, (2, 60, 90, 3), dtype=np.uint8)
  found = network.load(*network.weights())(frames, ('features', 'boxes'))
  assert found['features'].shape == (2, most, 1024)
  assert found['boxes'].shape == (2, most, 6)

  with torch.inference_mode():
    answers = model([torch.from_numpy(f).permute(2, 0, 1) / 255 for f in frames])
  for answer, rows, pooled in zip(answers, found['boxes'], found['features'], strict=True):
    count = min(most, len(answer['boxes']))
    assert count > 0
    places = answer['boxes'][:count].numpy() / [90, 60, 90, 60]
    np.testing.assert_allclose(rows[:count, :4], places, atol=1e-3)
    np.testing.assert_allclose(rows[:count, 4], answer['scores'][:count], rtol=1e-4)
    np.testing.assert_array_equal(rows[:count, 5], answer['labels'][:count])
    assert (np.diff(rows[:count, 4]) <= 0).all()
    assert not rows[count:].any()
    assert not pooled[count:].any()
    assert (np.abs(pooled[:count]).max(1) > 0).all()


def test_region_features_are_those_of_the_boxes(torchvision_folder):
  model = random_detector(torchvision_folder)
  _, network = torchvision_models.family(DETECTOR)
  frames = np.random.default_rng(1).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
  found = network.load(*network.weights())(frames, ('features', 'boxes'))
  assert found['boxes'][0, 0, 4] > 0
  images = [torch.from_numpy(frames[0]).permute(2, 0, 1) / 255]
  with torch.inference_mode():
    batch, _ = model.transform(images)
    maps = model.backbone(batch.tensors)
    rows, columns = batch.image_sizes[0]
    places = torch.from_numpy(found['boxes'][0, :1, :4])
    boxes = [places * torch.tensor([columns, rows, columns, rows])]
    pooled = model.roi_heads.box_roi_pool(maps, boxes, batch.image_sizes)
    answer = model.roi_heads.box_head(pooled)
  np.testing.assert_allclose(found['features'][0, :1], answer, rtol=1e-3, atol=1e-3)


def test_frames_without_regions_are_zeros(torchvision_folder):
  model = torchvision_regions.build(DETECTOR)
  with torch.no_grad():
    model.roi_heads.box_predictor.cls_score.bias[0] = 100.0  # background
  torch.save(model.state_dict(), torchvision_folder / f'{DETECTOR}.pth')
  _, network = torchvision_models.family(DETECTOR)
  frames = np.zeros((1, 64, 64, 3), np.uint8)
  found = network.load(*network.weights())(frames, ('features', 'boxes'))
  assert not found['features'].any()
  assert not found['boxes'].any()
