"""The help of each mode has all of its flags, and examples that are complete commands."""

import shlex

import pytest
from absl import flags

from vidcap_jax.cli import flags as command_line
from vidcap_jax.cli import mode_help, modes

# ml_collections loads config files by a method that importlib gives up.
pytestmark = pytest.mark.filterwarnings('ignore:the load_module:DeprecationWarning')
EXAMPLES = [
  (mode, example) for mode, examples in mode_help.EXAMPLES.items() for example in examples
]


@pytest.mark.parametrize('mode', modes.RUN)
def test_every_flag_that_a_mode_reads_is_explained(mode):
  text = mode_help.text(mode)
  assert max(map(len, text.splitlines())) <= mode_help.WIDTH
  for flag in (*command_line.NEEDED[mode], *command_line.READ[mode]):
    if (mode, flag.name) != ('export', 'weights'):  # which it refuses
      assert f'\n  --{flag.name}' in text
  for other in modes.RUN:
    assert f'{other}: ' not in text


def test_every_flag_has_a_form():
  of_modes = {flag.name for holders in command_line.NEEDED.values() for flag in holders}
  of_modes |= {flag.name for holders in command_line.READ.values() for flag in holders}
  for name in of_modes | {flag.name for flag in command_line.JOB_FLAGS}:
    flag = flags.FLAGS[name]
    assert flag.boolean or bool(mode_help.choices(flag)) != (name in mode_help.METAVARS), name


@pytest.mark.parametrize('mode', ['card', 'export'])
def test_a_mode_of_one_checkpoint_does_not_ask_for_several(mode):
  text = mode_help.text(mode)
  assert f'usage: vidcap {mode} --checkpoint=DIR ' in text
  assert 'DIR[,DIR]' not in text
  assert '--checkpoint=DIR[,DIR]' in mode_help.text('evaluate')


def test_parts_of_an_explanation():
  explained = 'train, compile: a file. evaluate: a folder, e.g. one: two.'
  assert mode_help.flag_text(explained, 'compile') == 'a file.'
  assert mode_help.flag_text(explained, 'evaluate') == 'a folder, e.g. one: two.'
  assert mode_help.flag_text(explained, 'predict') == ''
  assert mode_help.flag_text('Seconds to wait.', 'train') == 'Seconds to wait.'
  assert mode_help.flag_text('<a|b>: train: one.;\n    repeat this option …', 'train') == 'one.'


@pytest.mark.parametrize(('mode', 'example'), EXAMPLES)
def test_examples_are_complete(mode, example, vidcap, monkeypatch):
  done = []
  monkeypatch.setitem(modes.RUN, mode, lambda: done.append(mode) or 0)
  monkeypatch.setattr(modes, 'compile_mode', lambda: done.append(mode) or 0)
  code, _, err = vidcap(mode, *shlex.split(example))
  assert (code, err, done) == (0, '', [mode])
