"""torchvision's video networks. Skipped without the extra "torch"."""

import numpy as np
import pytest

REASON = 'the extra "torch" is not installed'
torch = pytest.importorskip('torch', reason=REASON)
torchvision = pytest.importorskip('torchvision', reason=REASON)

from vidcap_jax.features.backbones import (  # noqa: E402
  torchvision_models,
  torchvision_videos,
)


def test_outputs_of_windows_equal_the_networks(torchvision_folder):
  torch.manual_seed(0)
  model = torchvision_videos.build('r3d_18')
  torch.save(model.state_dict(), torchvision_folder / 'r3d_18.pth')
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
