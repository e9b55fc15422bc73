"""Finds an evaluation on the disk, and the data set and the run that it belongs to."""

import collections
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vidcap_jax.data.pipeline import read_texts
from vidcap_jax.data.records import Video, open_split
from vidcap_jax.data.schema import Manifest, read_manifest
from vidcap_jax.errors import DataError, UserError, first_few
from vidcap_jax.files import check_input, read_json
from vidcap_jax.program_name import as_typed

# Keys of metrics.json that all versions of evaluate have written.
_NEEDED = ('split', 'data', 'checkpoint', 'checkpoint_step', 'stage')


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The results of an evaluation.

  Attributes:
    label: a name for pages.
    folder: of metrics.json and captions.json.
    workdir: of the run; None where it is not known.
    metrics: the contents of metrics.json.
    captions: those of captions.json, one object a video.
  """

  label: str
  folder: pathlib.Path
  workdir: pathlib.Path | None
  metrics: Mapping[str, Any]
  captions: Sequence[Mapping[str, Any]]

  @property
  def split(self) -> str:
    return self.metrics['split']

  @property
  def hypotheses(self) -> dict[str, str]:
    """Video id -> caption."""
    return {entry['video_id']: entry['caption'] for entry in self.captions}

  @property
  def checkpoints(self) -> list[pathlib.Path]:
    """The step folders that made the captions together; of a run that was moved, where it is."""
    ensemble = self.metrics.get('ensemble', {}).get('checkpoints')
    found = [pathlib.Path(path) for path in ensemble or [self.metrics['checkpoint']]]
    if self.workdir and not ensemble and not found[0].is_dir():
      stage, step = self.metrics['stage'], str(self.metrics['checkpoint_step'])
      return [self.workdir / 'checkpoints' / stage / step]
    return found


@dataclasses.dataclass(frozen=True)
class DataSplit:
  """The videos of a split without features, by id in their order, and their data set."""

  directory: str
  videos: Mapping[str, Video]
  manifest: Manifest


def find(run: str, split: str | None, flag: str = '--run') -> Evaluation:
  """Finds the results of a run.

  Args:
    run: a workdir, for the results of its last stage that makes captions; or a folder of results,
      as --output of evaluate or WORKDIR/eval/STAGE/SPLIT.
    split: its name; None: test, val or the first one, those with references first.
    flag: that names the run, for messages.

  Raises:
    UserError: no such folder, no captions in it, or none of this split.
  """
  if ',' in run and not pathlib.Path(run).exists():
    other = run.split(',')[1]
    raise UserError(f'{flag}={run}: one run, not several; to compare it with: --compare={other}')
  check_input(flag, run, 'a workdir or a folder of results', 'folder')
  folder = pathlib.Path(run)
  if (folder / 'metrics.json').is_file():
    found = {_split_of(folder, flag): folder}
  else:
    found = {path.parent.name: path.parent for path in sorted(folder.glob('eval/*/metrics.json'))}
  evaluate = as_typed('python -m vidcap_jax.main --mode=evaluate')
  if not found:
    hint = f'make some with: {evaluate} --checkpoint={run} --split={split or "val"}'
    if seeds := sorted(str(path) for path in folder.glob('seed_*') if path.is_dir()):
      hint = f'these are runs of several seeds; give one: {", ".join(seeds)}'
    raise UserError(f'{flag}={run}: no results of an evaluation; {hint}')
  if split is not None and split not in found:
    raise UserError(
      f'{flag}={run}: no results of the split {split!r}; it has: {", ".join(found)}. Make them '
      f'with: {evaluate} --checkpoint={run} --split={split}'
    )
  return read(found[split or _first(found)], flag)


def _split_of(folder: pathlib.Path, flag: str) -> str:
  metrics = read_json(folder / 'metrics.json')
  _check_metrics(metrics, f'{flag}: {folder / "metrics.json"}')
  return metrics['split']


def _first(found: Mapping[str, pathlib.Path]) -> str:
  """The split that is shown if none is named."""
  scored = [name for name in found if read_json(found[name] / 'metrics.json').get('references')]
  names = scored or list(found)
  return next((name for name in ('test', 'val') if name in names), names[0])


def read(folder: pathlib.Path, flag: str = '--run') -> Evaluation:
  """Reads a folder of results.

  Raises:
    UserError: the results are of a model that makes no captions, or a file is damaged.
  """
  metrics = read_json(folder / 'metrics.json')
  _check_metrics(metrics, f'{flag}: {folder / "metrics.json"}')
  if not (folder / 'captions.json').is_file():
    raise UserError(
      f'{flag}={folder}: no captions.json beside metrics.json; a report shows captions. Copy both '
      'files if the run is from another machine; a model of retrieval makes no captions'
    )
  captions = read_json(folder / 'captions.json')
  _check_captions(captions, f'{flag}: {folder / "captions.json"}')
  workdir = _workdir_of(folder, metrics)
  *_, above, name = ('', *(workdir or folder).absolute().parts)
  label = f'{above}/{name}' if name.startswith('seed_') else name
  return Evaluation(label, folder, workdir, metrics, captions)


def _check_metrics(metrics: Any, where: str) -> None:
  """Raises DataError unless metrics.json has what a report needs."""
  if not isinstance(metrics, dict):
    raise DataError(f'{where}: not the results of an evaluation')
  if missing := [key for key in _NEEDED if key not in metrics]:
    evaluate = as_typed('python -m vidcap_jax.main --mode=evaluate')
    raise DataError(
      f'{where}: no {", ".join(missing)}, as of another program; evaluate the checkpoint with: '
      f'{evaluate} --checkpoint=RUN'
    )


def _check_captions(captions: Any, where: str) -> None:
  """Raises DataError unless captions.json is a list with one caption of each video."""
  is_list = isinstance(captions, list) and all(isinstance(each, dict) for each in captions)
  if not is_list:
    raise DataError(f'{where}: not a list of objects with video_id and caption, as evaluate writes')
  for number, entry in enumerate(captions):
    for key in ('video_id', 'caption'):
      if not isinstance(entry.get(key), str):
        raise DataError(f'{where}: entry {number} has no text {key!r}; evaluate writes one')
  if not captions:
    raise DataError(f'{where}: no captions; evaluate a split that has videos')
  counts = collections.Counter(entry['video_id'] for entry in captions)
  if twice := [video_id for video_id, count in counts.items() if count > 1]:
    raise DataError(f'{where}: {len(twice)} videos have several entries: {first_few(twice)}')


def _workdir_of(folder: pathlib.Path, metrics: Mapping[str, Any]) -> pathlib.Path | None:
  """The run that results are in, or else that of their checkpoint."""
  _, *above = folder.absolute().parents[:3]
  checkpoint = pathlib.Path(metrics['checkpoint'])  # WORKDIR/checkpoints/STAGE/STEP
  candidates = [folder.absolute().parent.parent, *above]
  candidates += [] if metrics.get('ensemble') else checkpoint.parents[2:3]
  return next((path for path in candidates if (path / 'config.json').is_file()), None)


def data_of(
  evaluation: Evaluation, directory: str | None, log: Callable[[str], None]
) -> DataSplit | None:
  """The split that was captioned; None, with a note, if its data set is not there.

  Args:
    evaluation: of the split.
    directory: the data set; None: the one that was evaluated.
    log: prints.

  Raises:
    DataError: the given data set is another one, or lacks some of the videos.
  """
  place = directory or evaluation.metrics['data']['dir']
  try:
    manifest = read_manifest(place)
    if evaluation.split not in manifest.splits:
      raise DataError(f'{place} has no split {evaluation.split!r}')
    if manifest.hash != evaluation.metrics['data']['hash']:
      raise DataError(
        f'{place} is not the data set that was evaluated: its hash is {manifest.hash}, that of '
        f'{evaluation.folder}/metrics.json {evaluation.metrics["data"]["hash"]}'
      )
    videos = {v.video_id: v for v in read_texts(open_split(place, evaluation.split))}
    if missing := [id_ for id_ in evaluation.hypotheses if id_ not in videos]:
      raise DataError(f'{place} lacks {len(missing)} captioned videos: {first_few(missing)}')
  except DataError as error:
    if directory is not None:
      raise DataError(f'--data={directory}: {error}') from None
    log(f'no references, scores of videos and attention: {error}; give --data=DIR')
    return None
  return DataSplit(place, videos, manifest)
