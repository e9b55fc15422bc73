"""Builds data sets; it hands the keywords of a caller to ``data_prep``."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.build import options_of
from data_prep.dataset.builder import Report
from data_prep.dataset.builder import build as build_data_set
from data_prep.report.summary import summary
from vidcap_jax.api.keywords import named_in_errors
from vidcap_jax.api.sources import PathLike
from vidcap_jax.data.schema import Manifest


@dataclasses.dataclass(frozen=True)
class DataSet:
  """A data set that was built.

  Attributes:
    folder: as ``data.dir`` of a config names it.
    manifest: its streams, splits and vocabulary, and which videos were left out, and why.
    report: what the build did.

  Example:
    >>> import vidcap_jax as vc
    >>> built = vc.build(format='jsonl', annotations='data/source/captions.jsonl',
    ...                  features={'image': 'data/source/image'}, output='data/copy', min_count=1)
    >>> sorted(built.manifest.splits), [stream.name for stream in built.manifest.streams]
    (['test', 'train', 'val'], ['image'])
  """

  folder: pathlib.Path
  manifest: Manifest
  report: Report

  def __repr__(self) -> str:
    return f'DataSet({str(self.folder)!r})\n{summary(self.manifest, self.report, str(self.folder))}'


@named_in_errors('[a-z_]+')
def build(
  *,
  format: str,
  annotations: PathLike | Sequence[PathLike],
  features: Mapping[str, PathLike] | str,
  output: PathLike,
  **options: Any,
) -> DataSet:
  """Builds a data set from annotations and features, as ``vidcap build`` does.

  After an interruption, the same call resumes; of a finished data set it changes nothing.

  Args:
    format: form of the annotations: msrvtt, vatex, coco, csv, jsonl …, or ``package.module:read``.
    annotations: files, or a folder.
    features: stream name -> a folder of ID.npy, or a file or store of all videos.
    output: the folder to write.
    **options: the other flags of the command by name: ``splits``, ``missing='skip'``,
      ``optional=['audio']``, ``max_frames={'image': 40}``, ``min_count=3`` …

  Returns:
    The data set: its folder, its manifest and what the build did.

  Raises:
    TypeError: an unknown keyword.
    UserError: bad input, found before a file is written where that is possible.

  Example:
    >>> import vidcap_jax as vc
    >>> vc.build(format='jsonl', annotations='data/source/captions.jsonl',
    ...          features={'image': 'data/source/image'}, output='data/new', min_count=1)
    DataSet('data/new')
    train            7 videos, 16 captions
    ...
  """
  flags = {'format': format, 'annotations': annotations, 'features': features, **options}
  made = options_of({**flags, 'output': output})
  manifest, report = build_data_set(made)
  return DataSet(pathlib.Path(made.out), manifest, report)
