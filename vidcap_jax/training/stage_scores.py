"""Scores of finished stages, and their spread over several seeds."""

import statistics
from collections.abc import Mapping

from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import config_diff
from vidcap_jax.checkpoints import init_from, restore
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.distributed.mesh import is_main
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import evaluate, results
from vidcap_jax.evaluation.programs import of_config
from vidcap_jax.files import read_json, write_json
from vidcap_jax.inference import rerank
from vidcap_jax.training.ledger import Ledger

# The scores whose spread over seeds is reported.
SEED_SCORES = ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr', 'rsum')


def evaluate_stage(
  config: ConfigDict,
  name: str,
  stage_config: ConfigDict,
  workdir: epath.Path,
  mesh: Mesh,
  ledger: Ledger,
) -> dict[str, dict]:
  """Scores a stage's best checkpoint on ``eval.splits``; splits scored before are read back.

  Args:
    config: the run's.
    name: of the stage.
    stage_config: the stage's own config.
    workdir: of the run.
    mesh: of all devices.
    ledger: measures the time.

  Returns:
    Split -> its report, see ``evaluate.evaluate``.
  """
  manifest = read_manifest(config.data.dir)
  folder = results.folder(name, config, workdir)
  fallback = fallback_of(stage_config, workdir)
  fusion = rerank.sources(stage_config, workdir) if stage_config.task == 'fuse' else None
  if fusion:
    path = fusion['runs'][0]
  else:
    path = str(restore.find_checkpoint(str(workdir / 'checkpoints' / name)))
  decode = None if fusion else config_diff.as_saved(stage_config.decode)
  reports = {}
  for split in config.eval.splits:
    if split not in manifest.splits:
      continue
    report = _saved_report(folder / split / 'metrics.json')
    # Another command may have scored the checkpoint on other data, or in another way.
    same = report.get('data', {}).get('hash') == manifest.hash
    same = same and (decode is None or report.get('decode', decode) == decode)
    if not same or _made_by(report) != (path, fallback and str(fallback), fusion, None):
      with ledger.measure('evaluating'):
        group = fusion and rerank.restore_group(fusion, stage_config.fuse.candidates, mesh)
        restored = group.members[0] if group else _restore(path, name, workdir, mesh)
        second = restore.restore(fallback, mesh) if fallback else None
        report = evaluate.evaluate(
          restored,
          config.data.dir,
          split,
          folder / split,
          second,
          group or None,
          of_config(stage_config.eval),
        )
      ledger.mark(f'scores of {name} on {split}')
    if is_main():
      line = f'[{name}] {split}, step {report["checkpoint_step"]}: {results.summary(report)}'
      print(line, flush=True)
    reports[split] = report
  return reports


def _made_by(report: Mapping) -> tuple:
  """The checkpoint, fallback, fusion and ensemble that a report is of."""
  fallback = report.get('fallback', {}).get('checkpoint')
  return (report.get('checkpoint'), fallback, report.get('fusion'), report.get('ensemble'))


def _restore(path: str, stage: str, workdir: epath.Path, mesh: Mesh) -> restore.Restored:
  try:
    return restore.restore(epath.Path(path), mesh)
  except DataError as error:
    raise DataError(
      f'{error}; stage {stage!r} is listed as finished: remove it from {workdir / "stages.json"}, '
      'and the same command trains it again from its last undamaged checkpoint'
    ) from error


def _saved_report(path: epath.Path) -> dict:
  """A report that was written before; {} where there is none, or a damaged one."""
  try:
    return read_json(path) if path.is_file() else {}
  except DataError:
    return {}


def fallback_of(config: ConfigDict, workdir: epath.Path) -> epath.Path | None:
  """The checkpoint that a stage's ``eval.fallback`` names; None where it is ''.

  Raises:
    DataError: no checkpoint there.
  """
  if not config.eval.fallback:
    return None
  return restore.find_checkpoint(
    init_from.source_of(config.eval.fallback, workdir), 'config.eval.fallback'
  )


def summarise_seeds(reports: Mapping[int, Mapping], workdir: epath.Path) -> dict[str, dict]:
  """Prints mean, deviation and values of each score over seeds, and writes them to seeds.json.

  Args:
    reports: seed -> split -> scores.
    workdir: of the run.

  Returns:
    Split -> score -> mean.
  """
  table: dict[str, dict] = {}
  for split in next(iter(reports.values())):
    for name in SEED_SCORES:
      values = [report[split][name] for report in reports.values() if name in report[split]]
      if not values:
        continue
      stdev = statistics.stdev(values) if len(values) > 1 else 0.0
      row = {'mean': statistics.mean(values), 'stdev': stdev, 'values': values}
      table.setdefault(split, {})[name] = row
      shown = ' '.join(f'{value:.4f}' for value in values)
      line = f'{row["mean"]:.4f} ± {stdev:.4f} over {len(values)} seeds ({shown})'
      print(f'{split} {name}: {line}', flush=True)
  write_json(workdir / 'seeds.json', {'seeds': list(reports), 'scores': table})
  return {split: {name: row['mean'] for name, row in rows.items()} for split, rows in table.items()}
