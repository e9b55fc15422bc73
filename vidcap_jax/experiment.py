"""A config's stages in order; then the scores. A finished stage is not run again."""

import json
import pathlib
import statistics

from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import distributed, evaluate
from vidcap_jax.data.schema import DataError, read_manifest
from vidcap_jax.train import train


def run(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> None:
  """Runs a config, once or once for each of ``config.seeds``.

  Raises:
    DataError: the workdir was made with another config, or data and config don't fit together.
  """
  if not config.seeds:
    run_one(config, workdir, mesh)
    return
  reports = {}
  for seed in config.seeds:
    one = config.copy_and_resolve_references()
    with one.unlocked():
      one.seed, one.seeds = seed, ()
      one.data.dir = prepare_data(config, workdir)  # one data set for all seeds
      one.data.recipe = ''
    reports[seed] = run_one(one, workdir / f'seed_{seed}', mesh)
  if distributed.is_main():
    summarise(reports, workdir)


def run_one(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> dict[str, dict]:
  """Runs the stages of a config in WORKDIR; returns the last stage's scores by split."""
  workdir.mkdir(parents=True, exist_ok=True)
  check_config(config, workdir)
  config = config.copy_and_resolve_references()
  with config.unlocked():
    config.data.dir = prepare_data(config, workdir)
  reports: dict[str, dict] = {}
  for stage in config.order:
    finished = evaluate.finished_stages(workdir)
    if stage not in finished:
      finished[stage] = train(stage_config(config, stage), stage, workdir, mesh)
      if distributed.is_main():
        _write_json(workdir / 'stages.json', finished)
      distributed.wait_for_all(f'stage {stage}')
    else:
      _say(f'[{stage}] finished before: best {config.eval.metric} {finished[stage]["best_score"]}')
    last = stage == config.order[-1]
    folder = workdir / 'eval' if last else workdir / 'eval' / stage
    reports = evaluate_stage(config, stage, workdir, folder, mesh)
  return reports


def evaluate_stage(
  config: ConfigDict, stage: str, workdir: pathlib.Path, folder: pathlib.Path, mesh: Mesh
) -> dict[str, dict]:
  """Scores a stage's best checkpoint on ``eval.splits``; splits scored before are read back."""
  manifest = read_manifest(config.data.dir)
  reports = {}
  for split in config.eval.splits:
    if split not in manifest.splits:
      continue
    done = folder / split / 'metrics.json'
    path = evaluate.find_checkpoint(str(workdir / 'checkpoints' / stage))
    report = json.loads(done.read_text()) if done.is_file() else None
    if report is None or report['checkpoint'] != str(path):
      restored = evaluate.restore(path, mesh)
      report = evaluate.evaluate(restored, config.data.dir, split, folder / split)
    if distributed.is_main():
      _say(f'[{stage}] {split}, step {report["checkpoint_step"]}: {evaluate.summary(report)}')
    reports[split] = report
  return reports


def stage_config(config: ConfigDict, stage: str) -> ConfigDict:
  """The config with what ``stages.STAGE`` changes put in.

  Raises:
    DataError: ``order`` names a stage that ``stages`` lacks, or a change names an unknown key.
  """
  if stage not in config.stages:
    raise DataError(
      f'config.order names stage {stage!r}; config.stages has: {", ".join(config.stages)}'
    )
  merged = config.copy_and_resolve_references()
  changes = config.stages[stage]
  try:
    merged.update(changes)
  except (KeyError, AttributeError, TypeError) as error:
    raise DataError(f'config.stages.{stage}: {error}') from None
  return merged


def prepare_data(config: ConfigDict, workdir: pathlib.Path) -> str:
  """The data set's folder; made under WORKDIR/data where the config has a recipe."""
  if config.data.dir:
    return config.data.dir
  if not config.data.recipe:
    raise DataError(
      'no data: give --config.data.dir=DIR, a folder written by python -m data_prep.build'
    )
  from data_prep import quickstart  # only where a recipe is asked for: it needs the extra `video`

  folder = workdir / 'data'
  if distributed.is_main():
    quickstart.prepare(
      folder,
      recipe=config.data.recipe,
      streams=dict(config.data.recipe_streams),
      videos=config.data.recipe_videos,
    )
  distributed.wait_for_all('data')
  return str(quickstart.data_set(folder))


def check_config(config: ConfigDict, workdir: pathlib.Path) -> None:
  """Saves the config in a new workdir; compares it with the saved one in an old.

  Raises:
    DataError: they differ; every differing key is listed.
  """
  path = workdir / 'config.json'
  ours = json.loads(json.dumps(config.to_dict()))
  if not path.is_file():
    if distributed.is_main():
      _write_json(path, ours)
    distributed.wait_for_all('config')
    return
  theirs = json.loads(path.read_text())
  flat_ours, flat_theirs = _flat(ours), _flat(theirs)
  keys = sorted(
    k for k in flat_ours.keys() | flat_theirs.keys() if flat_ours.get(k) != flat_theirs.get(k)
  )
  if keys:
    lines = '\n'.join(
      f'  config.{k}: {flat_theirs.get(k, "(absent)")!r} there, {flat_ours.get(k, "(absent)")!r} now'
      for k in keys
    )
    raise DataError(
      f'{workdir} was made with another config; use another --workdir or the same settings:\n{lines}'
    )


def summarise(reports: dict[int, dict], workdir: pathlib.Path) -> None:
  """Mean, deviation and range of each score over seeds, printed and written to seeds.json."""
  names = ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr')
  table: dict[str, dict] = {}
  for split in next(iter(reports.values())):
    for name in names:
      values = [report[split][name] for report in reports.values() if name in report[split]]
      if not values:
        continue
      spread = statistics.stdev(values) if len(values) > 1 else 0.0
      row = {'mean': statistics.mean(values), 'stdev': spread, 'values': values}
      table.setdefault(split, {})[name] = row
      each = ' '.join(f'{v:.4f}' for v in values)
      _say(f'{split} {name}: {row["mean"]:.4f} ± {spread:.4f} over {len(values)} seeds ({each})')
  _write_json(workdir / 'seeds.json', {'seeds': list(reports), 'scores': table})


def _flat(tree: dict, prefix: str = '') -> dict:
  flat = {}
  for key, value in tree.items():
    if isinstance(value, dict):
      flat |= _flat(value, f'{prefix}{key}.')
    else:
      flat[prefix + key] = value
  return flat


def _say(text: str) -> None:
  if distributed.is_main():
    print(text, flush=True)


def _write_json(path: pathlib.Path, data) -> None:
  partial = path.with_suffix('.partial')
  partial.write_text(json.dumps(data, indent=1) + '\n')
  partial.replace(path)
