"""Descriptions of TPU slices and hosts with GPUs, which compilers take instead of devices."""

import dataclasses
import importlib.metadata
import importlib.util
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax.compilation.chips import Chip, find_chip
from vidcap_jax.distributed.mesh import slice_index
from vidcap_jax.errors import UserError

# The distributions whose versions decide what is compiled.
_PACKAGES = {'tpu': ('libtpu',), 'cuda': ('jax-cuda12-pjrt', 'nvidia-cuda-nvcc-cu12')}
_INSTALL = {
  'tpu': "compiling for TPUs needs libtpu: pip install 'vidcap_jax[tpu-compile]'",
  'cuda': (
    "compiling for GPUs needs JAX's CUDA plugin and NVIDIA's assembler: pip install "
    "'vidcap_jax[cuda-compile]', or into a folder of their own on PYTHONPATH"
  ),
}


@dataclasses.dataclass(frozen=True)
class Topology:
  """Chips and how they are connected.

  Attributes:
    chip: their kind.
    size: along each axis: 2x4 is (2, 4); GPUs have (hosts, GPUs of a host).
    slices: of this size, connected by the network between their hosts.
  """

  chip: Chip
  size: tuple[int, ...]
  slices: int = 1

  @property
  def name(self) -> str:
    """As ``--topology`` names it."""
    slices = f'{self.slices}x' if self.slices > 1 else ''
    return f'{slices}{self.chip.name}:{"x".join(map(str, self.size))}'

  @property
  def chips(self) -> int:
    """How many there are."""
    return self.slices * math.prod(self.size)


def read_topology(text: str) -> Topology:
  """A topology from ``--topology``: v5e:2x4, v4:2x2x4, h100:8, h100:2x8, v5e:1, 2xv5e:2x4.

  Raises:
    UserError: an unknown chip, or sizes that it can't have.
  """
  several = re.match(r'([1-9]\d*)x(?=[a-z])', text)
  slices = int(several[1]) if several else 1
  name, _, sizes = text[several.end() if several else 0 :].partition(':')
  chip = find_chip(name)
  if not re.fullmatch(r'[1-9]\d*(x[1-9]\d*)*', sizes):
    example = {'tpu': '2x4' if chip.axes == 2 else '2x2x2', 'cuda': '8'}[chip.platform]
    raise UserError(f'--topology={text}: write it as {name}:{example}')
  size = tuple(map(int, sizes.split('x')))
  if chip.platform == 'cuda':
    if len(size) > 2 or slices > 1:
      raise UserError(f'--topology={text}: GPUs are HOSTSxGPUS or GPUS, e.g. {name}:2x8')
    return Topology(chip, size)
  if math.prod(size) == 1:
    if slices > 1:
      raise UserError(f'--topology={text}: a slice of several has more than one chip')
    return Topology(chip, (1,))
  if len(size) != chip.axes:
    axes = 'x'.join('ABC'[: chip.axes])
    raise UserError(f'--topology={text}: {name} has {chip.axes} axes, {name}:{axes}')
  return Topology(chip, size, slices)


def installed_versions(platform: str) -> dict[str, str]:
  """Package -> version of what compiles for a platform.

  Raises:
    UserError: something is not installed; says how to install it.
  """
  versions = {}
  for package in _PACKAGES[platform]:
    try:
      versions[package] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
      raise UserError(f'{_INSTALL[platform]} ({package} is missing)') from None
  return versions


def environment(topology: Topology) -> dict[str, str]:
  """Variables of a process that compiles, set before it imports JAX."""
  shared = {'JAX_PLATFORMS': 'cpu'}  # the process itself computes nothing elsewhere
  if topology.chip.platform == 'tpu':
    return {
      **shared,
      'TPU_ACCELERATOR_TYPE': 'v5litepod-8',  # any: it keeps libtpu from asking the cloud
      'TPU_WORKER_HOSTNAMES': 'localhost',
      'TPU_SKIP_MDS_QUERY': '1',
      'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
      'TPU_STDERR_LOG_LEVEL': '3',
      'TPU_LOG_DIR': 'disabled',
    }
  folder = _nvcc_folder()
  flags = f'{os.environ.get("XLA_FLAGS", "")} --xla_gpu_cuda_data_dir={folder}'
  path = f'{folder / "bin"}{os.pathsep}{os.environ.get("PATH", "")}'
  return {**shared, 'XLA_FLAGS': flags.strip(), 'PATH': path}


def _nvcc_folder() -> pathlib.Path:
  """Where the package nvidia-cuda-nvcc-cu12 is, with ptxas and libdevice.

  Raises:
    UserError: it is not installed.
  """
  try:
    found = importlib.util.find_spec('nvidia.cuda_nvcc')
  except ModuleNotFoundError:
    found = None
  if found is None:
    raise UserError(f'{_INSTALL["cuda"]} (nvidia-cuda-nvcc-cu12 is missing)')
  if found.origin:
    return pathlib.Path(found.origin).parent
  return pathlib.Path(next(iter(found.submodule_search_locations or ())))


def devices(topology: Topology) -> Sequence[Any]:
  """The devices of a topology, for a mesh; they are not there and compute nothing.

  Raises:
    UserError: the compiler's library refuses the topology.
  """
  from jax.experimental import topologies

  try:
    found: list[Any] = topologies.get_topology_desc(**_description(topology)).devices
  except Exception as error:  # of many types, by platform and version
    reason = str(error).strip().splitlines()[0]
    raise UserError(f'--topology={topology.name}: {reason}') from None
  ordered = sorted(found, key=lambda device: (device.process_index, device.id))
  if topology.slices > 1 and len({slice_index(device) for device in ordered}) != topology.slices:
    raise UserError(f'--topology={topology.name}: the compiler does not describe several slices')
  if len(ordered) < topology.chips:
    raise UserError(f'--topology={topology.name}: the compiler knows {len(ordered)} devices of it')
  return ordered[:1] if topology.chips == 1 else ordered


def _description(topology: Topology) -> Mapping[str, Any]:
  """The arguments of ``get_topology_desc``."""
  chip, size = topology.chip, topology.size
  if chip.platform == 'tpu':
    if topology.chips == 1:  # the smallest that libtpu describes; one of its devices is used
      size = (2, 2, 1)[: chip.axes]
    name = f'{chip.name}:{"x".join(map(str, size))}'
    config: dict[str, Any] = {'topology_name': name}
    if chip.chip_config_name:
      config['chip_config_name'] = chip.chip_config_name
    if topology.slices > 1:
      config['num_slices'] = topology.slices
    return {'platform': 'tpu', **config}
  hosts, gpus = size if len(size) == 2 else (1, *size)
  name = f'1x{hosts}x{gpus}'  # slices, hosts, GPUs
  return {
    'platform': 'cuda',
    'topology_name': name,
    'topology': name,
    'target_config': chip.target_config,
  }
