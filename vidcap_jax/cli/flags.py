"""The flags, which of them each mode reads, and their checks."""

import itertools
import re
import sys

from absl import flags
from ml_collections import ConfigDict, config_flags

from vidcap_jax import config_files
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation.programs import CHOICES, KEYS
from vidcap_jax.program_name import COMMAND, started_by_vidcap
from vidcap_jax.training import section_defaults


def given_keys(argv: list[str]) -> dict[str, str]:
  """Key -> value of each --config.KEY=VALUE; '' for a value that is an argument of its own."""
  given = re.findall(r'^--?(?:no)?config\.([^=\n]+)=?(.*)', '\n'.join(argv), re.MULTILINE)
  return dict(given)


class _ConfigParser(flags.ArgumentParser):
  """Loads a config file. ml_collections then adds a flag for each --config.KEY given."""

  name = 'config'

  def parse(self, argument: str) -> ConfigDict:
    config = config_files.load_config(argument)
    section_defaults.add(config, given_keys(sys.argv))
    return config

  def flag_type(self) -> str:
    return 'config file'


CONFIG = config_flags.DEFINE_config_file(
  'config',
  None,
  'train, compile: config file; a variant after a colon, e.g. configs/quickstart.py:runlocal.',
)
flags.FLAGS['config'].parser = _ConfigParser()  # its own reports errors with a traceback
PRINT_CONFIG = flags.DEFINE_bool(
  'print_config',
  False,
  'train: prints every key of --config with its value and its meaning, model, objective and stages '
  'included, and ends; nothing else is needed.',
)
MODE = flags.DEFINE_enum(
  'mode', 'train', ['train', 'evaluate', 'predict', 'export', 'compile', 'card'], 'What to do.'
)
WORKDIR = flags.DEFINE_string('workdir', None, 'train: folder of checkpoints, logs and results.')
CHECKPOINT = flags.DEFINE_string(
  'checkpoint',
  None,
  'evaluate, predict, export, card: a workdir (best step of its last stage that makes captions) or '
  'step folder; several, with commas between, caption together (not export, card).',
)
WEIGHTS = flags.DEFINE_list(
  'weights', None, 'evaluate, predict: a weight for each of several checkpoints; default: equal.'
)
FALLBACK = flags.DEFINE_string(
  'fallback', None, 'evaluate: a checkpoint that captions videos without the features of the first.'
)
DATA = flags.DEFINE_string(
  'data',
  None,
  'evaluate, card: data set folder; default: the one trained on. compile: sizes are those of this '
  "data set; default: those of the config file's STREAMS and VOCABULARY.",
)
SPLIT = flags.DEFINE_string(
  'split',
  'test',
  'evaluate: split of the data set. card: split whose worst captions are shown; default: test, or '
  'another that was evaluated.',
)
OUTPUT = flags.DEFINE_string(
  'output',
  None,
  'evaluate: results; default WORKDIR/eval/SPLIT of the last stage, WORKDIR/eval/STAGE/SPLIT of '
  'others. export: a new folder; see docs/export.md. compile: folder for the text of each program '
  'and for report.json; default: none. card: Markdown file; default WORKDIR/card.md.',
)
flags.DEFINE_alias('out', 'output')  # the name that export had
REPORT = flags.DEFINE_bool(
  'report',
  False,
  'evaluate: also writes pages about the scores and each video, to the folder report in the '
  'results; see docs/report.md.',
)
VIDEOS = flags.DEFINE_string(
  'videos',
  None,
  'evaluate: folder of the video files, pictures or frames that --report shows, named by id.',
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
DECODE = flags.DEFINE_multi_string(
  'decode',
  [],
  'evaluate, predict, export: changes a decoding setting, e.g. --decode=beam=3. Repeatable.',
)
TOKENIZER, METEOR, SCORERS = (
  flags.DEFINE_enum(
    name,
    None,
    CHOICES[name],
    f"evaluate: what computes {what}, with the same values; default: the checkpoint's "
    f'config.eval.{name}.',
  )
  for name, what in (
    ('tokenizer', 'PTB tokens'),
    ('meteor', 'METEOR'),
    ('scorers', 'BLEU, ROUGE-L and CIDEr'),
  )
)
EMBEDDING_MODEL = flags.DEFINE_string(
  'embedding_model',
  None,
  "evaluate: folder of the encoder of RefEmbedding and BERTScore; default: the checkpoint's "
  'config.eval.embedding_model.',
)
SCORING = (TOKENIZER, METEOR, SCORERS, EMBEDDING_MODEL)  # the keys of ``programs.KEYS``
TOPOLOGY = flags.DEFINE_string(
  'topology',
  None,
  'compile: chips to compile for, which need not be there, e.g. v5e:2x4, v4:2x2x4, h100:8, or '
  '2xv5e:2x4 for two slices.',
)
STAGE = flags.DEFINE_string('stage', '', 'compile: only this stage.')
PROGRAMS = flags.DEFINE_list(
  'programs',
  [],
  'compile: step, draw (samples for rewards from the host), greedy, beam, sample, embed (of an '
  'embedding), choose (of fusion), key_frames; default: those that the run compiles.',
)
EFFORT = flags.DEFINE_enum(
  'effort',
  'default',
  ['default', 'low'],
  "compile: low takes a third of the compiler's time, for a slower program.",
)
BATCH = flags.DEFINE_enum(
  'batch', None, ['fit'], 'compile: fit finds the largest batch a chip that fits, by compiling.'
)
COMPILE_TIMEOUT = flags.DEFINE_float(
  'compile_timeout', 3600.0, 'compile: seconds after which a program is given up.', lower_bound=1.0
)
REPORTS = flags.DEFINE_string(
  'reports',
  None,
  "compile: folder where reports of programs are kept between runs; '' for none; default: "
  '~/.cache/vidcap_jax/compiled.',
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
STALL_TIMEOUT = flags.DEFINE_float(
  'stall_timeout',
  1800.0,
  'Seconds without a step in training after which all processes end; saving may take 4 times as '
  'long, compiling and evaluating 12 times. 0: any time.',
  lower_bound=0.0,
)
PROFILE = flags.DEFINE_string(
  'profile', None, 'train: FIRST:LAST, writes a trace of these steps to WORKDIR/profile.'
)
START_TIMEOUT = flags.DEFINE_float(
  'start_timeout', 300.0, 'Seconds to wait for all processes to start.', lower_bound=1.0
)


# The flags that name files and may not be empty.
PATHS = (WORKDIR, CHECKPOINT, FALLBACK, DATA, OUTPUT, INPUTS, VIDEOS)
# The flags that each mode needs, and those that it reads too.
NEEDED = {
  'train': (CONFIG, WORKDIR),
  'evaluate': (CHECKPOINT,),
  'predict': (CHECKPOINT, INPUTS),
  'export': (CHECKPOINT, OUTPUT),
  'compile': (CONFIG, TOPOLOGY),
  'card': (CHECKPOINT,),
}
READ = {
  'train': (PROFILE, PRINT_CONFIG),
  'evaluate': (
    *(WEIGHTS, FALLBACK, DATA, SPLIT, OUTPUT, DECODE, REPORT, VIDEOS),
    *SCORING,
  ),
  'predict': (WEIGHTS, DECODE, PICTURES, FRAME_RATE),
  'compile': (DATA, OUTPUT, STAGE, PROGRAMS, EFFORT, BATCH, COMPILE_TIMEOUT, REPORTS),
  'card': (DATA, SPLIT, OUTPUT),
  'export': (WEIGHTS, DECODE),  # export accepts --weights to report that it takes one checkpoint
}
# Modes that several processes run together, and the flags that connect these.
JOB_MODES = ('train', 'evaluate', 'predict')
JOB_FLAGS = (
  *(COORDINATOR, NUM_PROCESSES, PROCESS_ID),
  *(PEER_TIMEOUT, START_TIMEOUT, STALL_TIMEOUT),
)

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
    'output': 'name the folder with --workdir',
    **{name: f'set --config.eval.{name}' for name in KEYS},
  },
  'evaluate': _OF_CHECKPOINT,
  'predict': {**_OF_CHECKPOINT, 'output': 'captions are printed, so redirect them: > FILE'},
  'compile': {'workdir': 'nothing is trained', 'decode': 'set --config.decode.KEY'},
  'export': _OF_CHECKPOINT,
  'card': {**_OF_CHECKPOINT, 'decode': 'its scores are those of the last evaluation'},
}


