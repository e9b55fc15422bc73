"""A config's stages in order; then the scores. A finished stage is not run again."""

import contextlib
import pathlib
import statistics
from collections.abc import Callable, Mapping
from typing import Protocol

from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import config_diff
from vidcap_jax.checkpoints import init_from, restore
from vidcap_jax.data import cache
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.distributed.mesh import is_main, wait_for_all
from vidcap_jax.errors import ConfigError, DataError, UserError
from vidcap_jax.evaluation import evaluate, results
from vidcap_jax.files import locked, read_json, wait_for, write_json
from vidcap_jax.inference import predict, rerank
from vidcap_jax.models import sharding
from vidcap_jax.training import key_frame_stage
from vidcap_jax.training.stage import set_up
from vidcap_jax.training.train import train

# What a stage does, by ``config.task``: (stage's config, its name, workdir, mesh) -> what is noted.
TASKS: Mapping[str, Callable[..., dict]] = {
  'train': train,
  'key_frames': key_frame_stage.choose,
  'fuse': rerank.prepare,
}


class Recipe(Protocol):
  """Makes a data set where the config names none, from clips that it renders itself."""

  def prepare(self, directory: epath.Path, streams: Mapping[str, str], videos: int) -> str:
    """Writes clips, captions and features below a folder; returns the data set's folder."""

  def clips(self, directory: epath.Path, split: str) -> list[pathlib.Path]:
    """The video files of a split."""

  def first_captions(self, directory: epath.Path) -> dict[str, str]:
    """A caption of each clip, by the name of its file."""


def run(config: ConfigDict, workdir: epath.Path, mesh: Mesh, recipe: Recipe | None = None) -> None:
  """Runs a config, once or once for each of ``config.seeds``.

  Args:
    config: see ``configs/common.py``.
    workdir: checkpoints, logs and results go there.
    mesh: of all devices.
    recipe: makes the data set where ``data.dir`` is not set.

  Raises:
    DataError: the workdir was made with another config, or data and config don't fit together.
    UserError: another process is training there.
  """
  with locked(workdir) if is_main() else contextlib.nullcontext():
    _run(config, workdir, mesh, recipe)


def _run(config: ConfigDict, workdir: epath.Path, mesh: Mesh, recipe: Recipe | None) -> None:
  if not config.seeds:
    run_one(config, workdir, mesh, recipe)
    return
  if wrong := [seed for seed in config.seeds if not isinstance(seed, int)]:
    raise ConfigError(f'config.seeds are whole numbers, e.g. --config.seeds=0,1,2; not {wrong}')
  if len(set(config.seeds)) < len(config.seeds):
    raise ConfigError(f'config.seeds={tuple(config.seeds)}: a seed is there twice')
  reports = {}
  for seed in config.seeds:
    one = config.copy_and_resolve_references()
    with one.unlocked():
      one.seed, one.seeds = seed, ()
      one.data.dir = prepare_data(config, workdir, recipe)  # one data set for all seeds
      one.data.recipe.videos = 0
    reports[seed] = run_one(one, workdir / f'seed_{seed}', mesh)
  if is_main():
    summarise(reports, workdir)


def run_one(
  config: ConfigDict, workdir: epath.Path, mesh: Mesh, recipe: Recipe | None = None
) -> dict[str, dict]:
  """Runs the stages of a config in WORKDIR; returns the last stage's scores by split."""
  workdir.mkdir(parents=True, exist_ok=True)
  check_config(config, workdir)
  check_sources(config, workdir)
  config = config.copy_and_resolve_references()
  rendered = not config.data.dir
  with config.unlocked():
    config.data.dir = prepare_data(config, workdir, recipe)
  reports: dict[str, dict[str, dict]] = {}  # stage -> split -> scores
  stages = {stage: stage_config(config, stage) for stage in config.order}
  check_stages(stages, mesh)
  scored = results.scored_stages(config)
  for stage, its in stages.items():
    finished = restore.finished_stages(workdir)
    wait_for_all(f'before {stage}')  # every process has looked before one writes
    if stage not in finished:
      finished[stage] = TASKS[its.task](its, stage, workdir, mesh)
      if is_main():
        write_json(workdir / 'stages.json', finished)
      wait_for_all(f'stage {stage}')
    else:
      _say(f'[{stage}] finished before' + _best(finished[stage], its.eval.metric))
    if stage not in scored:
      continue
    folder = results.folder(stage, config, workdir)
    reports[stage] = evaluate_stage(config, stage, workdir, folder, mesh)
  if len(reports) > 1:
    _say(results.stage_table(reports))
  if rendered and recipe and config.data.recipe.show:
    show_clips(config, workdir, mesh, recipe)
  if any(reports.values()):
    _say(
      f'results are in {workdir / "eval"}; to caption videos: python -m vidcap_jax.main '
      f'--mode=predict --checkpoint={workdir} --inputs=FILES'
    )
  return reports[scored[-1]] if scored else {}


