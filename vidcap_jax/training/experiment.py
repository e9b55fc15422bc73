"""Runs a config's stages in order and scores them. A finished stage is not run again."""

import contextlib
from collections.abc import Callable, Mapping

from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import config_diff, config_keys
from vidcap_jax.checkpoints import restore
from vidcap_jax.data import cache
from vidcap_jax.decoding.decode import check_width
from vidcap_jax.distributed import runtime
from vidcap_jax.distributed.mesh import is_main, wait_for_all
from vidcap_jax.errors import ConfigError, DataError, UserError
from vidcap_jax.evaluation import results
from vidcap_jax.files import check_output, locked, write_json
from vidcap_jax.inference import rerank
from vidcap_jax.models import sharding
from vidcap_jax.training import checks, key_frame_stage, run_summary, saved_config, stage_scores
from vidcap_jax.training.ledger import Ledger
from vidcap_jax.training.recipe import Recipe, prepare_data
from vidcap_jax.training.stage import set_up
from vidcap_jax.training.train import train

# What a stage does, by ``config.task``: (stage's config, its name, workdir, mesh; for training also
# a ledger) -> the stage's entry in stages.json.
TASKS: Mapping[str, Callable[..., dict]] = {
  'train': train,
  'key_frames': key_frame_stage.choose_key_frames,
  'fuse': rerank.prepare,
}


def run(
  config: ConfigDict,
  workdir: epath.Path,
  mesh: Mesh,
  recipe: Recipe | None = None,
  began: float | None = None,
) -> dict[str, dict]:
  """Runs a config, once or once for each of ``config.seeds``.

  Args:
    config: see ``configs/common.py``.
    workdir: checkpoints, logs and results go there.
    mesh: of all devices.
    recipe: makes the data set where ``data.dir`` is not set.
    began: when the process began, for goodput.json: seconds since the epoch; None: now.

  Returns:
    The last stage's scores by split; their means over several seeds.

  Raises:
    DataError: the workdir was made with another config, or data and config don't fit together.
    UserError: the workdir can't be written, or another process is training in it.
  """
  if is_main():
    check_output('--workdir', workdir, folder=True)
  with locked(workdir) if is_main() else contextlib.nullcontext():
    return _run(config, workdir, mesh, recipe, began)


def _run(
  config: ConfigDict,
  workdir: epath.Path,
  mesh: Mesh,
  recipe: Recipe | None,
  began: float | None,
) -> dict[str, dict]:
  check_settings(config)
  check_programs(config)
  if not config.seeds:
    return run_one_seed(config, workdir, mesh, recipe, began)
  if wrong := [seed for seed in config.seeds if not isinstance(seed, int)]:
    raise ConfigError(f'config.seeds are whole numbers, e.g. --config.seeds=0,1,2; not {wrong}')
  if len(set(config.seeds)) < len(config.seeds):
    raise ConfigError(f'config.seeds={tuple(config.seeds)}: a seed is given twice')
  reports = {}
  for seed in config.seeds:
    seed_config = config.copy_and_resolve_references()
    with seed_config.unlocked():
      seed_config.seed, seed_config.seeds = seed, ()
      seed_config.data.dir = prepare_data(config, workdir, recipe)  # one data set for all seeds
      seed_config.data.recipe.videos = 0
    reports[seed] = run_one_seed(seed_config, workdir / f'seed_{seed}', mesh)
  return stage_scores.summarise_seeds(reports, workdir) if is_main() else {}


def run_one_seed(
  config: ConfigDict,
  workdir: epath.Path,
  mesh: Mesh,
  recipe: Recipe | None = None,
  began: float | None = None,
) -> dict[str, dict]:
  """Runs the stages of a config in WORKDIR; returns the last stage's scores by split."""
  workdir.mkdir(parents=True, exist_ok=True)
  with Ledger(workdir if is_main() else None, _log, began) as ledger:
    scores = _run_stages(config, workdir, mesh, recipe, ledger)
    ledger.finish()
  return scores


def _run_stages(
  config: ConfigDict,
  workdir: epath.Path,
  mesh: Mesh,
  recipe: Recipe | None,
  ledger: Ledger,
) -> dict[str, dict]:
  config = saved_config.check_config(config, workdir)
  check_sources(config, workdir)
  config = config.copy_and_resolve_references()
  rendered = not config.data.dir
  with config.unlocked():
    config.data.dir = prepare_data(config, workdir, recipe)
  reports: dict[str, dict[str, dict]] = {}  # stage -> split -> scores
  stages = {name: stage_config(config, name) for name in config.order}
  check_stages(stages, mesh, workdir)
  scored = results.scored_stages(config)
  for number, (name, own_config) in enumerate(stages.items(), 1):
    _log(f'stage {number} of {len(stages)}: {name}, {_description(own_config)}')
    run_stage(name, own_config, workdir, mesh, ledger)
    if name in scored:
      reports[name] = stage_scores.evaluate_stage(config, name, own_config, workdir, mesh, ledger)
  if len(reports) > 1:
    _log(results.stage_table(reports))
  last = reports[scored[-1]] if scored else {}
  if rendered and recipe and config.data.recipe.show:
    run_summary.log_recipe(config, workdir, mesh, recipe, last.get('test', {}), _log)
  if any(reports.values()):
    _log(run_summary.next_steps(workdir, bool(rendered and recipe)))
  return last


# What a stage does by its task, for people; training is described by its objective.
_TASK_NAMES = {'key_frames': 'chooses key frames', 'fuse': 'late fusion'}


