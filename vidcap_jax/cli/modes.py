"""The function of each --mode."""

import functools
import pathlib
import sys
from collections.abc import Sequence

import jax
from absl import flags
from etils import epath
from jax.sharding import Mesh
from ml_collections import config_flags

from vidcap_jax import files
from vidcap_jax.api import training
from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.cli import flags as command_line
from vidcap_jax.cli.flags import required
from vidcap_jax.cli.print_config import config_text
from vidcap_jax.cli.restart import restart_advice
from vidcap_jax.compilation import command
from vidcap_jax.compilation.jobs import Selection
from vidcap_jax.distributed import runtime
from vidcap_jax.distributed.mesh import is_main, layout, make_mesh
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import evaluate, results
from vidcap_jax.inference import export, predict
from vidcap_jax.inference.members import find_members, restore_members
from vidcap_jax.reporting import evaluations
from vidcap_jax.reporting import folder as report_folder
from vidcap_jax.reporting import report as reporting
from vidcap_jax.reporting.settings import FOLDER as REPORT_FOLDER
from vidcap_jax.reporting.settings import Options
from vidcap_jax.studies import card
from vidcap_jax.training import train
from vidcap_jax.training.ledger import process_began


def train_mode() -> int:
  """Trains all stages; returns 143 after SIGTERM, the exit code that shells use for it."""
  config, workdir = required(command_line.CONFIG), epath.Path(required(command_line.WORKDIR))
  config.log.profile = command_line.PROFILE.value or config.log.profile
  source = config_flags.get_config_filename(flags.FLAGS[command_line.CONFIG.name])
  try:
    training.run(config, workdir, source, process_began())
  except train.Preempted as stopped:
    print(f'{stopped}; {restart_advice(jax.process_count())}', file=sys.stderr)
    return 128 + stopped.signal
  return 0


def print_config_mode() -> int:
  """Prints every key of the config, its value and its meaning."""
  config = required(command_line.CONFIG)
  config.source = config_flags.get_config_filename(flags.FLAGS[command_line.CONFIG.name])
  print(config_text(config))
  return 0


def compile_mode() -> int:
  """Compiles a run's programs for a topology; returns 1 unless all compile and fit."""
  config = required(command_line.CONFIG)
  config.source = config_flags.get_config_filename(flags.FLAGS[command_line.CONFIG.name])
  reports = command_line.REPORTS.value
  selection = Selection(
    stage=command_line.STAGE.value,
    programs=command_line.PROGRAMS.value,
    data=command_line.DATA.value or '',
  )
  options = command.Options(
    topology=required(command_line.TOPOLOGY),
    low_effort=command_line.EFFORT.value == 'low',
    fit_batch=command_line.BATCH.value == 'fit',
    timeout=command_line.COMPILE_TIMEOUT.value,
    output=command_line.OUTPUT.value or '',
    reports=command.default_reports() if reports is None else reports,
  )
  log = functools.partial(print, flush=True)
  return 0 if command.compile_run(config, selection, options, log) else 1


def evaluate_mode() -> int:
  """Captions and scores a split."""
  paths, weights = _checkpoints()
  output = command_line.OUTPUT.value
  evaluate.require_output(len(paths), output)
  given = command_line.FALLBACK.value
  path = restore.find_checkpoint(given, '--fallback') if given else None
  _check_report()
  mesh = _mesh()
  if output and is_main():
    files.check_output('--output', output, folder=True)
  first, *others = _restored(paths, mesh)
  _check_report_of(first, output)
  fallback = restore.restore(path, mesh, command_line.DECODE.value) if path else None
  data, split = command_line.DATA.value, command_line.SPLIT.value
  programs = {flag.name: flag.value for flag in command_line.SCORING}
  report, folder = evaluate.evaluate_command(
    first, data, split, output, fallback, others, weights, programs
  )
  if is_main():
    shown = ' + '.join(str(path) for path in paths)
    print(f'{split}, {shown}: {results.summary(report)}\nwritten to {folder}', flush=True)
    if command_line.REPORT.value:
      options = Options(data=data, videos=command_line.VIDEOS.value)
      log = functools.partial(print, file=sys.stderr, flush=True)
      evaluation = evaluations.read(pathlib.Path(folder), '--output')
      print(f'report: {reporting.write(evaluation, options, log, (first, *others))}', flush=True)
  return 0


