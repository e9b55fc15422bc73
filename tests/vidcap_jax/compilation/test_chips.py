"""Chips of the table, found by what JAX calls their devices."""

import pytest

from vidcap_jax.compilation.chips import chip_of


@pytest.mark.parametrize(
  ('device_kind', 'name'),
  [
    ('TPU v4', 'v4'),
    ('TPU v5 lite', 'v5e'),
    ('TPU v5', 'v5p'),
    ('TPU v6 lite', 'v6e'),
    ('NVIDIA A100-SXM4-80GB', 'a100'),
    ('NVIDIA H100 80GB HBM3', 'h100'),
    ('NVIDIA H200', 'h200'),
    ('NVIDIA GeForce RTX 4090', 'rtx4090'),
  ],
)
def test_a_device_is_found_in_the_table(device_kind, name):
  assert chip_of(device_kind).name == name


@pytest.mark.parametrize('device_kind', ['cpu', 'NVIDIA H100 PCIe', 'TPU v7'])
def test_other_devices_have_no_figures(device_kind):
  assert chip_of(device_kind) is None
