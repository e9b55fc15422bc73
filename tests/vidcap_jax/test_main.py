"""What a user sees of wrong commands: one line on stderr, exit code 1, no traceback."""

import errno
import json
import pathlib
import re
import subprocess
import sys

import pytest

from data_prep.dataset.builder import Options, build
from tests import tiny
from vidcap_jax import main
from vidcap_jax.checkpoints import restore
from vidcap_jax.evaluation import java

ROOT = pathlib.Path(__file__).resolve().parents[2]


# ml_collections loads config files by a method that importlib gives up.
pytestmark = pytest.mark.filterwarnings('ignore:the load_module:DeprecationWarning')

CONFIG = f'--config={ROOT / "tests" / "tiny.py"}'


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([], '--mode=train needs --config'),
    ([CONFIG], '--mode=train needs --workdir'),
    (['--config=nothere.py', '--workdir=W'], '--config=nothere.py: no such file'),
    ([CONFIG, '--workdir=W'], 'no data: give --config.data.dir=DIR'),
    (
      ['--config=configs/quickstart.py:tset', '--workdir=W'],
      "--config=configs/quickstart.py:tset: .*'tset'.* model=temporal, model=spatial, ",
    ),
    (['--confg=x'], "Unknown command line flag 'confg'. Did you mean: config"),
    ([CONFIG, '--lr=3'], r'--lr; .* --config.optimizer.learning_rate=3\?'),
    ([CONFIG, '--config.lr=3'], r'--config.lr: .* optimizer.learning_rate\?'),
    (['--mode=trian'], '--mode=trian: value should be one of <train|evaluate|predict|export>'),
    (['word.py'], r"unknown argument 'word.py'; .* --config=word.py\?"),
    ([CONFIG, 'word'], "unknown argument 'word'; flags look like --name=value"),
    (['--mode=predict', 'a.mp4'], r'--inputs=a.mp4\?'),
    (['--mode=evaluate', 'runs/a'], r'--checkpoint=runs/a\?'),
    ([CONFIG, '--workdir=W', '--num_processes=2'], '--coordinator, --process_id'),
    ([CONFIG, '--workdir=W', '--coordinator=h'], '--num_processes, --process_id'),
    ([CONFIG, '--workdir=W', '--process_id=-1'], '--process_id'),
    ([CONFIG, '--config.train.epoch=3'], r'--config.train.epoch: .* mean train.epochs'),
    ([CONFIG, '--config.epochs=3'], r'--config.epochs: .* mean train.epochs\?'),
    ([CONFIG, '--noconfig.log.tensorbord'], r'--config.log.tensorbord: .* mean log.tensorboard'),
    ([CONFIG, '--config.zzz=3'], r'--config.zzz: there is no such key; configs/common.py'),
    ([CONFIG, '--config.train.epochs.x=3'], r'--config.train.epochs.x: .* mean train.epochs'),
    (['--config.train.epochs=3', CONFIG], 'Found --config.train.epochs=3 .* before'),
    ([CONFIG, '--config.train.epochs=many'], '--config.train.epochs=many: not a number'),
    (
      [CONFIG, '--config.train.batch_size=3.5'],
      '--config.train.batch_size=3.5: not a whole number',
    ),
    ([CONFIG, '--config.log.tensorboard=maybe'], 'tensorboard=maybe: neither true nor false'),
    ([CONFIG, '--config.train=3'], r'--config.train=3: .* not a dict'),
    (
      [CONFIG, '--config.data.dir=/nowhere', '--workdir=W'],
      '/nowhere.*: no such file; .*data_prep',
    ),
    (['--mode=evaluate'], '--mode=evaluate needs --checkpoint'),
    (['--mode=evaluate', '--checkpoint=/nowhere'], '--checkpoint=/nowhere: no such folder'),
    (['--mode=evaluate', '--checkpoint=/nowhere,'], '--checkpoint=/nowhere,: .*comma'),
    (['--mode=evaluate', f'--checkpoint={ROOT}'], 'no checkpoint in this folder; give a workdir'),
    (['--mode=predict', '--checkpoint=/nowhere'], '--mode=predict needs --inputs'),
    (['--mode=export', '--checkpoint=/nowhere'], '--mode=export needs --output'),
    (['--mode=compile', CONFIG], '--mode=compile needs --topology'),
    (['--mode=compile', CONFIG, '--topology=v9:2x4'], 'v9.*known: v4, v5e'),
    (['--mode=compile', CONFIG, '--topology=v5e:8'], 'v5e:8.*2 axes'),
    (
      ['--mode=compile', CONFIG, '--topology=v5e:2x4', '--workdir=W'],
      '--workdir is for --mode=train',
    ),
    ([CONFIG, '--workdir=W', '--topology=v5e:2x4'], '--topology is for --mode=compile'),
    (
      ['--mode=predict', '--checkpoint=W', '--inputs=I', '--out=D'],
      '--output .*evaluate.*export.* not for predict: .*> FILE',
    ),
    (
      ['--mode=predict', '--checkpoint=W', '--inputs=a.npy', '--data=D'],
      '--data .*evaluate.*compile.* not for predict: leave it out',
    ),
    (
      ['--mode=evaluate', '--checkpoint=W', CONFIG],
      '--config is for --mode=train and compile, not for evaluate: the checkpoint',
    ),
    (
      [CONFIG, '--workdir=W', '--checkpoint=C'],
      '--checkpoint .*evaluate.*predict.* not for train: .*train.init_from',
    ),
    ([CONFIG, '--workdir=W', '--decode=beam=2'], r'--decode is for .*: set --config.decode.KEY'),
    (
      ['--mode=predict', '--checkpoint=/nowhere', '--inputs=a.mp4'],
      '--checkpoint=/nowhere: no such folder',
    ),
  ],
)
def test_wrong_commands(arguments, message, command, tmp_path, monkeypatch):
  arguments = [a.replace('--workdir=W', f'--workdir={tmp_path / "work"}') for a in arguments]
  monkeypatch.chdir(ROOT)
  code, out, err = command(*arguments)
  assert (code, out) == (1, '')
  assert err.startswith('error: ')
  assert err.count('\n') == 1
  assert re.search(message, err)