def check() -> None:
  """UserError for a flag that the mode needs and lacks, or does not read, or with an empty path."""
  mode = MODE.value
  for flag in PATHS:
    if flag.value == '':  # as of an unset shell variable
      needed = flag.name in {each.name for each in NEEDED[mode]}
      otherwise = '' if needed else f', or leave --{flag.name} out'
      raise UserError(f'--{flag.name}=: an empty path; give one{otherwise}')
  for flag in (CONFIG,) if prints_config() else NEEDED[mode]:
    required(flag)
  reads = {m: [flag.name for flag in (*NEEDED[m], *READ[m])] for m in READ}
  for name in sorted({*itertools.chain(*reads.values())} - {*reads[mode]}):
    if flags.FLAGS[name].present:
      *others, last = [m for m, names in reads.items() if name in names]
      modes = f'{", ".join(others)} and {last}' if others else last
      hint = _INSTEAD[mode].get(name, 'leave it out')
      raise UserError(f'--{name} is for {_mode_text(modes)}, not for {mode}: {hint}')


def unknown_argument(argument: str) -> str:
  """The message about an argument that is no flag, with the flag that it may belong to."""
  flag = {'train': CONFIG, 'compile': CONFIG, 'predict': INPUTS}.get(MODE.value, CHECKPOINT)
  given = flag.value is not None
  hint = 'flags look like --name=value' if given else f'did you mean --{flag.name}={argument}?'
  return f'unknown argument {argument!r}; {hint}'


def prints_config() -> bool:
  """Whether the config is to be printed instead of trained."""
  return MODE.value == 'train' and PRINT_CONFIG.value


def required(flag: flags.FlagHolder):
  """The flag's value; UserError where it is not given."""
  if flag.value is None:
    raise UserError(f'{_mode_text(MODE.value)} needs --{flag.name}; see --help')
  return flag.value


def _mode_text(mode: str) -> str:
  """How the user names a mode: ``--mode=train``, or ``vidcap train`` if that was typed."""
  return f'{COMMAND} {mode}' if started_by_vidcap() else f'--mode={mode}'


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
