"""The command: its help, its flags, and what it needs."""

import sys

import pytest

from vidcap_jax.serving import command


@pytest.mark.parametrize('name', ['uvicorn', 'starlette', 'prometheus_client', 'python_multipart'])
def test_a_missing_extra_is_named(monkeypatch, name):
  monkeypatch.setitem(sys.modules, name, None)
  with pytest.raises(SystemExit, match=rf'{name}.*vidcap_jax\[serve\]'):
    command.main(['--checkpoint=runs/mine'])


def test_the_help_has_examples(vidcap):
  code, out, _ = vidcap('serve', '--help')
  assert code == 0
  assert out.startswith('usage: vidcap serve')
  for words in ('curl -F file=@clip.mp4', '--checkpoint=runs/mine', '(default: 127.0.0.1', '429'):
    assert words in out
  assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
  'flag',
  [
    *('--port=x', '--workers=0', '--upload_mb=-1', '--clip_seconds=nan', '--beams=2,x'),
    *('--batch_sizes=0', '--beems=2', '--temp=gone'),
  ],
)
def test_unsuitable_flags(flag, capsys):
  with pytest.raises(SystemExit) as ended:
    command.main(['--checkpoint=runs/gone', flag])
  assert ended.value.code
  assert flag.partition('=')[0] in f'{capsys.readouterr().err}{ended.value.code}'


def test_a_checkpoint_that_is_not_there(capsys):
  with pytest.raises(SystemExit, match='--checkpoint=runs/gone'):
    command.main(['--checkpoint=runs/gone'])