@pytest.mark.parametrize(
  ('flag', 'message'),
  [
    ('train.batch_size=12', 'a batch size of 12 does not divide over 8 devices of .*: 8 or 16'),
    ('model.name=convolution', "unknown model.name 'convolution'; known: dual_afr, "),
    ('model.global_streams=motion', "needs a stream 'motion' .* has: image: sequence"),
    ('train.init_from=/nowhere', 'config.train.init_from=/nowhere: no such folder'),
    ('mesh.model=3', 'mesh.model=3 does not fit 8 devices, 8 a process; .*: 1, 2, 4, 8'),
    ('seeds=one,two', "config.seeds are whole numbers.*'one,two'"),
  ],
)
def test_settings_that_do_not_fit(flag, message, command, tiny_data, tmp_path):
  workdir = f'--workdir={tmp_path / "work"}'
  code, _, err = command(CONFIG, f'--config.data.dir={tiny_data}', f'--config.{flag}', workdir)
  assert code == 1
  assert err.startswith('error: ')
  assert err.count('\n') == 1
  assert re.search(message, err)


def test_a_key_that_a_config_file_invents_is_refused(command, tmp_path):
  file = tmp_path / 'own.py'
  lines = ('from configs import common', 'def get_config():', '  c = common.base()')
  file.write_text('\n'.join((*lines, '  c.train.epoch = 3.0', '  return c.lock()')))
  code, out, err = command(f'--config={file}', '--print_config')
  assert (code, out) == (1, '')
  assert re.fullmatch(
    "error: --config: .*own.py, line 4: .*c.train.epoch = .*'epoch'.* train.epochs.*\n", err
  )


def test_the_config_is_printed_without_workdir_or_data(command, monkeypatch):
  monkeypatch.chdir(ROOT)
  arguments = ('--config=configs/vatex_fusion.py:spatial', '--print_config')
  code, out, err = command(*arguments, '--config.train.epochs=3')
  assert (code, err) == (0, '')
  assert out.startswith('configs/vatex_fusion.py:spatial')
  assert re.search(r'^  train.epochs +3.0 +\S', out, re.MULTILINE)
  code, _, err = command('--mode=evaluate', '--checkpoint=W', '--print_config')
  assert code == 1
  assert re.search('--print_config.*train', err)


def test_streams_that_the_model_does_not_read_are_named(command, tmp_path):
  """Before training, which does not begin here."""
  tiny.build(tmp_path)
  options = Options(
    form='jsonl',
    annotations=(str(tmp_path / 'captions.jsonl'),),
    features=dict.fromkeys(('image', 'motion', 'audio'), str(tmp_path / 'image')),
    out=str(tmp_path / 'both'),
    min_count=1,
  )
  build(options)
  flags = [f'--config.data.dir={tmp_path / "both"}', f'--workdir={tmp_path / "work"}']
  code, out, _ = command(CONFIG, *flags, '--config.train.init_from=/nowhere')
  assert code == 1
  assert "[xe] streams: image; this model does not read the data set's motion, audio" in out