def _description(config: ConfigDict) -> str:
  """What a stage does, e.g. 'cross entropy' for the objective ``cross_entropy``."""
  return _TASK_NAMES.get(config.task) or config.objective.name.rpartition(':')[2].replace('_', ' ')


def run_stage(
  name: str, config: ConfigDict, workdir: epath.Path, mesh: Mesh, ledger: Ledger
) -> None:
  """Runs a stage and lists it in stages.json, unless it is listed there as finished.

  Args:
    name: of the stage.
    config: the stage's own.
    workdir: of the run.
    mesh: of all devices.
    ledger: measures where the time goes.
  """
  finished = restore.finished_stages(workdir)
  wait_for_all(f'before {name}')  # every process has read stages.json before one writes it
  if name in finished:
    _log(f'[{name}] finished before' + _best(finished[name], config.eval.metric))
    return
  task = TASKS[config.task]
  if task is train:
    finished[name] = train(config, name, workdir, mesh, ledger)
  else:
    with ledger.measure('evaluating'):
      finished[name] = task(config, name, workdir, mesh)
  if is_main():
    write_json(workdir / 'stages.json', finished)
  ledger.mark(f'stage {name}')
  wait_for_all(f'stage {name}')


def check_settings(config: ConfigDict) -> None:
  """Checks the settings of every stage, before there is data; stages that do not run too.

  Raises:
    ConfigError, DataError: naming the stage.
  """
  runtime.check_precision(config.runtime.matmul_precision)
  for name in dict.fromkeys((*config.order, *config.stages)):
    own_config = stage_config(config, name)
    try:
      checks.check_settings(own_config, name)
    except UserError as error:
      raise type(error)(f'stage {name!r}: {error}') from None


def check_programs(config: ConfigDict) -> None:
  """Checks that what ``eval`` asks for to compute scores is on the machine that scores.

  Raises:
    MetricError, ConfigError, DataError: naming the stage.
  """
  if not is_main():
    return
  scored = results.scored_stages(config) if config.eval.splits else []
  for name in config.order:
    own_config = stage_config(config, name)
    try:
      checks.check_programs(own_config, evaluated=name in scored)
    except UserError as error:
      raise type(error)(f'stage {name!r}: {error}') from None


def check_stages(stages: Mapping[str, ConfigDict], mesh: Mesh, workdir: epath.Path) -> None:
  """Checks that data, model and settings of each stage fit together, before the first is trained.

  Stages that have a checkpoint go on with a beam that is wider than the vocabulary: they were begun
  before there was this limit.

  Raises:
    ConfigError, DataError: naming the stage.
  """
  for name, own_config in stages.items():
    if own_config.task == 'train':
      try:
        stage = set_up(own_config, mesh)
        if not any((workdir / 'checkpoints' / name).glob('*')):
          check_width(own_config.decode, len(stage.vocabulary))
      except UserError as error:
        raise type(error)(f'stage {name!r}: {error}') from None


def _best(entry: Mapping, metric: str) -> str:
  return f': best {metric} {entry["best_score"]}' if 'best_score' in entry else ''


# Settings that name a stage, 'stage:NAME', and the task of the stages that they may name.
_SOURCES = {
  'train.init_from': 'train',
  'eval.fallback': 'train',
  'data.key_frames': 'key_frames',
  'fuse.embedding': 'train',
  'fuse.runs': 'train',
}


def check_sources(config: ConfigDict, workdir: epath.Path) -> None:
  """Checks that the stages which a stage starts from or falls back to run before it.

  Raises:
    ConfigError: it is a stage that does not run before, or one with another task.
    DataError: the fallback is a path without a checkpoint.
  """
  stages = {name: stage_config(config, name) for name in config.order}
  for number, (stage, own_config) in enumerate(stages.items()):
    if not own_config.eval.fallback.startswith('stage:'):
      stage_scores.fallback_of(own_config, workdir)
    for key, task in _SOURCES.items():
      section, _, field = key.partition('.')
      names = own_config[section][field]
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
  """The config with the changes of ``stages.STAGE``.

  A stage that names another model or objective replaces that whole section.

  Raises:
    DataError: ``order`` names a stage that ``stages`` lacks.
    ConfigError: an unknown key, a value of another type, an unknown ``task``, ``data.cache`` or
      ``mesh.params`` or ``mesh.optimizer``, or a change of a setting of the whole run.
  """
  if stage not in config.stages:
    raise DataError(
      f'config.order names stage {stage!r}; config.stages has: {", ".join(config.stages)}'
    )
  merged = config.copy_and_resolve_references()
  changes = config.stages[stage].copy_and_resolve_references()
  for key in config_diff.run_settings(changes.to_dict()):
    raise ConfigError(
      f'config.stages.{stage}.{key}: it is a setting of the whole run; set config.{key}'
    )
  for section in ('model', 'objective'):  # another name has other settings
    if changes.get(section, {}).get('name') not in (None, merged[section].name):
      with merged.unlocked():
        merged[section] = changes[section]
  config_keys.check_keys(merged, changes, f'config.stages.{stage}')
  with merged.unlocked():  # a model or objective has settings that the config leaves out
    merged.update(changes)
  if merged.task not in TASKS:
    raise ConfigError(
      f'stage {stage!r} has unknown task {merged.task!r}; known: {", ".join(TASKS)}'
    )
  cache.check_mode(merged.data.cache)
  sharding.check_choice(merged.mesh.params)
  sharding.check_optimizer_choice(merged.mesh.get('optimizer', 'as_params'))
  return merged


def _log(text: str) -> None:
  if is_main():
    print(text, flush=True)
