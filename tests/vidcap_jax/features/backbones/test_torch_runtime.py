"""What the PyTorch backbones share."""

import numpy as np
import pytest

from vidcap_jax.features.backbones import torch_runtime
from vidcap_jax.features.weights import WeightsError


def test_missing_package_names_the_extra():
  with pytest.raises(ModuleNotFoundError, match=r'no_such_package.*vidcap_jax\[torch\]'):
    torch_runtime.require('no_such_package')


@pytest.fixture
def torch():
  return pytest.importorskip('torch', reason='the extra "torch" is not installed')


def test_pixels_are_normalized_by_channel(torch):
  frames = np.full((2, 3, 4, 3), 255, np.uint8)
  x = torch_runtime.to_numpy(torch_runtime.pixels(frames, (0.5, 0.0, 1.0), (0.5, 2.0, 1.0)))
  assert x.shape == frames.shape
  assert x.dtype == np.float32
  np.testing.assert_allclose(x[0, 0, 0], (1.0, 0.5, 0.0))


def test_weights_are_loaded_and_checked(torch, tmp_path):
  saved, loaded = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
  torch.save({'state_dict': saved.state_dict()}, tmp_path / 'checkpoint.pth')
  torch_runtime.load_state(loaded, tmp_path / 'checkpoint.pth')
  assert torch.equal(saved.weight, loaded.weight)
  model = torch_runtime.prepare(loaded)
  assert not model.training
  assert not any(parameter.requires_grad for parameter in model.parameters())
  with pytest.raises(WeightsError, match='checkpoint.pth: .*weight.*bias'):
    torch_runtime.load_state(torch.nn.Linear(5, 4), tmp_path / 'checkpoint.pth')


@pytest.mark.parametrize('data', [b'', b'not a file of torch'])
def test_damaged_files_are_named(torch, tmp_path, data):
  for name in ('w.pth', 'w.safetensors'):
    (tmp_path / name).write_bytes(data)
    if name.endswith('safetensors'):
      pytest.importorskip('safetensors', reason='the extra "torch" is not installed')
    with pytest.raises(WeightsError, match=name):
      torch_runtime.read_state(tmp_path / name)