def test_a_fallback(command, tiny_run, tiny_data, tmp_path, monkeypatch):
  flags = ['--mode=evaluate', f'--checkpoint={tiny_run}', f'--data={tiny_data}']
  code, out, _ = command(*flags, f'--fallback={tiny_run}', f'--output={tmp_path}')
  assert code == 0
  assert 'no references to score the captions with' in out
  assert f'0 of them filled in from {tiny_run}' in out
  monkeypatch.setattr(restore, 'restore', None)  # before it
  code, _, err = command(*flags, '--fallback=/nowhere')
  assert (code, err) == (1, 'error: --fallback=/nowhere: no such folder\n')
  code, _, err = command(*flags, '--weights=2')
  assert (code, err.count('\n')) == (1, 1)
  assert 'error: --weights' in err


def test_an_export(command, tiny_run, tmp_path):
  flags = ['--mode=export', f'--output={tmp_path / "out"}']
  code, out, _ = command(*flags, f'--checkpoint={tiny_run}', '--decode=beam=3')
  assert (code, out.startswith(f'{tmp_path / "out"}: greedy and beam')) == (0, True)
  manifest = json.loads((tmp_path / 'out' / 'manifest.json').read_text())
  assert manifest['decode']['beam']['beam'] == 3
  assert manifest['streams'][0]['extractor'] == 'tiny'
  code, _, err = command(*flags, f'--checkpoint={tiny_run}')
  assert (code, err) == (
    1,
    f'error: --output={tmp_path / "out"}: not an empty folder; name a new one\n',
  )
  code, _, err = command(*flags, f'--checkpoint={tiny_run},{tiny_run}')
  assert code == 1
  assert 'takes one checkpoint' in err


def test_a_disk_that_fails_is_told_for_the_mode(command, tiny_run, monkeypatch):
  def fail(*_):
    raise OSError(errno.EROFS, 'Read-only file system', '/ro/x')

  monkeypatch.setattr(restore, 'restore', fail)
  for mode in ('evaluate', 'export'):
    code, _, err = command(f'--mode={mode}', f'--checkpoint={tiny_run}', f'--output={tiny_run}/new')
    assert code == 1
    assert err.endswith("'/ro/x'; make the folder writable, or use another --output\n")


def test_captions_are_scored_without_java(command, tiny_run, tmp_path, monkeypatch):
  monkeypatch.setattr(java, '_runs', lambda path: False)
  source = ('--mode=evaluate', f'--checkpoint={tiny_run}', '--split=val')
  code, out, err = command(*source, f'--output={tmp_path / "results"}')
  assert code == 0
  assert re.search(r'METEOR 0\.\d+', out + err)
  assert 'no Java' in out + err


def test_as_a_process():
  """The same without pytest around it, and with the traceback that Python would print."""
  main_module = [sys.executable, '-m', 'vidcap_jax.main']
  run = subprocess.run(
    [*main_module, CONFIG, '--config.train.epoch=3'], cwd=ROOT, capture_output=True, text=True
  )
  assert run.returncode == 1
  assert run.stderr.startswith('error: --config.train.epoch: there is no such key; did you mean')
  assert run.stderr.count('\n') == 1
  help_text = subprocess.run([*main_module, '--help'], cwd=ROOT, capture_output=True, text=True)
  assert help_text.returncode == 0
  for word in ('--config=configs/', '--mode=evaluate', '--inputs=', '--workdir', '--decode'):
    assert word in help_text.stdout


def test_a_command_of_vidcap_is_run(monkeypatch, capsys):
  monkeypatch.setattr(main.allocator, 'keep_freed_memory', lambda: None)
  for arguments, words in [
    (['report', '--help'], ('--run=', '--compare', '--attention')),
    (['card', '-h'], ('usage: vidcap card --checkpoint=DIR',)),
    (['studies', 'results', '--help'], ('--curves',)),
  ]:
    monkeypatch.setattr(sys, 'argv', ['vidcap_jax.main', *arguments])
    with pytest.raises(SystemExit) as ended:
      main.run()
    assert ended.value.code in (0, None)
    printed = capsys.readouterr().out
    for word in words:
      assert word in printed, arguments
  monkeypatch.setattr(sys, 'argv', ['vidcap_jax.main', 'report', '--run=gone'])
  with pytest.raises(SystemExit, match='^error: --run=gone: no such folder'):
    main.run()


def test_a_process_keeps_freed_memory(monkeypatch):
  """Before anything is imported that starts threads."""
  calls = []
  monkeypatch.setattr(main.allocator, 'keep_freed_memory', lambda: calls.append('memory'))
  monkeypatch.setattr(main.app, 'run', lambda *_, **__: calls.append('mode') or sys.exit(0))
  with pytest.raises(SystemExit):
    main.run()
  assert calls == ['memory', 'mode']
