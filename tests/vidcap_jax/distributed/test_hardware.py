"""The description of the hardware of a run."""

import dataclasses

import jax

from vidcap_jax.distributed import hardware


@dataclasses.dataclass
class Device:
  platform: str
  device_kind: str


def test_accelerators_are_counted_by_kind(monkeypatch):
  monkeypatch.setattr(jax, 'devices', lambda: [Device('tpu', 'TPU v5 lite')] * 8)
  assert hardware.describe_hardware() == '8 x TPU v5 lite'


def test_a_processor_has_its_name_and_cores(tmp_path, monkeypatch):
  (tmp_path / 'cpuinfo').write_text('vendor_id: A\nmodel name\t: Some  Chip 3000\ncores: 2\n')
  name = hardware._processor(f'{tmp_path}/cpuinfo')
  assert name == 'Some Chip 3000'
  monkeypatch.setattr(hardware, '_processor', lambda: name)
  text = hardware.describe_hardware()
  assert text.endswith(', Some Chip 3000')
  assert int(text.split()[0]) > 0


def test_without_proc_python_names_the_processor(tmp_path):
  assert hardware._processor(f'{tmp_path}/none')
