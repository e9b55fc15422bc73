"""Scores that show what a run has learned: of captions that need no model, and of swapped features.

- constant: the training caption that scores best as the caption of every video;
- nearest: the medoid caption of the training video with the closest mean features;
- people: a reference of each video by its other references, the mean of several;
- swapped: the captions of the run itself, from features that the videos of the split have swapped.

They need the data set, and for METEOR and decoding some minutes, so they are kept in the folder of
the evaluation, in ``baselines.json``, for as long as the evaluation stays the same.
"""

import contextlib
import dataclasses
import functools
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.counts import counted
from vidcap_jax.data.records import SplitSource, open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.data.texts import read_texts
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import metrics, people, results, signature
from vidcap_jax.evaluation.meteor import MeteorProgram
from vidcap_jax.evaluation.nearest import nearest_captions
from vidcap_jax.evaluation.signature import Signature
from vidcap_jax.evaluation.swapped import swap_features
from vidcap_jax.files import read_json, write_json
from vidcap_jax.inference.captioning import captioner_of
from vidcap_jax.studies.results_rows import Row, Trained

FILE = 'baselines.json'
WITHOUT_MODEL = ('constant', 'nearest', 'people')


@dataclasses.dataclass
class Baselines:
  """The scores, as fractions.

  Attributes:
    fixed: (hash of the data set, split) -> name -> scores of captions that need no model.
    swapped: (workdir, stage, split) -> scores with swapped features.
  """

  fixed: dict[tuple[str, str], dict[str, dict[str, float]]]
  swapped: dict[tuple[str, str, str], dict[str, float]]


def collect(rows: Sequence[Row], compute: bool, log: Callable[[str], None]) -> Baselines:
  """The baselines of every evaluated split of every row; of a row's first seed those it has.

  Args:
    rows: of ``results_rows.find``.
    compute: also those that no run has kept; False reads the kept ones alone.
    log: prints what is computed, and what can't be.
  """
  found = Baselines({}, {})
  pairs = [
    (row, member, split) for row in rows for member in row.members[:1] for split in member.reports
  ]
  kept = [_read(member, split) for _, member, split in pairs]
  for (_, member, split), scores in zip(pairs, kept):
    _add(found, member, split, scores)
  if not compute:
    return found
  with contextlib.ExitStack() as stack:
    process: list[MeteorProgram] = []
    for (row, member, split), scores in zip(pairs, kept):
      wanted = _wanted(found, member, split, scores)
      if not wanted:
        continue
      try:
        sources = _open(member, split)
        if not process:
          process.append(metrics.start_meteor())
          stack.enter_context(process[0])
        log(f'{row.name}, {member.stage}, {split}: scoring {", ".join(wanted)}')
        scores = {**scores, **_compute(sources, member, split, wanted, process[0])}
        write_json(_file(member, split), {'of': _origin(member, split), **scores}, False)
      except (UserError, OSError) as error:
        log(f'{row.name}, {member.stage}, {split}: no {", ".join(wanted)}: {error}')
      _add(found, member, split, scores)
  return found


def _add(found: Baselines, member: Trained, split: str, scores: Mapping) -> None:
  """Adds the scores of a file."""
  if 'swapped' in scores:
    found.swapped[str(member.workdir), member.stage, split] = scores['swapped']['scores']
  fixed = found.fixed.setdefault((member.data[1], split), {})
  for name in WITHOUT_MODEL:
    if scores.get(name, {}).get('scores'):
      fixed[f'{name}: {scores[name]["of"]}'] = scores[name]['scores']


def _wanted(found: Baselines, member: Trained, split: str, scores: Mapping) -> list[str]:
  """The baselines to compute for a split: of those without model, what no run of the data has."""
  report = member.reports[split]
  fixed = found.fixed[member.data[1], split]
  wanted = [
    name
    for name in WITHOUT_MODEL
    if name not in scores and not any(known.startswith(f'{name}: ') for known in fixed)
  ]
  own = 'fusion' not in report and 'fallback' not in report  # made by this checkpoint alone
  return wanted + (['swapped'] if own and 'swapped' not in scores else [])


