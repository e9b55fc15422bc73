"""Initialising from another run's checkpoint: which differences are logged."""

import copy
import dataclasses
import re

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint, init_from


@pytest.mark.parametrize(
  ('checkpoint_fields', 'data_set_fields', 'standardise', 'lines'),
  [
    ({}, {}, True, []),
    ({'extractor': 'resnet'}, {}, True, ["stream 'image': extractor 'resnet' in .*, 'tiny' here"]),
    ({'version': '1'}, {'version': '2'}, True, ["stream 'image': version '1' in .*, '2' here"]),
    (
      {'sampling': {'every': 4}},
      {'sampling': {'uniform': 8}},
      True,
      ["stream 'image': sampling {'every': 4} in the checkpoint, {'uniform': 8} here"],
    ),
    ({'version': '1'}, {'version': None}, True, []),  # not known to differ
    ({'mean': [0.0] * 8}, {}, True, ["stream 'image': standardised by this data set's mean"]),
    ({'mean': [0.0] * 8}, {}, False, ['data.standardise: True in the checkpoint, False here']),
    ({'name': 'motion', 'extractor': 'i3d'}, {}, True, []),
  ],
)
def test_feature_differences_are_logged(
  checkpoint_fields, data_set_fields, standardise, lines, restored, monkeypatch
):
  meta = copy.deepcopy(dict(restored.meta))
  meta['streams'][0] |= checkpoint_fields
  monkeypatch.setattr(checkpoint, 'read_meta', lambda path: meta)
  streams = [dataclasses.replace(s, **data_set_fields) for s in restored.streams]
  config = ConfigDict(restored.config.to_dict())
  config.data.standardise = standardise
  logged = []
  zeros = jax.tree.map(lambda x: x * 0, restored.params)
  params = init_from.start_from(
    restored.path, zeros, config, restored.vocabulary, streams, logged.append
  )
  jax.tree.map(np.testing.assert_array_equal, params, restored.params)
  head, *rest = logged
  assert str(restored.path) in head
  assert head.endswith(':') == bool(lines)
  assert len(rest) == len(lines)
  for line, wanted in zip(rest, lines):
    assert re.match(f'  {wanted}', line)
