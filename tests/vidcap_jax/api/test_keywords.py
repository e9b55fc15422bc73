"""Errors of the public functions name their keywords."""

import inspect

import pytest

import vidcap_jax as vc
from vidcap_jax.api.keywords import as_keywords, named_in_errors
from vidcap_jax.errors import DataError


def test_flags_become_keywords():
  text = '--split=val: see --splits, --weights; run\n  vidcap score --split=val'
  expected = 'split=val: see --splits, --weights; run\n  vidcap score --split=val'
  assert as_keywords(text, ('split',)) == expected
  assert as_keywords('python -m vidcap_jax.main --split=a', ('[a-z]+',)).endswith(' --split=a')
  assert as_keywords('set --config.data.dir', ('config',)) == 'set config.data.dir'


def test_an_error_keeps_its_type_and_items():
  @named_in_errors('other')
  def call(*, split):
    raise DataError(f'--split={split}, --other, --more', ['a', 'b'])

  with pytest.raises(DataError, match='^split=3, other, --more$') as raised:
    call(split=3)
  assert raised.value.items == ('a', 'b')
  assert str(inspect.signature(call)) == '(*, split)'


@pytest.mark.parametrize(
  ('call', 'words'),
  [
    (lambda: vc.load('runs/mine', beams=3), "'beams'.* beam is .*caption"),
    (lambda: vc.load('runs/mine', batchsize=3), "'batchsize'.*batch_size"),
    (lambda: vc.load('runs/mine', zzz=3), "'zzz'.*weights, batch_size"),
    (lambda: vc.score({}, {}, metric=('CIDEr',)), "'metric'.*metrics"),
  ],
)
def test_unknown_keywords(call, words):
  with pytest.raises(TypeError, match=words):
    call()


@pytest.mark.parametrize(
  ('call', 'words'),
  [
    (lambda: vc.train('missing.py', 'runs/a'), '^config=missing.py: no such file'),
    (lambda: vc.train('missing.py', ''), '^workdir: .*empty path'),
    (lambda: vc.load('gone'), '^checkpoint=gone: '),
    (lambda: vc.evaluate('gone'), '^checkpoint=gone: '),
    (lambda: vc.score('', {}), '^hypotheses=: an empty path'),
    (lambda: vc.score({}, ''), '^references=: an empty path'),
    (
      lambda: vc.build(format='csv', annotations='', features={'a': 'b'}, output='o'),
      '^annotations=: an empty path',
    ),
    (
      lambda: vc.build(format='csv', annotations=[], features={'a': 'b'}, output='o'),
      '^annotations=: an empty path',
    ),
    (
      lambda: vc.build(format='csv', annotations='a', features={'a': 'b'}, output=''),
      '^output=: an empty path',
    ),
    (
      lambda: vc.build(
        format='csv', annotations='a', features={'a': 'b'}, output='o', vocabulary=''
      ),
      '^vocabulary=: an empty path',
    ),
  ],
)
def test_errors_name_keywords(call, words, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(vc.UserError, match=words):
    call()
  assert list(tmp_path.iterdir()) == []
