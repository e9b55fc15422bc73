"""The flags and their parsing; an error is one line and suggests config keys with similar names."""

import itertools
import re
import sys
import traceback

from absl import flags
from ml_collections import ConfigDict, config_flags

from vidcap_jax.config_section import near_keys
from vidcap_jax.errors import UserError

CONFIG = config_flags.DEFINE_config_file(
  'config',
  None,
  'train: config file; a variant after a colon, e.g. configs/quickstart.py:runlocal.',
)
PRINT_CONFIG = flags.DEFINE_bool(
  'print_config',
  False,
  'train: prints every key of --config with its value and its meaning, model, objective and stages '
  'included, and ends; nothing else is needed.',
)
MODE = flags.DEFINE_enum('mode', 'train', ['train', 'evaluate', 'predict', 'export'], 'What to do.')
WORKDIR = flags.DEFINE_string('workdir', None, 'train: folder of checkpoints, logs and results.')
CHECKPOINT = flags.DEFINE_string(
  'checkpoint',
  None,
  'evaluate, predict, export: a workdir (best step of its last stage that makes captions) or step '
  'folder; several, with commas between, caption together (not exported).',
)
WEIGHTS = flags.DEFINE_list(
  'weights', None, 'evaluate, predict: a weight for each of several checkpoints; default: equal.'
)
FALLBACK = flags.DEFINE_string(
  'fallback', None, 'evaluate: a checkpoint that captions videos without the features of the first.'
)
DATA = flags.DEFINE_string('data', None, 'evaluate: data set folder; default: the one trained on.')
SPLIT = flags.DEFINE_string('split', 'test', 'evaluate: split of the data set.')
OUTPUT = flags.DEFINE_string(
  'output',
  None,
  'evaluate: results; default WORKDIR/eval/SPLIT of the last stage, WORKDIR/eval/STAGE/SPLIT of '
  'others.',
)
INPUTS = flags.DEFINE_string(
  'inputs',
  None,
  'predict: videos, pictures, or features of one stream, and folders of them, or NAME=FEATURES,… '
  'for each.',
)
PICTURES = flags.DEFINE_enum(
  'pictures',
  'auto',
  ['auto', 'frames', 'single', 'ignore'],
  'predict: pictures in a folder are the frames of one video, single pictures, or ignored; auto: '
  'frames where their names are numbered.',
)
FRAME_RATE = flags.DEFINE_string(
  'frame_rate', None, 'predict: frames a second of videos whose frames are pictures.'
)
OUT = flags.DEFINE_string('out', None, 'export: a new folder; see docs/export.md.')
DECODE = flags.DEFINE_multi_string(
  'decode',
  [],
  'evaluate, predict, export: changes a decoding setting, e.g. --decode=beam=3. Repeatable.',
)
COORDINATOR = flags.DEFINE_string(
  'coordinator', None, 'With several processes: HOST:PORT that process 0 listens on.'
)
NUM_PROCESSES = flags.DEFINE_integer(
  'num_processes',
  None,
  'Number of processes, if the environment does not define it.',
  lower_bound=1,
)
PROCESS_ID = flags.DEFINE_integer(
  'process_id', None, 'Number of this process, from 0.', lower_bound=0
)
PEER_TIMEOUT = flags.DEFINE_float(
  'peer_timeout', 60.0, 'Seconds after which all processes end when one is lost.', lower_bound=2.0
)
PROFILE = flags.DEFINE_string(
  'profile', None, 'train: FIRST:LAST, writes a trace of these steps to WORKDIR/profile.'
)
START_TIMEOUT = flags.DEFINE_float(
  'start_timeout', 300.0, 'Seconds to wait for all processes to start.', lower_bound=1.0
)


# The flags that each mode needs, and those that it reads too.
_NEEDED = {
  'train': (CONFIG, WORKDIR),
  'evaluate': (CHECKPOINT,),
  'predict': (CHECKPOINT, INPUTS),
  'export': (CHECKPOINT, OUT),
}
_READ = {
  'train': (PROFILE, PRINT_CONFIG),
  'evaluate': (WEIGHTS, FALLBACK, DATA, SPLIT, OUTPUT, DECODE),
  'predict': (WEIGHTS, DECODE, PICTURES, FRAME_RATE),
  'export': (WEIGHTS, DECODE),  # export accepts --weights to report that it takes one checkpoint
}


_OF_CHECKPOINT = {
  'config': 'the checkpoint has its own; decoding is changed by --decode=KEY=VALUE',
  'workdir': 'name the run with --checkpoint',
}
# What to use instead of a flag that a mode does not read.
_INSTEAD = {
  'train': {
    'data': 'name the data set with --config.data.dir',
    'decode': 'set --config.decode.KEY',
    'checkpoint': 'start from another run with --config.train.init_from',
  },
  'evaluate': {**_OF_CHECKPOINT, 'out': 'name the folder with --output'},
  'predict': _OF_CHECKPOINT,
  'export': {**_OF_CHECKPOINT, 'output': 'name the folder with --out'},
}


