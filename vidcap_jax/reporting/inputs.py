"""What a report is made of: read, and checked before the work starts."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence

import jax
from etils import epath

from vidcap_jax.checkpoints.restore import Restored, restore
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import UserError, first_few
from vidcap_jax.features import video_folder, video_stills
from vidcap_jax.features.picture_files import FrameFiles, Source
from vidcap_jax.reporting import comparison, evaluations, folder
from vidcap_jax.reporting.evaluations import DataSplit, Evaluation
from vidcap_jax.reporting.settings import FOLDER, Options
from vidcap_jax.studies import videos


@dataclasses.dataclass(frozen=True)
class Inputs:
  """What a report is made of.

  Attributes:
    own, other: the evaluations; ``other`` is None without a comparison.
    data: the captioned split; None if its data set is not there.
    boxes: the stream with the boxes of regions; '' if there is none.
    sources: the files of the videos that have some, by id.
    members: the checkpoints; () where they can't be used.
    output: the folder of the report.
  """

  own: Evaluation
  other: Evaluation | None
  data: DataSplit | None
  boxes: str
  sources: Mapping[str, Source]
  members: Sequence[Restored]
  output: pathlib.Path

  @property
  def ids(self) -> list[str]:
    return [entry['video_id'] for entry in self.own.captions]

  @property
  def by_character(self) -> bool:
    """Whether Chinese is scored by character, by the checkpoint or else by the signature."""
    if self.members:
      return self.members[0].vocabulary.by_character
    return '+characters' in (self.own.metrics.get('signature') or '')


def read(
  own: Evaluation,
  options: Options,
  log: Callable[[str], None],
  members: Sequence[Restored] | None,
) -> Inputs:
  """Reads and checks everything that can be wrong; see ``report.write``."""
  output = pathlib.Path(options.output) if options.output else own.folder / FOLDER
  folder.check(output)
  other = evaluations.find(options.compare, own.split, '--compare') if options.compare else None
  if other is not None:
    comparison.check(own, other)
    if other.label == own.label:
      other = dataclasses.replace(other, label=f'{other.label} ({other.folder})')
  ids = [entry['video_id'] for entry in own.captions]
  sources = _sources(options, ids, log)
  data = evaluations.data_of(own, options.data, log)
  boxes = videos.boxes_stream(data.manifest, options.boxes) if data else ''
  return Inputs(own, other, data, boxes, sources, _members(own, log, members), output)


def _sources(options: Options, ids: Sequence[str], log: Callable[[str], None]) -> dict[str, Source]:
  """The file, picture or frames of each video that has some."""
  if options.videos is None:
    log('no pictures; --videos=DIR names the folder of videos, pictures or frames')
    return {}
  rate = video_folder.parse_frame_rate(options.frame_rate)
  found: dict[str, Source] = {}
  for video_id, source in video_stills.find_sources(options.videos, ids).items():
    if isinstance(source, FrameFiles):
      source = dataclasses.replace(source, rate=rate)
    found[video_id] = source
  if not found:
    log(
      f'--videos={options.videos}: no pictures: no file or folder in it is named by the id of one '
      f'of the {len(ids)} videos, such as {ids[0]}'
    )
  elif missing := [video_id for video_id in ids if video_id not in found]:
    log(
      f'--videos={options.videos}: no file of {len(missing)} of {len(ids)} videos: '
      f'{first_few(missing)}'
    )
  return found


def _members(
  own: Evaluation, log: Callable[[str], None], members: Sequence[Restored] | None
) -> Sequence[Restored]:
  """The checkpoints of the results; none, with a note, where they can't be used."""
  if 'fusion' in own.metrics:
    log('no attention: the captions are of a late fusion')
    return ()
  if jax.process_count() > 1:
    log('no attention in a job of several processes; vidcap report adds it')
    return ()
  if members is not None:
    return members
  if missing := [path for path in own.checkpoints if not path.is_dir()]:
    log(f'no attention: {missing[0]}: no such folder; copy the checkpoint of the run there')
    return ()
  mesh = make_mesh()
  try:
    return [restore(epath.Path(path), mesh) for path in own.checkpoints]
  except UserError as error:
    log(f'no attention: {error}')
    return ()