def _check_report() -> None:
  """Checks the flags of --report before the work starts."""
  videos = command_line.VIDEOS.value
  if videos is not None:
    files.check_input('--videos', videos, 'a folder of videos, pictures or frames', 'folder')
    if not command_line.REPORT.value:
      raise UserError(f'--videos={videos}: read by --report, which is not given')


def _check_report_of(first: Restored, output: str | None) -> None:
  """Checks that the report of a checkpoint's captions can be written, before it captions."""
  if not command_line.REPORT.value:
    return
  restore.require_captioner(first)
  place = epath.Path(output) if output else results.folder_of(first) / command_line.SPLIT.value
  if not files.is_local(place):
    raise UserError(f'--report: {place} is not on a disk of this machine; give --output=DIR')
  if is_main():
    report_folder.check(pathlib.Path(place) / REPORT_FOLDER, '--report')


def predict_mode() -> int:
  """Captions videos or feature files; returns 1 if some of them could not be captioned."""
  paths, weights = _checkpoints()
  first, *others = _restored(paths, _mesh())
  return predict.predict(
    first,
    required(command_line.INPUTS),
    others,
    weights,
    command_line.PICTURES.value,
    command_line.FRAME_RATE.value,
  )


def export_mode() -> int:
  """Exports the decoder of a checkpoint for other programs."""
  _require_one_process('export')
  paths, _ = _checkpoints()
  if len(paths) > 1:
    raise UserError('--mode=export takes one checkpoint, not an ensemble')
  (first,) = _restored(paths, _mesh())
  export.export(first, pathlib.Path(required(command_line.OUTPUT)))
  return 0


def card_mode() -> int:
  """Writes the page of a run."""
  _require_one_process('card')
  paths, _ = _checkpoints()
  if len(paths) > 1:
    raise UserError('--mode=card takes one checkpoint, not an ensemble')
  given, data = command_line.OUTPUT.value, command_line.DATA.value
  split = command_line.SPLIT.value if command_line.SPLIT.present else None
  if given is not None:
    files.check_output('--output', required(command_line.OUTPUT))
  (restored,) = _restored(paths, _mesh())
  log = functools.partial(print, file=sys.stderr, flush=True)
  print(card.write(restored, data, split, given, log))
  return 0


def _require_one_process(mode: str) -> None:
  """UserError in a job of several processes, which would all write the same files."""
  if jax.process_count() > 1:
    raise UserError(
      f'--mode={mode} runs in one process, not in {jax.process_count()}: start it once, outside '
      'the job'
    )


def _mesh() -> Mesh:
  """A mesh of all devices; it is logged to stderr, as stdout may be for captions alone."""
  mesh = make_mesh()
  if is_main() and jax.process_count() > 1:
    print(layout(mesh), file=sys.stderr, flush=True)
  return mesh


def _checkpoints() -> tuple[list[epath.Path], list[float] | None]:
  """The step folders of --checkpoint and their --weights, checked before any is read."""
  weights = command_line.weights()
  return find_members(required(command_line.CHECKPOINT).split(','), weights), weights


def _restored(paths: Sequence[epath.Path], mesh: Mesh) -> list[Restored]:
  """Restores the checkpoints; of an ensemble, the settings of the first one apply."""
  members = restore_members(paths, mesh, command_line.DECODE.value)
  runtime.apply(runtime.settings_of_checkpoint(members[0].config))
  return members


RUN = {
  'train': train_mode,
  'evaluate': evaluate_mode,
  'predict': predict_mode,
  'export': export_mode,
  'compile': compile_mode,
  'card': card_mode,
}

# The flag that names a mode's output folder.
RESULTS = {
  'train': '--workdir',
  'evaluate': '--output',
  'predict': None,
  'export': '--output',
  'compile': '--output',
  'card': '--output',
}
