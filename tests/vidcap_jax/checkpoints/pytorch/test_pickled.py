"""Options are read as written, by Python 2 too; nothing in a pickle runs."""

import argparse
import os
import pickle

import numpy as np
import pytest

from tests.feature_files import torch_zip
from vidcap_jax.checkpoints.pytorch.pickled import load_options
from vidcap_jax.errors import DataError

INFOS = {
  'iter': 5,
  'opt': argparse.Namespace(rnn_size=8, name='tiny', rate=0.5, none=None),
  'vocab': {'1': 'a', '2': 'café'},
  'best': np.float64(0.5),
}
PLAIN = {'rnn_size': 8, 'name': 'tiny', 'rate': 0.5, 'none': None}


def write(tmp_path, code: bytes):
  path = tmp_path / 'infos.pkl'
  path.write_bytes(code)
  return path


@pytest.mark.parametrize('protocol', range(pickle.HIGHEST_PROTOCOL + 1))
def test_namespaces_become_dictionaries(tmp_path, protocol):
  found = load_options(write(tmp_path, pickle.dumps(INFOS, protocol)))
  assert found['opt'] == PLAIN
  assert {key: found[key] for key in ('iter', 'vocab')} == {
    key: INFOS[key] for key in ('iter', 'vocab')
  }


def test_pickles_of_python_2(tmp_path):
  code = (
    b"(dS'opt'\nccopy_reg\n_reconstructor\n(cargparse\nNamespace\nc__builtin__\nobject\nNtR"
    b"(dS'rnn_size'\nI8\nsbsS'vocab'\n(dS'1'\nS'caf\\xe9'\nss."
  )
  assert load_options(write(tmp_path, code)) == {'opt': {'rnn_size': 8}, 'vocab': {'1': 'café'}}


class Runs:
  def __reduce__(self):
    return os.mkdir, ('ran',)


@pytest.mark.parametrize(
  ('code', 'message'),
  [
    (pickle.dumps({'opt': Runs()}), 'posix.mkdir'),
    (pickle.dumps([1]), 'list'),
    (pickle.dumps(INFOS)[:-20], 'infos.pkl'),
    (b'', 'infos.pkl'),
    (b'no pickle', 'infos.pkl'),
    (torch_zip({}), 'infos.pkl.*PyTorch.*weights'),
    # options that are not a dictionary of names
    (b"\x80\x02}U\x03optcargparse\nNamespace\n)\x81K\x05bs.", 'options'),
    (b"\x80\x02}U\x03optcargparse\nNamespace\n)\x81}K\x05K\x05sbs.", 'options'),
    # an object of a class that is no Namespace
    (b"(dS'opt'\nccopy_reg\n_reconstructor\n(c__builtin__\nobject\nc__builtin__\nobject\nNtRs.",
     'object'),
  ],
)  # fmt: skip
def test_other_files(tmp_path, monkeypatch, code, message):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(DataError, match=f'infos.pkl.*{message}|{message}'):
    load_options(write(tmp_path, code))
  assert [path.name for path in tmp_path.iterdir()] == ['infos.pkl']


def test_a_namespace_without_values(tmp_path):
  code = b'\x80\x02}U\x03optcargparse\nNamespace\n)\x81s.'
  assert load_options(write(tmp_path, code)) == {'opt': {}}


def test_the_class_of_options_cannot_be_changed(tmp_path):
  code = b'\x80\x02cargparse\nNamespace\nN}U\x05stateK\x07s\x86b.'
  with pytest.raises(DataError, match='infos.pkl'):
    load_options(write(tmp_path, code))
  assert load_options(write(tmp_path, pickle.dumps(INFOS)))['opt'] == PLAIN
