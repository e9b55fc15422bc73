"""Names of topologies, what they are compiled with, and what is missing."""

import dataclasses
import importlib.metadata
import re
import types

import pytest
from jax.experimental import topologies

from vidcap_jax.compilation import topology
from vidcap_jax.compilation.chips import FOLDER, find_chip
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.errors import UserError


@pytest.mark.parametrize(
  ('text', 'chips', 'name'),
  [
    ('v5e:2x4', 8, 'v5e:2x4'),
    ('v4:2x2x4', 16, 'v4:2x2x4'),
    ('v5e:1', 1, 'v5e:1'),
    ('v6e:1x1', 1, 'v6e:1'),
    ('h100:8', 8, 'h100:8'),
    ('a100:2x8', 16, 'a100:2x8'),
    ('2xv5e:2x4', 16, '2xv5e:2x4'),
    ('1xv5e:2x4', 8, 'v5e:2x4'),
    ('4xv5p:2x2x2', 32, '4xv5p:2x2x2'),
  ],
)
def test_names(text, chips, name):
  found = read_topology(text)
  assert (found.chips, found.name) == (chips, name)


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('v9:2x4', 'v9.*known: v4, v5e'),
    ('v5e', 'v5e:2x4'),
    ('v5e:', 'v5e:2x4'),
    ('v5e:2x', 'v5e:2x4'),
    ('v5e:0x4', 'v5e:2x4'),
    ('v5e:2x2x2', '2 axes.*v5e:AxB'),
    ('v4:2x4', '3 axes.*v4:AxBxC'),
    ('h100', 'h100:8'),
    ('h100:1x2x8', 'h100:2x8'),
    ('2xh100:8', 'h100:2x8'),
    ('2xv5e:1', '2xv5e:1.*more than one chip'),
    ('2xv9:2x4', 'v9.*known: v4, v5e'),
    ('0xv5e:2x4', '0xv5e'),
  ],
)
def test_wrong_names(text, message):
  with pytest.raises(UserError, match=message):
    read_topology(text)


@pytest.mark.parametrize(
  ('platform', 'package', 'extra'),
  [('tpu', 'libtpu', 'tpu-compile'), ('cuda', 'jax-cuda12-pjrt', 'cuda-compile')],
)
def test_a_compiler_that_is_not_installed(platform, package, extra, monkeypatch):
  def missing(name):
    raise importlib.metadata.PackageNotFoundError(name)

  monkeypatch.setattr(importlib.metadata, 'version', missing)
  with pytest.raises(UserError, match=rf'\[{extra}\].*{package}'):
    topology.installed_versions(platform)


def test_versions_are_those_of_the_packages(monkeypatch):
  monkeypatch.setattr(importlib.metadata, 'version', lambda name: f'{name} 1')
  assert topology.installed_versions('tpu') == {'libtpu': 'libtpu 1'}


def test_a_process_that_compiles_leaves_accelerators_alone(tmp_path, monkeypatch):
  assert topology.environment(read_topology('v5e:2x4'))['JAX_PLATFORMS'] == 'cpu'
  (tmp_path / 'nvidia' / 'cuda_nvcc' / 'bin').mkdir(parents=True)
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setenv('XLA_FLAGS', '--xla_dump_to=x')
  found = topology.environment(read_topology('h100:8'))
  assert found['JAX_PLATFORMS'] == 'cpu'
  assert found['XLA_FLAGS'].startswith('--xla_dump_to=x --xla_gpu_cuda_data_dir=')
  assert found['XLA_FLAGS'].endswith('nvidia/cuda_nvcc')
  assert re.match(r'.*nvidia/cuda_nvcc/bin:', found['PATH'])


@pytest.mark.parametrize('name', ['a100', 'h100', 'h200', 'rtx4090'])
def test_a_gpu_is_described_with_the_memory_and_bandwidth_of_the_table(name):
  chip = find_chip(name)
  figures = dict(re.findall(r'(\w+): (\d+)$', chip.target_config, re.MULTILINE))
  assert int(figures['device_memory_size']) == chip.memory
  assert int(figures['memory_bandwidth']) == chip.bandwidth
  assert {file.stem for file in FOLDER.glob('*.txtpb')} == {'a100', 'h100', 'h200', 'rtx4090'}


def test_several_slices_are_described_to_the_compiler(monkeypatch):
  arguments_given = {}

  @dataclasses.dataclass
  class Device:
    id: int
    process_index: int
    slice_index: int | None

  def describe(slices):
    def get_topology_desc(**arguments):
      arguments_given.update(arguments)
      devices = [Device(i, i // 4, i // 8 if slices else None) for i in range(16)]
      return types.SimpleNamespace(devices=devices)

    monkeypatch.setattr(topologies, 'get_topology_desc', get_topology_desc)

  target = read_topology('2xv5e:2x4')
  describe(slices=True)
  assert len(topology.devices(target)) == 16
  assert arguments_given == {'platform': 'tpu', 'topology_name': 'v5e:2x4', 'num_slices': 2}
  describe(slices=False)
  with pytest.raises(UserError, match='2xv5e:2x4.*slices'):
    topology.devices(target)


def test_peaks_of_products():
  tpu, gpu = find_chip('v5e'), find_chip('h100')
  assert tpu.peak('bfloat16', 'highest') == 197e12
  passes = {
    p: tpu.peak('bfloat16', p) / tpu.peak('float32', p) for p in ('default', 'high', 'highest')
  }
  assert passes == pytest.approx({'default': 1, 'high': 3, 'highest': 6})
  assert gpu.peak('float32', 'highest') < gpu.peak('float32', 'high') < gpu.peak('bfloat16', 'high')


@pytest.mark.parametrize('name', ['v4', 'v5e', 'v5p', 'v6e'])
def test_the_clock_of_a_tpu_makes_its_published_peak(name):
  """Products of so many 128 x 128 units, a multiplication and an addition in each cell a cycle."""
  chip = find_chip(name)
  units = chip.peaks['bfloat16'] / (2 * 128 * 128 * chip.clock)
  assert units == pytest.approx(round(units), rel=0.01)
