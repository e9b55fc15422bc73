"""The comparison of the tokenisers."""

import json

import pytest

from benchmarks import ptb_tokens
from vidcap_jax.evaluation import ptb_lexer


def test_tokens_are_the_same(tmp_path, capsys):
  (tmp_path / 'r.json').write_text(json.dumps({'v': ['A dog, running.', "it isn't 1 1/2"]}))
  ptb_tokens.main(
    [f'--captions={tmp_path}/r.json', '--strings=300', f'--json={tmp_path}/rows.json']
  )
  rows = json.loads((tmp_path / 'rows.json').read_text())
  assert [(row['name'], row['value'], row['met']) for row in rows] == [
    ('2 captions, different', 0, True),
    ('300 random strings, different', 0, True),
  ]
  assert ptb_tokens.random_strings(9, [], 0) == ptb_tokens.random_strings(9, [], 0)
  assert ptb_tokens.random_strings(9, [], 0) != ptb_tokens.random_strings(9, [], 1)


def test_different_tokens_are_shown(monkeypatch, capsys):
  monkeypatch.setattr(ptb_lexer, 'lex', lambda captions: [['x']] * len(captions))
  with pytest.raises(SystemExit, match='differ'):
    ptb_tokens.main(['--strings=3'])
  assert "'x' by Python" in capsys.readouterr().out
