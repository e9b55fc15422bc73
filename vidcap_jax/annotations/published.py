"""Splits that papers share: their ranges of ids, and how many videos each has.

Counts are of videos (clips), as published; where several counts are in use, all of them.
"""

import pathlib
import re
from collections.abc import Mapping, Sized

from vidcap_jax.annotations.model import Annotations
from vidcap_jax.errors import DataError

Counts = Mapping[str, tuple[int, ...]]

# Splits by the number in a video's id.
NUMBERED: Mapping[str, tuple[str, Mapping[str, range]]] = {
  'msrvtt': (
    'video',
    {'train': range(6513), 'val': range(6513, 7010), 'test': range(7010, 10_000)},
  ),
  'msvd': ('vid', {'train': range(1, 1201), 'val': range(1201, 1301), 'test': range(1301, 1971)}),
  # Of dualAFR, which divides MSR-VTT's training set, as the test captions were not public then. The
  # paper doesn't say which videos; here the test has the last 1,000.
  'msrvtt_dual_afr': (
    'video',
    {'train': range(5513), 'val': range(6513, 7010), 'test': range(5513, 6513)},
  ),
}

# The splits that annotations of a form have. ActivityNet's validation set has two annotations.
OFFICIAL: Mapping[str, Counts] = {
  **{
    name: {split: (len(numbers),) for split, numbers in ranges.items()}
    for name, (_, ranges) in (*NUMBERED.items(), ('msvd_corpus', NUMBERED['msvd']))
  },
  'vatex': {'train': (25_991,), 'val': (3_000,), 'test': (6_000,), 'private_test': (6_278,)},
  'activitynet': {'train': (37_421,), 'val': (17_505, 17_031)},
}

# Lists of ids by their file's name: MSR-VTT's 1k-A test and the training sets that go with it.
LISTS: Mapping[str, Counts] = {
  'msrvtt_train.7k': {'train': (7_010,)},
  'msrvtt_train.9k': {'train': (9_000,)},
  'msrvtt_jsfusion_test': {'test': (1_000,)},
}


def by_number(
  name: str, annotations: Annotations, names: Mapping[str, str]
) -> dict[str, list[str]]:
  """The annotation's ids in each split of ``NUMBERED[name]``; splits without videos are omitted.

  Args:
    name: a key of ``NUMBERED``.
    annotations: as read.
    names: other names of videos, used where an id itself has no number.

  Raises:
    DataError: no id has a number.
  """
  prefix, ranges = NUMBERED[name]
  splits: dict[str, list[str]] = {}
  for video_id in annotations.videos:
    number = _number(video_id, prefix)
    if number is None:
      number = _number(names.get(video_id, ''), prefix)
    for split in (split for split, numbers in ranges.items() if number in numbers):
      splits.setdefault(split, []).append(video_id)
  if not splits:
    raise DataError(
      f'--splits={name} needs ids like {prefix}{ranges["train"][1]}, and no video has one: '
      f'{", ".join(map(repr, list(annotations.videos)[:3]))}, …; '
      'give their other names with --id_map=FILE'
    )
  return {split: splits[split] for split in ranges if split in splits}


def _number(video_id: str, prefix: str) -> int | None:
  """The number in an id like video7, or None."""
  numbered = re.fullmatch(prefix + '([0-9]{1,9})', video_id)
  return int(numbered[1]) if numbered else None


def counts_of(form: str, splits: str | None, split: str | None) -> Counts:
  """The published counts of the chosen splits; empty if those are not published ones.

  Args:
    form: of the annotation, whose own splits count if neither of the others is given.
    splits: as ``--splits``: a name, or files.
    split: as ``--split``.
  """
  if split is not None:
    return {}
  if splits is None:
    return OFFICIAL.get(form, {})
  if splits in NUMBERED:
    return OFFICIAL[splits]
  known: dict[str, tuple[int, ...]] = {}
  for path in splits.split(','):
    name = pathlib.Path(path).name.lower()
    known |= next((counts for start, counts in LISTS.items() if name.startswith(start)), {})
  return known


def check(videos: Mapping[str, Sized], counts: Counts, *, fail: bool) -> list[str]:
  """Notes on splits that differ from their published size; splits without one pass.

  Raises:
    DataError: a split differs, and ``fail`` is set.
  """
  wrong = []
  for split, part in videos.items():
    if split in counts and len(part) not in counts[split]:
      right = ' or '.join(f'{n:,}' for n in counts[split])
      wrong.append(f'{split} has {len(part):,} videos, published are {right}')
  if wrong and fail:
    raise DataError(
      f'not the published splits: {"; ".join(wrong)}; are all files of --annotations and --splits '
      'given? --counts=warn builds it anyway'
    )
  return wrong
