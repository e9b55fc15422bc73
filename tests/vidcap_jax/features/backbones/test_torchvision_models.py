"""torchvision's video networks and detectors. Skipped without the extra "torch"."""

import pytest

from vidcap_jax.features import extractors, weights

REASON = 'the extra "torch" is not installed'
torch = pytest.importorskip('torch', reason=REASON)
torchvision = pytest.importorskip('torchvision', reason=REASON)

from vidcap_jax.features.backbones import (  # noqa: E402
  torchvision_models,
  torchvision_videos,
)

DETECTOR = 'fasterrcnn_mobilenet_v3_large_320_fpn'


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


def test_missing_and_other_weights_are_named(torchvision_folder):
  with pytest.raises(weights.WeightsError) as error:
    extractors.describe('torchvision/r3d_18')
  assert 'https://download.pytorch.org/models/r3d_18' in str(error.value)
  assert str(torchvision_folder) in str(error.value)

  state = torchvision_videos.build('r3d_18').state_dict()
  del state['fc.bias']
  state['fc.weight'] = torch.zeros(101, 512)
  state['extra'] = torch.zeros(1)
  torch.save(state, torchvision_folder / 'r3d_18.pth')
  _, network = torchvision_models.family('r3d_18')
  with pytest.raises(weights.WeightsError) as error:
    network.load(*network.weights())
  message = str(error.value)
  assert 'missing fc.bias' in message
  assert 'unknown extra' in message
  assert 'fc.weight is (101, 512), expected (400, 512)' in message


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('resnet152', 'unknown; known: .*maskrcnn_resnet50_fpn.*r3d_18.*timm/NAME'),
    ('ssd300_vgg16', 'unknown; known'),
    ('r3d_18/boxes', "no output 'boxes'; it has pooled, grid"),
    (f'{DETECTOR}/grid', "no output 'grid'; it has features, boxes"),
  ],
)
def test_unknown_names(name, message):
  with pytest.raises(extractors.ExtractorError, match=message):
    extractors.get(f'torchvision/{name}')
