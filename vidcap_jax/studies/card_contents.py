"""What a run's card shows, from what the run has on disk and the data set."""

import collections
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.counts import counted
from vidcap_jax.data.records import Video, open_split
from vidcap_jax.data.schema import Manifest, read_manifest
from vidcap_jax.data.texts import read_texts
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import metrics, results
from vidcap_jax.evaluation.intervals import Interval, score_intervals, statistics_of
from vidcap_jax.files import read_json
from vidcap_jax.studies import results_baselines, results_rows
from vidcap_jax.studies.results_baselines import Baselines
from vidcap_jax.studies.results_rows import Trained

LOWEST = 5  # videos, and categories
WORDS = 15  # of references that no caption has


@dataclasses.dataclass(frozen=True)
class Weakness:
  """What the captions of a split are bad at.

  Attributes:
    split: its name.
    lowest: the videos of the lowest CIDEr: (video, caption, CIDEr).
    categories: (category, videos, mean CIDEr), the lowest first; empty where none are known.
    unsaid: (word, number of videos whose references have it) of words in no caption.
    unknown: the same of words that the vocabulary lacks, so that no caption can have them.
    repeated: share of the videos whose caption another video has, too.
  """

  split: str
  lowest: Sequence[tuple[Video, str, float]]
  categories: Sequence[tuple[int, int, float]]
  unsaid: Sequence[tuple[str, int]]
  unknown: Sequence[tuple[str, int]]
  repeated: float


@dataclasses.dataclass(frozen=True)
class Card:
  """What a card shows.

  Attributes:
    restored: the checkpoint.
    trained: its stage, as the table of results reads it; None of a model that makes no captions.
    reports: split -> metrics.json.
    intervals: split -> metric -> 95 % interval; without the data set none.
    weakness: of one split; None without the data set.
    manifest: of the data set, where it is at hand.
    baselines: of the splits, as far as the run has kept them.
    note: why there are no intervals; '' otherwise.
  """

  restored: Restored
  trained: Trained | None
  reports: Mapping[str, Mapping[str, Any]]
  intervals: Mapping[str, Mapping[str, Interval]]
  weakness: Weakness | None
  manifest: Manifest | None
  baselines: Baselines
  note: str

  @property
  def name(self) -> str:
    """The name of the run's folder; of a seed that of the run around it, too."""
    *_, run, folder = ('', *workdir_of(self.restored).parts)
    return f'{run}/{folder}' if folder.startswith('seed_') else folder


def workdir_of(restored: Restored) -> pathlib.Path:
  """The folder of a checkpoint's run.

  Raises:
    UserError: the checkpoint is in no workdir, ``data`` is no data set, or the run has no captions
      of ``split``.
  """
  results.folder_of(restored)  # raises
  return pathlib.Path(restored.path).absolute().parents[2]


def collect(
  restored: Restored, data: str | None, split: str | None, log: Callable[[str], None]
) -> Card:
  """Reads a run, and scores the captions of its evaluations per video.

  Args:
    restored: its checkpoint.
    data: the data set; None: that of the training.
    split: whose lowest videos are shown; None: test, or another one that was evaluated.
    log: prints what is done.

  Raises:
    UserError: the checkpoint is in no workdir.
    MetricError: scoring failed.
  """
  folder = pathlib.Path(results.folder_of(restored))
  found = sorted(folder.glob('*/metrics.json'))
  every = {path.parent.name: read_json(path) for path in found}
  step = int(restored.path.name)
  reports = {name: report for name, report in every.items() if report['checkpoint_step'] == step}
  stages = results_rows.read_stages(workdir_of(restored))
  trained = next((own for own in stages if own.stage == restored.meta['stage']), None)
  captions = {
    name: {c['video_id']: c['caption'] for c in read_json(folder / name / 'captions.json')}
    for name, report in reports.items()
    if report.get('references') and (folder / name / 'captions.json').is_file()
  }
  if split is not None and split not in captions:
    known = ', '.join(captions) or 'none'
    raise UserError(
      f'--split={split}: this checkpoint has no captions of it with references; it has those of: '
      f'{known}. vidcap evaluate makes them'
    )
  rows = [results_rows.Row('', '', (trained,))] if trained else []
  baselines = results_baselines.collect(rows, False, log)
  card = Card(restored, trained, reports, {}, None, None, baselines, '')
  try:
    directory = restored.data_folder(data)
    manifest = read_manifest(directory)
  except DataError as error:
    if data is not None:
      raise UserError(f'--data={data}: {error}') from None
    return dataclasses.replace(card, note=str(error))
  if manifest.hash != restored.meta['data']['hash']:
    note = f'{manifest.name} is not the data set of the training: its hash is {manifest.hash}'
    return dataclasses.replace(card, note=note)
  card = dataclasses.replace(card, manifest=manifest)
  shown = split or ('test' if 'test' in captions else next(iter(captions), ''))
  return _with_scores(card, directory, captions, shown, log)


def _with_scores(
  card: Card,
  directory: str,
  captions: Mapping[str, Mapping[str, str]],
  shown: str,
  log: Callable[[str], None],
) -> Card:
  """The card with intervals of every split with captions, and the weakness of one."""
  if not captions:
    return card
  intervals, weakness = {}, None
  with metrics.start_meteor() as process:
    for split, hypotheses in captions.items():
      log(f'scoring {counted(len(hypotheses), "caption")} of {split} for each video')
      videos = read_texts(open_split(directory, split))
      references = metrics.prepare_references(
        {video.video_id: list(video.captions) for video in videos},
        by_character=card.restored.vocabulary.by_character,
      )
      details = metrics.score_details(
        hypotheses, references, meteor_process=process, label=f'scoring {split}'
      )
      intervals[split] = score_intervals(statistics_of(details))
      if split == shown:
        ciders = dict(zip(details.ids, details.values['CIDEr'].tolist(), strict=True))
        weakness = find_weakness(split, videos, hypotheses, ciders, card.restored)
  return dataclasses.replace(card, intervals=intervals, weakness=weakness)


def find_weakness(
  split: str,
  videos: Sequence[Video],
  captions: Mapping[str, str],
  ciders: Mapping[str, float],
  restored: Restored,
) -> Weakness:
  """What the captions of a split are bad at.

  Args:
    split: its name.
    videos: with references.
    captions: video id -> caption.
    ciders: video id -> its CIDEr.
    restored: the checkpoint, for its vocabulary.
  """
  ordered = sorted(videos, key=lambda video: ciders[video.video_id])
  lowest = [(v, captions[v.video_id], ciders[v.video_id]) for v in ordered[:LOWEST]]
  by_category: dict[int, list[float]] = collections.defaultdict(list)
  for video in videos:
    if video.category >= 0:
      by_category[video.category].append(ciders[video.video_id])
  categories = [(name, len(own), sum(own) / len(own)) for name, own in by_category.items()]
  split_words, known = restored.vocabulary.tokenize, restored.vocabulary.index
  generated = {word for caption in captions.values() for word in split_words(caption)}
  referred = collections.Counter(
    word
    for video in videos
    for word in {word for caption in video.captions for word in split_words(caption)}
  )
  missing = [(word, count) for word, count in referred.most_common() if word not in generated]
  times = collections.Counter(captions.values())
  repeated = sum(times[caption] > 1 for caption in captions.values()) / len(captions)
  return Weakness(
    split,
    lowest,
    sorted(categories, key=lambda entry: entry[2])[:LOWEST],
    [(word, count) for word, count in missing if word in known][:WORDS],
    [(word, count) for word, count in missing if word not in known][:WORDS],
    repeated,
  )