def check_stages(stages: Mapping[str, ConfigDict], mesh: Mesh) -> None:
  """Whether data, model and settings of each fit together, before the first is trained.

  Raises:
    ConfigError, DataError: naming the stage.
  """
  for stage, its in stages.items():
    if its.task == 'train':
      try:
        set_up(its, mesh)
      except UserError as error:
        raise type(error)(f'stage {stage!r}: {error}') from None


def _best(noted: dict, metric: str) -> str:
  return f': best {metric} {noted["best_score"]}' if 'best_score' in noted else ''


def show_clips(config: ConfigDict, workdir: epath.Path, mesh: Mesh, recipe: Recipe) -> None:
  """Captions a few of the recipe's test clips from their video files, as a user would.

  What each of them shows is said first.
  """
  files = recipe.clips(workdir / 'data', 'test')[: config.data.recipe.show]
  restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh)
  shown = recipe.first_captions(workdir / 'data')
  _say(f'clips of {files[0].parent}, what they show, and what the model says:')
  for file in files:
    _say(f'{file.stem}: {shown[file.stem]}')
  predict.predict(restored, ','.join(str(file) for file in files))


def evaluate_stage(
  config: ConfigDict, stage: str, workdir: epath.Path, folder: epath.Path, mesh: Mesh
) -> dict[str, dict]:
  """Scores a stage's best checkpoint on ``eval.splits``; splits scored before are read back."""
  manifest, its = read_manifest(config.data.dir), stage_config(config, stage)
  second = fallback_of(its, workdir)
  fused = rerank.sources(its, workdir) if its.task == 'fuse' else None
  if fused:
    path = fused['runs'][0]
  else:
    path = str(restore.find_checkpoint(str(workdir / 'checkpoints' / stage)))
  reports = {}
  for split in config.eval.splits:
    if split not in manifest.splits:
      continue
    done = folder / split / 'metrics.json'
    report = _report_of(done)
    # Another command may have scored the checkpoint on other data, or in another way.
    decode = config_diff.as_saved(its.decode)
    same = report.get('data', {}).get('hash') == manifest.hash and (
      fused is not None or report.get('decode', decode) == decode
    )
    filled = report.get('fallback', {}).get('checkpoint')
    made_by = (report.get('checkpoint'), filled, report.get('fusion'), report.get('ensemble'))
    if not same or made_by != (path, second and str(second), fused, None):
      together = rerank.restore_group(fused, its.fuse.candidates, mesh) if fused else None
      try:
        restored = together.members[0] if together else restore.restore(epath.Path(path), mesh)
      except DataError as error:
        raise DataError(
          f'{error}; stage {stage!r} is noted as finished: take it out of '
          f'{workdir / "stages.json"}, and the same command trains it again from its last whole '
          'checkpoint'
        ) from error
      fallback = restore.restore(second, mesh) if second else None
      report = evaluate.evaluate(
        restored, config.data.dir, split, folder / split, fallback, together
      )
    if is_main():
      _say(f'[{stage}] {split}, step {report["checkpoint_step"]}: {results.summary(report)}')
    reports[split] = report
  return reports


def _report_of(path: epath.Path) -> dict:
  try:
    return read_json(path) if path.is_file() else {}
  except DataError:  # it is written anew
    return {}


def fallback_of(config: ConfigDict, workdir: epath.Path) -> epath.Path | None:
  """The checkpoint that ``eval.fallback`` of a stage means, if any.

  Raises:
    DataError: no checkpoint there.
  """
  if not config.eval.fallback:
    return None
  return restore.find_checkpoint(
    init_from.source_of(config.eval.fallback, workdir), 'config.eval.fallback'
  )


# Settings that name a stage, 'stage:NAME', and the task of the stages that they may name.
_SOURCES = {
  'train.init_from': 'train',
  'eval.fallback': 'train',
  'data.key_frames': 'key_frames',
  'fuse.embedding': 'train',
  'fuse.runs': 'train',
}


