"""The command ``vidcap``: its subcommands do what their modules do."""

import importlib
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import sys

import pytest

from vidcap_jax import __version__
from vidcap_jax.cli import commands, modes
from vidcap_jax.cli import flags as command_line
from vidcap_jax.inference import predict

ROOT = pathlib.Path(__file__).resolve().parents[3]
# ml_collections loads config files by a method that importlib gives up.
pytestmark = pytest.mark.filterwarnings('ignore:the load_module:DeprecationWarning')


def test_help_is_a_screen_with_a_line_for_each_command(vidcap):
  code, out, err = vidcap('--help')
  assert (code, err) == (0, '')
  lines = out.splitlines()
  assert len(lines) <= 24
  assert max(map(len, lines)) <= 100
  for command in commands.COMMANDS:
    assert [line for line in lines if line.split()[:1] == [command.name]], command.name
  assert vidcap() == (0, out, '')


def test_ctrl_c_ends_without_the_end_of_the_interpreter():
  """In which JAX crashes while it compiles."""
  program = (
    'import atexit, multiprocessing, time; from vidcap_jax.cli import commands\n'
    'def compile(*_):\n'
    "  multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,)).start()\n"
    "  atexit.register(print, 'never'); print('at work'); raise KeyboardInterrupt\n"
    'commands._run = compile; commands.run()'
  )
  run = subprocess.run(
    [sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, timeout=30
  )
  assert (run.returncode, run.stdout, run.stderr) == (130, 'at work\n', '')


def test_help_is_fast_and_imports_no_jax():
  program = (
    "import sys; from vidcap_jax.cli.commands import main; main(['--help']);"
    "heavy = {'jax', 'flax', 'numpy', 'ml_collections', 'absl'} & {*sys.modules};"
    'sys.exit(repr(heavy) if heavy else 0)'
  )
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  run = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True)
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  assert run.returncode == 0, run.stderr
  assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_the_first_commands_have_flags_that_exist(vidcap):
  _, out, _ = vidcap('--help')
  lines = out.partition('first commands:\n')[2].splitlines()
  assert len(lines) >= 3
  for words in map(shlex.split, lines):
    assert words[0] == 'vidcap'
    explained = vidcap(words[1], '--help')[1]
    for word in words[2:]:
      name = word.partition('=')[0]
      assert name.startswith('--config.') or name in explained


def test_the_version(vidcap):
  assert re.fullmatch(
    rf'vidcap {re.escape(__version__)} \(Python .*, jax \d.*\)\n', vidcap('--version')[1]
  )


@pytest.mark.parametrize(
  ('arguments', 'words'),
  [
    (['trian'], ("'trian'", 'train?')),
    (['evalute'], ('evaluate?',)),
    (['zzz'], ("'zzz'", 'vidcap --help')),
    (['--config=a.py', '--workdir=w'], ('mean vidcap train --config=a.py --workdir=w?',)),
    (['-config=a.py'], ('mean vidcap train -config=a.py?',)),
    (['--mode=export', '--checkpoint=r'], ('mean vidcap export --checkpoint=r?',)),
    (['--checkpoint=r', '--inputs=my clip.mp4'], ("vidcap predict --checkpoint=r '--inputs=my",)),
    (['--checkpoint=r'], ('vidcap evaluate --checkpoint=r?',)),
    (['--zzz', '--mode=zzz'], ('--zzz', 'vidcap --help')),
    (['studies', 'atention'], ('attention',)),
    (['studies', 'zzz'], ('vidcap studies',)),
    (['train', '--mode=evaluate'], ('--mode=train', 'leave --mode out')),
    (['train'], ('vidcap train needs --config',)),
    (['predict', '--checkpoint=W'], ('vidcap predict needs --inputs',)),
    (['predict', '--checkpoint=W', '--inputs=a', '--beam_size=3'], ('--decode=beam=3',)),
    (['predict', '--checkpoint=W', '--inputs=a', '--data=D'], ('for vidcap evaluate',)),
  ],
)
def test_wrong_commands(arguments, words, vidcap):
  code, out, err = vidcap(*arguments)
  assert (code, out, err.count('\n')) == (1, '', 1)
  assert err.startswith('error: ')
  for word in words:
    assert word in err


@pytest.mark.parametrize('command', commands.COMMANDS, ids=lambda command: command.name)
def test_help_of_each_command_shows_its_own_name(command, vidcap):
  code, out, err = vidcap(command.name, '--help')
  assert (code, err) == (0, '')
  assert out.startswith(f'usage: vidcap {command.name} ')


@pytest.mark.parametrize('study', commands.STUDIES)
def test_every_study_has_a_parser_with_its_name(study, vidcap):
  code, out, _ = vidcap('studies', study, '--help')
  assert (code, out.partition('\n')[0].startswith(f'usage: vidcap studies {study} ')) == (0, True)


