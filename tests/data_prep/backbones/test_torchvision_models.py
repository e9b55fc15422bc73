"""torchvision's video networks and detectors. Skipped without the extra "torch"."""

import numpy as np
import pytest

from vidcap_jax.features import extractors, weights

REASON = 'the extra "torch" is not installed'
torch = pytest.importorskip('torch', reason=REASON)
torchvision = pytest.importorskip('torchvision', reason=REASON)

from vidcap_jax.features.backbones import (  # noqa: E402
  torchvision_models,
  torchvision_regions,
  torchvision_videos,
)

DETECTOR = 'fasterrcnn_mobilenet_v3_large_320_fpn'


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path))
  (tmp_path / 'torchvision').mkdir()
  return tmp_path / 'torchvision'


@pytest.mark.parametrize(
  ('name', 'size', 'scale', 'window', 'shape', 'grid'),
  [
    ('r3d_18', 112, 128, None, (512,), (7, 7, 512)),
    ('mc3_18', 112, 128, None, (512,), (7, 7, 512)),
    ('s3d', 224, 256, None, (1024,), (7, 7, 1024)),
    ('swin3d_t', 224, 256, None, (768,), (7, 7, 768)),
    ('mvit_v2_s', 224, 256, 16, (768,), None),
  ],
)
def test_video_networks(name, size, scale, window, shape, grid):
  extractor, network = torchvision_models.family(name)
  assert (extractor.kind, extractor.shape) == ('sequence', (None, *shape))
  assert (network.size, network.scale, network.window) == (size, scale, window)
  assert network.reads == 'windows'
  assert extractor.sampling['window'] == (32 if name == 'swin3d_t' else 16)
  if grid is None:
    with pytest.raises(extractors.ExtractorError, match='no grid'):
      torchvision_models.family(f'{name}/grid')
  else:
    assert torchvision_models.family(f'{name}/grid')[0].shape == (None, *grid)


def test_windows_are_the_networks_own(folder):
  torch.manual_seed(0)
  model = torchvision_videos.build('r3d_18')
  torch.save(model.state_dict(), folder / 'r3d_18.pth')
  extractor, network = torchvision_models.family('r3d_18/grid')
  windows = np.random.default_rng(0).integers(0, 256, (2, 4, 48, 48, 3), dtype=np.uint8)
  found = network.load(*network.weights())(windows, ('pooled', 'grid'))

  made = torchvision.models.get_model_weights('r3d_18').DEFAULT.transforms()
  mean, std = (torch.tensor(t)[:, None, None, None] for t in (made.mean, made.std))
  x = (torch.from_numpy(windows).permute(0, 4, 1, 2, 3) / 255 - mean) / std
  with torch.inference_mode():
    for part in (model.stem, model.layer1, model.layer2, model.layer3, model.layer4):
      x = part(x)
    pooled = x.mean((2, 3, 4))
  np.testing.assert_allclose(found['pooled'], pooled, rtol=1e-3, atol=1e-4)
  np.testing.assert_allclose(found['grid'], x.movedim(1, -1), rtol=1e-3, atol=1e-4)
  steps = extractor.finish(found['grid'])
  assert steps.shape == (2 * x.shape[2], *x.shape[3:], 512)


def random_detector(folder):
  torch.manual_seed(0)
  model = torchvision_regions.build(DETECTOR)
  with torch.no_grad():  # so that random weights are sure of something
    model.roi_heads.box_predictor.cls_score.weight.mul_(10)
    model.roi_heads.box_predictor.cls_score.bias[7] = 3.0
    model.roi_heads.box_predictor.cls_score.bias[9] = 2.0
  torch.save(model.state_dict(), folder / f'{DETECTOR}.pth')
  return model.eval()


def test_regions(folder):
  model = random_detector(folder)
  features, network = torchvision_models.family(DETECTOR)
  boxes, same = torchvision_models.family(f'{DETECTOR}/boxes')
  most = torchvision_regions.MOST
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


def test_region_features_are_those_of_the_boxes(folder):
  model = random_detector(folder)
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


def test_frames_without_regions_are_zeros(folder):
  model = torchvision_regions.build(DETECTOR)
  with torch.no_grad():
    model.roi_heads.box_predictor.cls_score.bias[0] = 100.0  # background
  torch.save(model.state_dict(), folder / f'{DETECTOR}.pth')
  _, network = torchvision_models.family(DETECTOR)
  frames = np.zeros((1, 64, 64, 3), np.uint8)
  found = network.load(*network.weights())(frames, ('features', 'boxes'))
  assert not found['features'].any()
  assert not found['boxes'].any()


def test_missing_and_other_weights_are_named(folder):
  with pytest.raises(weights.WeightsError) as error:
    extractors.describe('torchvision/r3d_18')
  assert 'https://download.pytorch.org/models/r3d_18' in str(error.value)
  assert str(folder) in str(error.value)

  state = torchvision_videos.build('r3d_18').state_dict()
  del state['fc.bias']
  state['fc.weight'] = torch.zeros(101, 512)
  state['extra'] = torch.zeros(1)
  torch.save(state, folder / 'r3d_18.pth')
  _, network = torchvision_models.family('r3d_18')
  with pytest.raises(weights.WeightsError) as error:
    network.load(*network.weights())
  told = str(error.value)
  assert 'missing fc.bias' in told
  assert 'unknown extra' in told
  assert 'fc.weight is (101, 512), expected (400, 512)' in told


@pytest.mark.parametrize(
  ('name', 'told'),
  [
    ('resnet152', 'unknown; known: .*maskrcnn_resnet50_fpn.*r3d_18.*timm/NAME'),
    ('ssd300_vgg16', 'unknown; known'),
    ('r3d_18/boxes', "no output 'boxes'; it has pooled, grid"),
    (f'{DETECTOR}/grid', "no output 'grid'; it has features, boxes"),
  ],
)
def test_unknown_names(name, told):
  with pytest.raises(extractors.ExtractorError, match=told):
    extractors.get(f'torchvision/{name}')