def check_sources(config: ConfigDict, workdir: epath.Path) -> None:
  """Whether what each stage starts from or falls back to will be there when it is trained.

  Raises:
    ConfigError: it is a stage that does not come before, or does something else.
    DataError: the fallback is a path without a checkpoint.
  """
  stages = {stage: stage_config(config, stage) for stage in config.order}
  for number, (stage, its) in enumerate(stages.items()):
    if not its.eval.fallback.startswith('stage:'):
      fallback_of(its, workdir)
    for key, task in _SOURCES.items():
      section, _, field = key.partition('.')
      names = its[section][field]
      before = list(stages)[:number]
      earlier = [f'stage:{other}' for other in before if stages[other].task == task]
      for name in [names] if isinstance(names, str) else names:
        if not name.startswith('stage:') or name in earlier:
          continue
        raise ConfigError(
          f'{key} {name!r} of stage {stage!r} is no stage with task {task!r} that runs before it; '
          f'those are: {", ".join(earlier) or "none"}'
        )


def stage_config(config: ConfigDict, stage: str) -> ConfigDict:
  """The config with what ``stages.STAGE`` changes put in.

  A stage that names another model or objective replaces that section whole.

  Raises:
    DataError: ``order`` names a stage that ``stages`` lacks, or a change names an unknown key.
    ConfigError: a task or a way to keep features or parameters that does not exist, or a change of
      what holds for the whole run.
  """
  if stage not in config.stages:
    raise DataError(
      f'config.order names stage {stage!r}; config.stages has: {", ".join(config.stages)}'
    )
  merged = config.copy_and_resolve_references()
  changes = config.stages[stage].copy_and_resolve_references()
  for key in config_diff.of_run(changes.to_dict()):
    raise ConfigError(f'config.stages.{stage}.{key}: it holds for all stages; set config.{key}')
  for section in ('model', 'objective'):  # another kind has settings of its own
    if changes.get(section, {}).get('name') not in (None, merged[section].name):
      with merged.unlocked():
        merged[section] = changes[section]
  try:
    merged.update(changes)
  except (KeyError, AttributeError, TypeError) as error:
    raise DataError(f'config.stages.{stage}: {error}') from None
  if merged.task not in TASKS:
    raise ConfigError(
      f'stage {stage!r} has unknown task {merged.task!r}; known: {", ".join(TASKS)}'
    )
  cache.check_mode(merged.data.cache)
  sharding.check_choice(merged.mesh.params)
  return merged


def prepare_data(config: ConfigDict, workdir: epath.Path, recipe: Recipe | None) -> str:
  """The data set's folder; rendered into WORKDIR/data where the config has a recipe."""
  if config.data.dir:
    return config.data.dir
  videos = config.data.recipe.videos
  if not videos or not recipe:
    raise DataError(
      'no data: give --config.data.dir=DIR, a folder written by python -m data_prep.build'
    )
  arguments = workdir / 'data', dict(config.data.recipe.streams), videos
  if is_main():
    recipe.prepare(*arguments)
  wait_for_all('data')
  return recipe.prepare(*arguments)  # finished before: it only names the folder


# Settings that may be others when a run goes on: where the same ones stand, what devices there are,
# and what changes no result.
_FREE = (
  *('source', 'mesh.', 'data.cache', 'data.threads', 'data.workers', 'log.', 'checkpoint.'),
  *('eval.splits', 'runtime.check_nans', 'runtime.compilation_cache'),
)


def check_config(config: ConfigDict, workdir: epath.Path) -> None:
  """Saves the config in a workdir without checkpoints; compares it with the saved one in others.

  Raises:
    DataError: they differ; every differing key is listed.
    UserError: this machine has another folder there than process 0's.
  """
  path = workdir / 'config.json'
  ours = config_diff.as_saved(config)
  started = path.is_file() and any((workdir / 'checkpoints').glob('*/*'))
  wait_for_all('config')  # every process has looked before one writes
  if not started and is_main():  # a command that failed at first may be mended
    write_json(path, ours)
  wait_for_all('config written')
  wait_for(path)
  if not started:
    return
  theirs = read_json(path)
  changed = config_diff.differing(theirs, ours)
  changed = {k: v for k, v in changed.items() if not k.startswith(_FREE)}
  if changed:
    lines = '\n'.join(f'  config.{k}: {a!r} there, {b!r} now' for k, (a, b) in changed.items())
    raise DataError(
      f'{workdir} was made with another config; '
      'use the same settings, or another --workdir, with '
      f'--config.train.init_from={workdir} to go on from its parameters:\n{lines}'
    )


def summarise(reports: dict[int, dict], workdir: epath.Path) -> None:
  """Mean, deviation and range of each score over seeds, printed and written to seeds.json."""
  names = ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr', 'rsum')
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
  write_json(workdir / 'seeds.json', {'seeds': list(reports), 'scores': table})


def _say(text: str) -> None:
  if is_main():
    print(text, flush=True)
