"""Flags of PyTorch projects lead to keys that exist."""

import pathlib
import re

import pytest

from configs import common
from vidcap_jax.cli import pytorch_names
from vidcap_jax.config_keys import all_keys

PAGE = pathlib.Path(__file__).resolve().parents[3] / 'docs' / 'from-pytorch.md'


def known() -> set[str]:
  config = common.temporal_spatial(common.base())
  return {*all_keys(config), 'model.dropout'}


def test_every_name_leads_to_a_key_that_exists():
  assert {*pytorch_names.KEYS.values()} <= known()


def test_the_page_and_the_messages_agree():
  """Rows of docs/from-pytorch.md with one key that means the same there."""
  section = PAGE.read_text().partition('\n## Options\n')[2].partition('\n## ')[0]
  rows = [
    [cell.strip() for cell in line.strip('|').split('|')]
    for line in section.splitlines()
    if line.startswith('| ')
  ]
  checked = []
  for options, keys, note in rows:
    names = re.findall(r'`(\w+)`', options)
    found = re.findall(r'`([a-z]+\.[a-z_.]+)`', keys)
    # Rows with one key for all options; others and those with remarks need reading.
    if len(found) == 1 and '`.' not in keys and not note and 'objective' not in keys:
      checked += [(name, pytorch_names.KEYS.get(name), found[0]) for name in names]
  assert len(rows) > 30
  assert len(checked) >= 10
  assert not [row for row in checked if row[1] != row[2]]


@pytest.mark.parametrize(
  ('flag', 'mode', 'words'),
  [
    ('lr', 'train', '--config.optimizer.learning_rate=3?'),
    ('batch-size', 'train', '--config.train.batch_size=3?'),
    ('epochs', 'compile', '--config.train.epochs=3?'),
    ('seed', 'train', '--config.seed=3?'),
    ('beam_size', 'train', '--config.decode.beam=3?'),
    ('beam_size', 'predict', '--decode=beam=3?'),
    ('config.decode.beam', 'predict', '--decode=beam=3?'),
    ('config.train.epochs', 'predict', 'config.train.epochs is set when training'),
    ('lr', 'evaluate', 'config.optimizer.learning_rate is set when training'),
    ('data_dir', 'evaluate', '--data=3?'),
    ('save_dir', 'train', '--workdir'),
    ('resume', 'train', 'resumes'),
    ('ckpt', 'predict', '--checkpoint'),
    ('gpu', 'export', 'JAX_PLATFORMS'),
    ('word_count_threshold', 'train', 'vidcap build --min_count'),
    ('word_vectors', 'train', '--config.train.word_vectors=3?'),  # from the config that is named
  ],
)
def test_what_to_use_instead(flag, mode, words):
  assert words in pytorch_names.instead_of(flag, '3', mode, sorted(known()))


def test_a_key_without_a_config():
  assert '--config=FILE' in pytorch_names.instead_of('config.train.epochs', '3', 'train', [])


def test_a_flag_that_nothing_is_like():
  assert pytorch_names.instead_of('zzz', '', 'train', sorted(known())) == ''
  assert pytorch_names.instead_of('word_vectors', '', 'train', []) == ''


def test_a_key_in_another_section():
  assert pytorch_names.key_of('train.lr') == 'optimizer.learning_rate'
  assert pytorch_names.key_of('train.epoch_s') == 'train.epoch_s'
