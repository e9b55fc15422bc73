"""Sizes of configs, compared with counts by hand for a small model, and the table of sizes."""

import json
import pathlib
import re

import pytest

from benchmarks import sizes
from vidcap_jax.training.cost import Cost

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = """
from configs import common
from vidcap_jax.data.schema import Stream

VARIANTS = {'variant': ('temporal', 'vanilla')}
STREAMS = (Stream('image', 'sequence', (None, 30), longest=9),)
VOCABULARY = 200


def get_config(variant=''):
  chosen = common.read_variant(variant, **VARIANTS)
  c = common.temporal_spatial(common.base(), chosen['variant'])
  c.order = ('first', 'second')
  c.stages = {'first': {}, 'second': {'train': {'epochs': 1.0}}}
  c.model.global_streams = c.model.temporal_streams = ('image',)
  c.model.hidden, c.model.embed, c.model.project, c.model.attention = 64, 32, 48, 16
  c.model.dropout = 0.0
  c.data.max_words = 11
  c.data.captions_per_video = 3
  c.train.batch_size = 4
  c.optimizer.name = 'sgd'
  return c.lock()
"""
B, S, L, T, V = 4, 3, 12, 9, 200
D, H, E, P, A = 30, 64, 32, 48, 16


@pytest.fixture(scope='module')
def small(tmp_path_factory):
  path = tmp_path_factory.mktemp('configs') / 'small.py'
  path.write_text(CONFIG)
  return str(path)


@pytest.fixture(scope='module')
def temporal(small):
  (size,) = sizes.sizes(small)  # both stages have this size
  return size


@pytest.fixture(scope='module')
def vanilla(small):
  (size,) = sizes.sizes(f'{small}:variant=vanilla')
  return size


def test_parameters_counted_by_hand(temporal):
  lstm = (P + E + H + H) * 4 * H + 4 * H, (P + H + H) * 4 * H + 4 * H
  attention = (P + H) * A + A
  assert temporal.parameters == 2 * (D * P + P) + V * E + sum(lstm) + attention + (H * V + V)
  assert temporal.stages == ('first', 'second')
  assert temporal.captions == B * S


def test_operations_counted_by_hand(temporal):
  """Each matrix product is computed once forward and twice for its gradients."""
  words = B * S * L
  video = D * P + P * 4 * H + T * (D * P + P * A)  # mean and its gates; memory and its keys
  word = E * 4 * H + 2 * H * 4 * H  # the attention LSTM
  word += H * A + T * A + T * P  # query, scores, context
  word += (P + 2 * H) * 4 * H + H * V  # the language LSTM, the words
  products = 3 * 2 * (B * video + words * word)
  # The rest is elementwise work, whose share grows as the model gets smaller.
  assert products < temporal.per_caption.flops * B * S < 1.25 * products


def test_a_variant_without_attention_is_smaller(vanilla, temporal):
  assert vanilla.parameters == temporal.parameters - (D * P + P + (P + H) * A + A + P * 4 * H)
  assert vanilla.per_caption.flops < temporal.per_caption.flops


def test_the_command(small, temporal, vanilla, tmp_path, capsys, monkeypatch):
  known = {size.config: [size] for size in (temporal, vanilla)}
  monkeypatch.setattr(sizes, 'sizes', known.get)
  page, numbers = tmp_path / 'page.md', tmp_path / 'numbers.json'
  page.write_text(f'Before.\n\n{sizes.BEGIN}\nold\n{sizes.END}\n\nAfter.\n')
  sizes.main([f'--config={small}', f'--write={page}', f'--json={numbers}'])
  out = capsys.readouterr().out
  assert [line.count('|') for line in out.splitlines()] == [6] * 4
  assert f'{temporal.parameters:,}' in out
  text = page.read_text()
  assert re.match(r'Before\.\n\n<!-- .* -->\n\n\|[^<]*\|\n\n<!-- .* -->\n\nAfter\.\n$', text)
  assert out.strip() in text
  rows = json.loads(numbers.read_text())
  assert [row['unit'] for row in rows] == ['', 'GFLOP/caption', 'MB/caption'] * 2
  assert rows[0]['value'] == temporal.parameters


def test_update_page_keeps_other_rows():
  head = '| config | stage | parameters | GFLOP a caption | MB a caption |\n| - | - | - | - | - |\n'
  old = '| a.py | x | 1 | 2 | 3 |\n| gone.py | x | 1 | 2 | 3 |\n| c.py | x | 7 | 8 | 9 |\n'
  text = f'{sizes.BEGIN}\n{head}{old}{sizes.END}'
  rows = [('a.py', 'x', '4', '5', '6'), ('a.py', 'y', '4', '5', '6'), ('b.py', 'x', '0', '0', '0')]
  page = sizes.update_page(text, rows, ['configs/a.py', 'configs/b.py', 'configs/c.py'])
  cells = [[c.strip() for c in line.split('|')[1:-1]] for line in page.splitlines() if '|' in line]
  assert [row[0] + row[1] + row[2] for row in cells[2:]] == ['a.pyx4', 'a.pyy4', 'b.pyx0', 'c.pyx7']


def test_every_config_and_variant_is_listed(monkeypatch):
  monkeypatch.chdir(ROOT)
  listed = sizes.every_config('configs')
  assert 'configs/quickstart.py' in listed
  assert 'configs/vatex_fusion.py:variant=vanilla' in listed
  assert not any('common' in config or '__init__' in config for config in listed)


def test_the_page_lists_every_config(monkeypatch):
  monkeypatch.chdir(ROOT)
  text = pathlib.Path('docs/models.md').read_text()
  missing = [
    c for c in sizes.every_config('configs') if f'| {c.removeprefix("configs/")} ' not in text
  ]
  assert not missing, 'python -m benchmarks.sizes --write=docs/models.md'


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--config=nothere.py'], '--config=nothere.py: no such file'),
    (['--config=configs/quickstart.py:sideways'], "unknown variant 'sideways'"),
    (['--config=configs/common.py'], 'configs/common.py.*VARIANTS.*STREAMS.*VOCABULARY'),
  ],
)
def test_wrong_commands(arguments, message, monkeypatch):
  monkeypatch.chdir(ROOT)
  with pytest.raises(SystemExit, match=message):
    sizes.main(arguments)


def test_a_page_without_marks(small, tmp_path, monkeypatch):
  page = tmp_path / 'page.md'
  page.write_text('no marks')
  monkeypatch.setattr(sizes, 'sizes', lambda config: [sizes.Size(config, ('x',), 1, 1, Cost())])
  with pytest.raises(SystemExit, match='sizes: python -m'):
    sizes.main([f'--config={small}:vanilla', f'--write={page}'])
