"""Trains, evaluates and captions.

  python -m vidcap_jax.main --config=configs/msrvtt1000.py --config.data.dir=DIR --workdir=DIR
  python -m vidcap_jax.main --mode=evaluate --checkpoint=WORKDIR --data=DIR --split=test
  python -m vidcap_jax.main --mode=predict --checkpoint=WORKDIR --inputs=clip.mp4,more/
  python -m vidcap_jax.main --mode=export --checkpoint=WORKDIR --out=DIR

Started again with the same flags, training goes on where it was stopped. Any config key can be
changed by a flag, e.g. --config.train.epochs=3; configs/common.py explains each.

On several machines the same command is started on each; see docs/distributed.md.
"""

import os
import pathlib
import signal
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from vidcap_jax import cluster, command_line
from vidcap_jax.errors import UserError

_CONFIG = config_flags.DEFINE_config_file(
  'config', None, 'Config file; a variant after a colon, e.g. configs/quickstart.py:runlocal.'
)
_MODE = flags.DEFINE_enum(
  'mode', 'train', ['train', 'evaluate', 'predict', 'export'], 'What to do.'
)
_WORKDIR = flags.DEFINE_string('workdir', None, 'train: folder of checkpoints, logs and results.')
_CHECKPOINT = flags.DEFINE_string(
  'checkpoint',
  None,
  'evaluate, predict, export: a workdir (best step of its last stage that makes captions) or step '
  'folder; several, with commas between, caption together (not exported).',
)
_WEIGHTS = flags.DEFINE_list(
  'weights', None, 'evaluate, predict: a weight for each of several checkpoints; default: alike.'
)
_FALLBACK = flags.DEFINE_string(
  'fallback', None, 'evaluate: a checkpoint that captions videos without the features of the first.'
)
_DATA = flags.DEFINE_string('data', None, 'evaluate: data set folder; default: the one trained on.')
_SPLIT = flags.DEFINE_string('split', 'test', 'evaluate: split of the data set.')
_OUTPUT = flags.DEFINE_string('output', None, 'evaluate: results; default WORKDIR/eval/SPLIT.')
_INPUTS = flags.DEFINE_string(
  'inputs', None, 'predict: videos and folders of them, or NAME=FEATURES,… for each stream.'
)
_OUT = flags.DEFINE_string('out', None, 'export: a new folder; see docs/export.md.')
_DECODE = flags.DEFINE_multi_string(
  'decode',
  [],
  'evaluate, predict, export: changes a decoding setting, e.g. --decode=beam=3. Repeatable.',
)
_COORDINATOR = flags.DEFINE_string(
  'coordinator', None, 'Of several processes: HOST:PORT that process 0 listens on.'
)
_NUM_PROCESSES = flags.DEFINE_integer(
  'num_processes', None, 'How many there are, where the environment does not say.', lower_bound=1
)
_PROCESS_ID = flags.DEFINE_integer(
  'process_id', None, 'Which of them this is, from 0.', lower_bound=0
)
_PEER_TIMEOUT = flags.DEFINE_float(
  'peer_timeout', 60.0, 'Seconds within which all end when one is lost.', lower_bound=2.0
)
_PROFILE = flags.DEFINE_string(
  'profile', None, 'train: FIRST:LAST, writes a trace of these steps to WORKDIR/profile.'
)
_START_TIMEOUT = flags.DEFINE_float(
  'start_timeout', 300.0, 'Seconds to wait for all to start.', lower_bound=1.0
)


def _required(flag: flags.FlagHolder):
  if flag.value is None:
    raise UserError(f'--mode={_MODE.value} needs --{flag.name}; see --help')
  return flag.value


def _weights() -> list[float] | None:
  given = _WEIGHTS.value
  try:
    return [float(weight) for weight in given] if given else None
  except ValueError:
    raise UserError(f'--weights={",".join(given or ())}: not numbers') from None


# Looked for before anything heavy is imported.
_NEEDED = {
  'train': (_CONFIG, _WORKDIR),
  'evaluate': (_CHECKPOINT,),
  'predict': (_CHECKPOINT, _INPUTS),
  'export': (_CHECKPOINT, _OUT),
}


def _dispatch() -> int:
  """Runs the mode, with the other processes if there are any.

  Returns:
    The exit code: 0, 1 if predict failed on some input, 143 after SIGTERM.
  """
  for flag in _NEEDED[_MODE.value]:
    _required(flag)
  given = (_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value)
  place = cluster.find({**cluster.tpu_metadata(os.environ), **os.environ}, *given)
  from vidcap_jax import files, processes  # heavy: after --help

  code = 0
  with processes.joined(place, _PEER_TIMEOUT.value, _START_TIMEOUT.value), files.disk_errors():
    code = _run()
  return code


def _run() -> int:
  import jax
  from etils import epath

  from vidcap_jax import (
    distributed,
    evaluate,
    experiment,
    export,
    predict,
    restore,
    runtime,
    train,
  )

  if _MODE.value == 'train':
    config, workdir = _required(_CONFIG), epath.Path(_required(_WORKDIR))
    config.log.profile = _PROFILE.value or config.log.profile
    runtime.apply(config.runtime)
    config.source = config_flags.get_config_filename(flags.FLAGS[_CONFIG.name])
    try:
      experiment.run(config, workdir, distributed.make_mesh(config.mesh.data, config.mesh.model))
    except train.Preempted as stopped:
      print(stopped, file=sys.stderr)
      return 128 + stopped.signal  # as a shell reports it: stopped, not failed
    return 0
  paths = [restore.find_checkpoint(path) for path in _required(_CHECKPOINT).split(',')]
  mesh = distributed.make_mesh()
  if distributed.is_main() and jax.process_count() > 1:  # stdout may be for captions alone
    print(distributed.layout(mesh), file=sys.stderr, flush=True)
  first, *others = (restore.restore(path, mesh, _DECODE.value) for path in paths)
  runtime.apply(first.config.get('runtime', {}))
  if _MODE.value == 'export':
    if others:
      raise UserError('--mode=export takes one checkpoint; several together are not exported')
    export.export(first, pathlib.Path(_required(_OUT)))
    return 0
  weights = _weights()
  if weights and not others:
    raise UserError('--weights are of several checkpoints; there is one: leave them out')
  if _MODE.value == 'evaluate':
    second = _FALLBACK.value and restore.find_checkpoint(_FALLBACK.value, '--fallback')
    fallback = restore.restore(second, mesh, _DECODE.value) if second else None
    evaluate.evaluate_command(
      first, _DATA.value, _SPLIT.value, _OUTPUT.value, fallback, others, weights
    )
    return 0
  return predict.predict(first, _required(_INPUTS), others, weights)


def main(argv: list[str]) -> int:
  """The entry point; errors that the user can mend are printed without a traceback."""
  try:
    logging.set_verbosity(logging.WARNING)  # Orbax tells of each file it touches
    if argv[1:]:
      raise UserError(f'unknown argument {argv[1]!r}; flags look like --name=value')
    return _dispatch()
  except UserError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except BrokenPipeError:  # whoever read the captions has enough of them, e.g. head
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # no second one at exit
    return 0 if _MODE.value == 'predict' else 128 + signal.SIGPIPE  # as a shell reports it
  except KeyboardInterrupt:
    again = '; the same command goes on from the last checkpoint' if _MODE.value == 'train' else ''
    print(f'Ctrl-C: ended{again}', file=sys.stderr)
    return 130


if __name__ == '__main__':
  app.run(main, flags_parser=command_line.parse)
