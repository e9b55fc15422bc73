"""The help of ``vidcap train`` and the other modes, from the definitions of the flags."""

import re
import textwrap

from absl import flags

from vidcap_jax.cli import flags as command_line
from vidcap_jax.program_name import COMMAND

WIDTH = 100
METAVARS = {
  'checkpoint': 'DIR[,DIR]',
  'compile_timeout': 'SECONDS',
  'config': 'FILE[:VARIANT]',
  'coordinator': 'HOST:PORT',
  'data': 'DIR',
  'decode': 'KEY=VALUE',
  'embedding_model': 'DIR',
  'fallback': 'DIR',
  'frame_rate': 'N',
  'inputs': 'PATH[,PATH]',
  'num_processes': 'N',
  'output': 'DIR',
  'peer_timeout': 'SECONDS',
  'process_id': 'N',
  'profile': 'FIRST:LAST',
  'programs': 'NAME[,NAME]',
  'reports': 'DIR',
  'split': 'NAME',
  'stage': 'NAME',
  'stall_timeout': 'SECONDS',
  'start_timeout': 'SECONDS',
  'topology': 'CHIP:SHAPE',
  'videos': 'DIR',
  'weights': 'W,W',
  'workdir': 'DIR',
}
_ONE_CHECKPOINT = ('export', 'card')  # modes that refuse an ensemble
ABOUT = {
  'train': 'Trains the stages of a config. The same command, started again, resumes where it '
  'stopped. Any key of the config can be changed by a flag, --config.KEY=VALUE.',
  'evaluate': 'Captions a split of a data set with a checkpoint and scores the captions, beside '
  'those of the best constant caption.',
  'predict': 'Captions video files, pictures or features with a checkpoint, and prints a JSON line '
  'for each video.',
  'export': 'Writes the decoder of a checkpoint for programs that have JAX but not this project.',
  'compile': "Compiles a run's programs for chips that are not there, and reports memory, time and "
  'what devices exchange.',
  'card': 'Writes a page about a run as Markdown: model, data, scores with 95 % intervals, what it '
  'is not good at, training, and how to use it. Its captions are those of the last evaluation.',
}
EXAMPLES = {
  'card': ('--checkpoint=runs/mine', '--checkpoint=runs/mine --split=val --output=mine.md'),
  'train': (
    '--config=configs/quickstart.py:tiny --workdir=runs/first',
    '--config=configs/msrvtt1000.py --config.data.dir=data/mine --workdir=runs/mine '
    '--config.train.epochs=10 --config.optimizer.learning_rate=1e-4',
  ),
  'evaluate': (
    '--checkpoint=runs/mine --split=test',
    '--checkpoint=runs/mine --split=val --report --videos=clips',
    '--checkpoint=runs/seed_0,runs/seed_1 --output=ensemble --decode=beam=3',
  ),
  'predict': (
    '--checkpoint=runs/mine --inputs=clip.mp4,more/',
    '--checkpoint=runs/mine --inputs=image=clip.npy,motion=clip_motion.npy --decode=n_best=3',
  ),
  'export': ('--checkpoint=runs/mine --output=mine.export',),
  'compile': (
    '--config=configs/msrvtt1000.py --topology=v5e:2x4',
    '--config=configs/vatex_fusion.py --topology=h100:8 --output=programs --batch=fit',
  ),
}


def text(mode: str) -> str:
  """The help of a mode: what it does, examples, and every flag that it reads."""
  needed = command_line.NEEDED[mode]
  usage = [usage_of(flags.FLAGS[flag.name], mode) for flag in needed]
  parts = [
    f'usage: {COMMAND} {mode} {" ".join(usage)} [flags]',
    textwrap.fill(ABOUT[mode], WIDTH),
    '\n'.join(['examples:', *map(_example(mode), EXAMPLES[mode])]),
    _table('needed', mode, needed),
    _table('flags', mode, command_line.READ[mode]),
  ]
  if mode in command_line.JOB_MODES:
    parts.append(_table('jobs of several processes', mode, command_line.JOB_FLAGS))
  if mode in ('train', 'compile'):
    parts.append(
      f'The keys of a config with their values and meanings: {COMMAND} train --config=FILE --help'
    )
  return '\n\n'.join(parts)


def _example(mode: str):
  indent = f'  {COMMAND} {mode} '

  def wrap(arguments: str) -> str:
    lines = textwrap.wrap(
      arguments, WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False
    )
    return indent + ' \\\n      '.join(lines)

  return wrap


def _table(title: str, mode: str, holders) -> str:
  """The flags with their explanations for a mode, in two columns."""
  explained = [(flags.FLAGS[h.name], flag_text(flags.FLAGS[h.name].help, mode)) for h in holders]
  rows = [
    (usage_of(flag, mode), text.removesuffix('.') + _default(flag))
    for flag, text in explained
    if text
  ]
  width = max(len(usage) for usage, _ in rows) + 4
  lines = [f'{title}:']
  for usage, explanation in rows:
    wrapped = textwrap.wrap(explanation, WIDTH - width)
    lines.append(f'  {usage:{width - 2}}{wrapped[0]}')
    lines += [' ' * width + line for line in wrapped[1:]]
  return '\n'.join(lines)


def usage_of(flag: flags.Flag, mode: str = '') -> str:
  """A flag as it is typed: ``--effort=default|low``, ``--workdir=DIR``, ``--print_config``.

  Args:
    flag: the flag.
    mode: the mode that reads it; '' where that makes no difference.
  """
  if flag.name == 'checkpoint' and mode in _ONE_CHECKPOINT:
    return f'--{flag.name}=DIR'
  if flag.boolean:
    return f'--{flag.name}'
  return f'--{flag.name}={METAVARS.get(flag.name) or "|".join(choices(flag))}'


def choices(flag: flags.Flag) -> list[str]:
  """The values that a flag takes, if they are listed."""
  return list(getattr(flag.parser, 'enum_values', []))


def flag_text(explanation: str, mode: str) -> str:
  """The part of a flag's explanation that is about a mode; '' where it has none.

  Args:
    explanation: parts that begin with the modes that they are about, ``evaluate, predict: …``; or
      one text for all modes.
    mode: the mode.
  """
  names = '|'.join(command_line.NEEDED)
  explanation = re.sub(r'^<[\w|]+>: ', '', explanation)  # absl adds the values of an enum …
  explanation = re.sub(r';\s+repeat this option .*', '', explanation)  # … and a line for a list
  parts = re.split(rf'(?:^|(?<=\.)\s)((?:{names})(?:, (?:{names}))*): ', explanation)
  common, *rest = parts
  for modes, about in zip(rest[::2], rest[1::2], strict=True):
    if mode in modes.split(', '):
      return about
  return common


def _default(flag: flags.Flag) -> str:
  """The default, where it is a value and the explanation does not state it."""
  if flag.boolean or flag.default in (None, '', []) or 'default' in flag.help.lower():
    return ''
  return f' (default: {flag.default})'