def check() -> None:
  """UserError for a flag that the mode needs and lacks, or has and does not read."""
  mode = MODE.value
  for flag in (CONFIG,) if prints_config() else _NEEDED[mode]:
    required(flag)
  reads = {m: [flag.name for flag in (*_NEEDED[m], *_READ[m])] for m in _READ}
  for name in sorted({*itertools.chain(*reads.values())} - {*reads[mode]}):
    if flags.FLAGS[name].present:
      modes = ' and '.join(m for m, names in reads.items() if name in names)
      hint = _INSTEAD[mode].get(name, 'leave it out')
      raise UserError(f'--{name} is for --mode={modes}, not for {mode}: {hint}')


def prints_config() -> bool:
  """Whether the config is to be printed instead of trained."""
  return MODE.value == 'train' and PRINT_CONFIG.value


def required(flag: flags.FlagHolder):
  """The flag's value; UserError where it is not given."""
  if flag.value is None:
    raise UserError(f'--mode={MODE.value} needs --{flag.name}; see --help')
  return flag.value


def weights() -> list[float] | None:
  """--weights as numbers; UserError where they are none."""
  given = WEIGHTS.value
  try:
    return [float(weight) for weight in given] if given else None
  except ValueError:
    raise UserError(f'--weights={",".join(given or ())}: not numbers') from None


def process_flags() -> tuple[str | None, int | None, int | None]:
  """--coordinator, --num_processes and --process_id, as ``cluster.find_process`` takes them."""
  return COORDINATOR.value, NUM_PROCESSES.value, PROCESS_ID.value


def parse(argv: list[str]) -> list[str]:
  """Parses all flags; returns the other arguments.

  Exits with 1 where they can't be parsed, with 0 after --help.

  Args:
    argv: with the program's name in front.
  """
  try:
    rest = flags.FLAGS(argv)
    config = flags.FLAGS['config'].value
    if config is not None:
      config.seed  # noqa: B018  ml_collections reports a missing file when the config is used
    return rest
  except SystemExit:  # after --help, which absl counts as a failure
    sys.exit(0)
  except OSError as error:
    sys.exit(f'error: --config: {_last_line(error)}')
  except flags.Error as error:
    # The message of an error in a config file is a traceback, whose last line is the error.
    sys.exit('error: ' + re.sub(r'^[a-z_.]+ConfigError: ', '--config: ', _last_line(error)))
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    if problem := _unknown_key_in_file(error):
      sys.exit(f'error: --config: {problem}')
    if not (problems := _unknown_keys(argv)):
      raise
    sys.exit(f'error: {"; ".join(problems)}')


def _unknown_key_in_file(error: Exception) -> str:
  """A message about a key that a config file sets and ``configs/common.py`` lacks; '' if none."""
  found = re.search(r'Key "(\w+)" does not exist and cannot be added', str(error))
  trace = traceback.extract_tb(error.__traceback__)
  frames = [f for f in trace if 'site-packages' not in f.filename and f.filename != __file__]
  if not found or not any(frame.name == 'get_config' for frame in frames):
    return ''
  near = re.findall(r'Did you mean "(\w+)"', str(error))
  hint = f'did you mean {near[-1]}?' if near else 'configs/common.py explains them all'
  at = f'{frames[-1].filename}, line {frames[-1].lineno}'
  return f'{at}: there is no key {found[1]!r} in this section; {hint}'


# Messages of int() and float(), in words for users who don't write Python.
_PLAIN = {
  r"invalid literal for int\(\) with base 10: '.*'": 'not a whole number',
  r"could not convert string to float: '.*'": 'not a number',
  r"\('Non-boolean argument to boolean flag', '.*'\)": 'neither true nor false',
}


def _last_line(error: Exception) -> str:
  line = str(error).strip().splitlines()[-1].strip()
  for words, plain in _PLAIN.items():
    line = re.sub(words, plain, line)
  return line


def _unknown_keys(argv: list[str]) -> list[str]:
  """A message for each --config.KEY that the config file lacks."""
  text = '\n'.join(argv)
  files = re.findall(r'^--?config[=\n](.+)', text, re.MULTILINE)
  known = _keys(flags.FLAGS['config'].parser.parse(files[-1])) if files else []
  problems = []
  for key in re.findall(r'^--?(?:no)?config\.([^=\n]+)', text, re.MULTILINE):
    if not known or key in known:
      continue
    near = near_keys(key, known)
    hint = f'did you mean {" or ".join(near)}?' if near else 'configs/common.py explains them all'
    problems.append(f'--config.{key}: there is no such key; {hint}')
  return problems


def _keys(config: ConfigDict, prefix: str = '') -> list[str]:
  """Dotted names of all values and sections."""
  keys = []
  for key, value in config.items():
    keys.append(prefix + key)
    if isinstance(value, ConfigDict):
      keys += _keys(value, f'{prefix}{key}.')
  return keys
