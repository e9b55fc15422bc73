"""Splits that papers share: where they are cut, and how many videos each has.

Counts are of videos (clips), as published; where several are in use, all of them.
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
}

# What annotations of a form say of themselves. ActivityNet's validation set has two annotations.
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
  """The annotation's ids in each split of ``NUMBERED[name]``; splits without any are left out.

  Args:
    name: a key of ``NUMBERED``.
    annotations: as read.
    names: other names of videos, tried where an id itself has no number.

  Raises:
    DataError: no id has a number.
  """
  prefix, ranges = NUMBERED[name]
  splits: dict[str, list[str]] = {}
  for video_id in annotations.videos:
    for text in (video_id, names.get(video_id, '')):
      if numbered := re.fullmatch(prefix + '([0-9]{1,9})', text):
        for split, numbers in ranges.items():
          if int(numbered[1]) in numbers:
            splits.setdefault(split, []).append(video_id)
        break
  if not splits:
    raise DataError(
      f'--splits={name} goes by ids like {prefix}{ranges["train"][1]}, and no video has one: '
      f'{", ".join(map(repr, list(annotations.videos)[:3]))}, …; '
      'give their other names with --id_map=FILE'
    )
  return {split: splits[split] for split in ranges if split in splits}


def counts_of(form: str, splits: str | None, split: str | None) -> Counts:
  """The published counts of splits that are made so; empty if they are one's own.

  Args:
    form: of the annotation, whose own splits are taken if neither of the others is given.
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
  """Notes on splits that are not of their published size; splits without one pass.

  Raises:
    DataError: there are some, and ``fail`` is set.
  """
  wrong = []
  for split, part in videos.items():
    if split in counts and len(part) not in counts[split]:
      right = ' or '.join(f'{n:,}' for n in counts[split])
      wrong.append(f'{split} has {len(part):,} videos, published are {right}')
  if wrong and fail:
    raise DataError(
      f'not the published splits: {"; ".join(wrong)}; are all files of --annotations and --splits '
      'given? --counts=warn goes on all the same'
    )
  return wrong