def test_the_studies_are_all_modules_that_can_be_run(vidcap):
  folder = ROOT / 'vidcap_jax' / 'studies'
  run = {path.stem for path in folder.glob('*.py') if "__name__ == '__main__'" in path.read_text()}
  assert {*commands.STUDIES} == run - {'cost_row'}  # a process that ``cost`` starts
  code, out, _ = vidcap('studies')
  assert code == 0
  for name in commands.STUDIES:
    module = importlib.import_module(f'vidcap_jax.studies.{name}')
    words = ' '.join(out.split())
    assert f'{name} {(module.__doc__ or "").partition(chr(10))[0]}' in words


def test_flags_and_exit_codes_are_those_of_the_module(vidcap, monkeypatch, tiny_run):
  given = []
  monkeypatch.setattr(predict, 'predict', lambda *arguments: given.append(arguments) or 1)
  assert vidcap('predict', f'--checkpoint={tiny_run}', '--inputs=a.npy', '--decode=beam=2')[0] == 1
  assert given[0][1] == 'a.npy'
  assert given[0][0].config.decode.beam == 2
  assert vidcap('inspect', '/nowhere')[0] == 1
  assert vidcap('score', '--hypotheses=h.json')[0] == 2  # argparse's own code


def test_out_is_another_name_of_output(vidcap, monkeypatch):
  given = []
  for mode in ('evaluate', 'export'):
    monkeypatch.setitem(modes.RUN, mode, lambda: given.append(command_line.OUTPUT.value) or 0)
    assert vidcap(mode, '--checkpoint=W', '--out=D')[0] == 0
  assert given == ['D', 'D']
  of_studies = ('animation', 'attention', 'curves', 'examples', 'key_frames')
  for words in (
    *(['build'], ['extract'], ['studies', 'human', 'draw']),
    *(['studies', name] for name in of_studies),
  ):
    assert re.search(r'--output( \w+)?, --out \w+', vidcap(*words, '--help')[1]), words


def test_help_of_train_has_the_keys_of_the_config_that_is_named(vidcap, monkeypatch):
  monkeypatch.chdir(ROOT)
  code, out, err = vidcap('train', '--help', '--config=configs/quickstart.py', '--config.seed=7')
  assert (code, err) == (0, '')
  assert out.startswith('usage: vidcap train')
  assert re.search(r'^  seed +7 +\S', out, re.MULTILINE)
  assert re.search(r'^  optimizer.learning_rate +\S+ +\S', out, re.MULTILINE)


def test_modules_of_the_current_folder_are_found(tmp_path):
  """Own models and readers, as with ``python -m``, whatever folder the script is in."""
  (tmp_path / 'my_forms.py').write_text('def read(paths, language=None):\n  raise SystemExit(7)\n')
  (tmp_path / 'a').touch()
  script = tmp_path / 'bin' / 'vidcap'
  script.parent.mkdir()
  script.write_text('import sys\nfrom vidcap_jax.cli.commands import main\nsys.exit(main())\n')
  run = subprocess.run(
    [sys.executable, script, 'build', '--format=my_forms:read', '--annotations=a']
    + ['--features=image=b', '--output=c'],
    cwd=tmp_path,
    env={**os.environ, 'PYTHONPATH': str(ROOT)},
    capture_output=True,
    text=True,
  )
  assert run.returncode == 7, run.stderr


def test_python_dash_m_is_the_command():
  run = subprocess.run(
    [sys.executable, '-m', 'vidcap_jax', '--version'], cwd=ROOT, capture_output=True, text=True
  )
  assert (run.returncode, run.stdout.split()[:2]) == (0, ['vidcap', __version__])


@pytest.mark.parametrize('words', [['--help'], ['studies'], ['tables']])
def test_a_reader_that_ends_is_no_error(words):
  command = [sys.executable, '-m', 'vidcap_jax', *words]
  with subprocess.Popen(
    command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
  ) as process:
    process.stdout.close()
    assert process.stderr.read() == ''
  assert process.returncode == 128 + signal.SIGPIPE


def test_tables_print_commands_as_they_are_typed(vidcap):
  code, out, _ = vidcap('tables')
  assert (code, 'python -m' in out) == (0, False)
  assert re.search(r'^ +vidcap tables --paper=stats --table=1', out, re.MULTILINE)
  assert re.search(r'^ +vidcap studies attention ', out, re.MULTILINE)


def test_help_of_a_command_by_the_word_help(vidcap):
  assert vidcap('help', 'predict') == vidcap('predict', '--help')
  assert vidcap('-h', 'studies', 'curves') == vidcap('studies', 'curves', '--help')
  assert vidcap('help', '--help') == vidcap('--help')
  assert vidcap('help', 'trian')[0] == 1
