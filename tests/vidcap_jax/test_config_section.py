"""Sections of a config become dataclasses; keys that they don't have are refused."""

import dataclasses
from collections.abc import Mapping

import pytest
from ml_collections import ConfigDict

from vidcap_jax.config_section import near_keys, read_section
from vidcap_jax.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Inner:
  steps: int = 3


@dataclasses.dataclass(frozen=True)
class Outer:
  rate: float
  weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
  sizes: tuple[int, ...] = ()
  inner: Inner = Inner()


def test_values_and_defaults():
  section = ConfigDict({'name': 'x', 'rate': 0.5, 'weights': {'a': 1.0}, 'inner': {'steps': 4}})
  assert read_section(Outer, section, 'outer') == Outer(0.5, {'a': 1.0}, (), Inner(4))
  assert read_section(Outer, {'rate': 0.5, 'sizes': [1, 2]}, 'outer').sizes == (1, 2)


@pytest.mark.parametrize(
  ('section', 'message'),
  [
    ({'rat': 0.5}, 'config.outer.rat: objective .x. .*outer.rate'),
    ({'rate': 0.5, 'inner': {'step': 4}}, 'config.outer.inner.step: .*outer.inner.steps'),
    ({'rate': 0.5, 'zzz': 1}, 'config.outer.zzz: .*rate, weights'),
    ({}, 'config.outer.rate.*objective .x.'),
  ],
)
def test_unknown_and_missing_keys(section, message):
  with pytest.raises(ConfigError, match=message):
    read_section(Outer, section, 'outer', "objective 'x'")


def test_near_keys_are_of_the_same_name_or_spelt_alike():
  known = ['train.epochs', 'optimizer.eps', 'stages.rl.train.epochs', 'seed']
  assert near_keys('epochs', known)[:2] == ['train.epochs', 'stages.rl.train.epochs']
  assert near_keys('optimizer.ep', known)[0] == 'optimizer.eps'
  assert near_keys('zzz', known) == []
