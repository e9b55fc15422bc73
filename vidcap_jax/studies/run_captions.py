"""Captions of several runs for the same videos, as evaluations write them."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

from vidcap_jax.annotations import caption_files
from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError, UserError, first_few
from vidcap_jax.program_name import as_typed

HELP = (
  'workdirs (their eval/SPLIT/captions.json), output folders of evaluations, or captions files; '
  'LABEL=PATH names one'
)


@dataclasses.dataclass(frozen=True)
class RunCaptions:
  """The captions of a run.

  Attributes:
    label: its name in tables and pictures.
    path: the file.
    captions: video id -> caption.
  """

  label: str
  path: pathlib.Path
  captions: Mapping[str, str]


def read(names: Sequence[str], split: str) -> list[RunCaptions]:
  """Reads the captions of runs, which must be of the same videos.

  Args:
    names: PATH or LABEL=PATH, see ``HELP``.
    split: whose captions, of workdirs.

  Raises:
    UserError: no captions at a path, or two runs with one label.
    DataError: runs with different videos; names the first that are missing.
  """
  runs = [_read_run(name, split) for name in names]
  labels = [run.label for run in runs]
  if twice := sorted({label for label in labels if labels.count(label) > 1}):
    raise UserError(
      f'--runs={",".join(names)}: {len(runs)} runs, but {", ".join(map(repr, twice))} names '
      'several; name them with LABEL=PATH'
    )
  every_id = dict.fromkeys(video_id for run in runs for video_id in run.captions)
  for run in runs:
    if missing := [video_id for video_id in every_id if video_id not in run.captions]:
      raise DataError(
        f'{run.path} lacks captions of {counted(len(missing), "video")} that another run has: '
        f'{first_few(missing)}; evaluate all runs on the same data set and split'
      )
  return runs


def _read_run(name: str, split: str) -> RunCaptions:
  label, equals, place = name.partition('=')
  if not equals or '/' in label:
    label, place = '', name
  path = pathlib.Path(place)
  tried = [path / 'captions.json', path / 'eval' / split / 'captions.json']
  file = path if path.is_file() else next((each for each in tried if each.is_file()), None)
  if file is None:
    raise UserError(
      f'--runs={name}: no captions at {", ".join(map(str, [path, *tried]))}; write them with '
      + as_typed('python -m vidcap_jax.main --mode=evaluate')
      + f' --checkpoint={place} --split={split}'
    )
  if not label:
    label = file.stem if path.is_file() and file.stem != 'captions' else path.absolute().name
  return RunCaptions(label, file, caption_files.read_hypotheses(file))


def references_of(runs: Sequence[RunCaptions], references: str | None, split: str):
  """The references of the runs' videos, video id -> captions.

  Args:
    runs: of ``read``.
    references: a file or a data set's folder, as for ``vidcap_jax.evaluation.metrics``; None: the
      data set that metrics.json, in the folder of the first run's captions, names.
    split: of the data set; of a file that names splits.

  Raises:
    DataError: there are none, or some videos have none.
  """
  where = references or _data_set(runs[0])
  split_of_file = split if pathlib.Path(where).is_dir() or _names_splits(where) else None
  found = caption_files.read_references(where, split_of_file)
  ids = list(runs[0].captions)
  if missing := [video_id for video_id in ids if not found.get(video_id)]:
    raise DataError(
      f'{where} has no references of {len(missing)} of the {len(ids)} captioned videos: '
      f'{first_few(missing)}; give another file or data set with --references'
    )
  return {video_id: found[video_id] for video_id in ids}


def _names_splits(path: str) -> bool:
  return bool(caption_files.find_splits(path))


def _data_set(run: RunCaptions) -> str:
  """The data set that the captions' evaluation read."""
  report = run.path.with_name('metrics.json')
  data = json.loads(report.read_text())['data']['dir'] if report.is_file() else ''
  if not data or not pathlib.Path(data).is_dir():
    raise DataError(
      f'{run.path}: {report.name} in its folder names no data set that is there'
      f'{f" ({data})" if data else ""}; give --references=FILE or DIR'
    )
  return data