def _file(member: Trained, split: str) -> pathlib.Path:
  config = ConfigDict(dict(member.config))
  folder = results.folder(member.stage, config, epath.Path(member.workdir))
  return pathlib.Path(folder) / split / FILE


def _origin(member: Trained, split: str) -> dict[str, Any]:
  """What the kept scores depend on."""
  report = member.reports[split]
  step, data = report['checkpoint_step'], report['data']['hash']
  return {'checkpoint_step': step, 'data': data, 'decode': report.get('decode')}


def _read(member: Trained, split: str) -> dict[str, Any]:
  """The kept scores of an evaluation; {} where there are none, or of another evaluation."""
  path = _file(member, split)
  kept = read_json(path) if path.is_file() else {}
  return kept if kept.pop('of', None) == _origin(member, split) else {}


def _open(member: Trained, split: str) -> tuple[Restored, SplitSource, SplitSource]:
  """The evaluated checkpoint, the split, and the training split.

  Raises:
    DataError: the checkpoint or the data set is no longer there, or the data set is another one.
  """
  report = member.reports[split]
  folder = epath.Path(member.workdir) / 'checkpoints' / report.get('stage', member.stage)
  path = restore.find_checkpoint(str(folder / str(report['checkpoint_step'])))
  restored = restore.with_decode(restore.restore(path, make_mesh()), report.get('decode', {}))
  directory = restored.data_folder()
  if read_manifest(directory).hash != report['data']['hash']:
    raise DataError(f'{directory} is no longer the data set that was evaluated')
  training = restored.config.data.train_split
  return restored, open_split(directory, split), open_split(directory, training)


def _compute(
  sources: tuple[Restored, SplitSource, SplitSource],
  member: Trained,
  split: str,
  wanted: Sequence[str],
  process: MeteorProgram,
) -> dict[str, dict[str, Any]]:
  """Name -> what the baseline is of, and its scores."""
  restored, source, training = sources
  texts = read_texts(source)
  ids = [video.video_id for video in texts]
  texts_by_video = {video.video_id: video.captions for video in texts}
  by_character = restored.vocabulary.by_character
  references = metrics.prepare_references(texts_by_video, by_character=by_character)
  captions: dict[str, tuple[str, Mapping[str, str]]] = {}
  if 'constant' in wanted:
    constant = member.reports[split]['constant_caption']
    captions['constant'] = constant, dict.fromkeys(ids, constant)
  if 'nearest' in wanted:
    streams = ', '.join(stream.name for stream in restored.streams)
    captions['nearest'] = streams, nearest_captions(source, training, restored.streams)
  if 'swapped' in wanted:
    caption = captioner_of(restored, label=f'captioning {split} with swapped features')
    decoded = caption(swap_features(source), ids)
    captions['swapped'] = 'seed 0', {entry['video_id']: entry['caption'] for entry in decoded}
  decode = restored.config.decode.to_dict()
  sign = functools.partial(
    signature.of_captions, by_character=by_character, split=split, data_hash=member.data[1]
  )
  scored: dict[str, dict[str, Any]] = {}
  for name, (of, by_video) in captions.items():
    scores, _ = metrics.score(by_video, references, meteor_process=process)
    signed = sign(texts_by_video, decode=decode if name == 'swapped' else None)
    scored[name] = {'of': of, 'scores': scores, 'signature': str(signed)}
  if 'people' in wanted:
    scored['people'] = _people(texts_by_video, by_character, sign, process)
  return scored


def _people(
  captions: people.Captions,
  by_character: bool,
  sign: Callable[..., Signature],
  process: MeteorProgram,
) -> dict[str, Any]:
  """The mean scores of ``people.rounds``; no scores where no video has two captions."""
  rounds = list(people.rounds(captions))
  if not rounds:
    return {'of': 'no video has two captions', 'scores': {}}
  every = [
    metrics.score(chosen, others, by_character=by_character, meteor_process=process)[0]
    for chosen, others in rounds
  ]
  return {
    'of': f'mean of {counted(len(rounds), "caption")} a video, each by the others',
    'scores': {name: statistics.mean(scores[name] for scores in every) for name in every[0]},
    'signature': str(sign(rounds[0][1], decode=None)),
  }
