"""Checks of captions and references before they are scored."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError, first_few


def check_references(references: Mapping[str, Sequence[str]]) -> None:
  """Raises DataError for no videos, a video without references, or an empty reference."""
  if not references:
    raise DataError('no videos to score: the references are empty')
  wrong = [v for v, captions in references.items() if not _is_list_of_text(captions)]
  if wrong:
    raise DataError(
      f'the references of a video must be a list of strings; not so: {listed(wrong)}', wrong
    )
  empty = [v for v, captions in references.items() if not captions]
  if empty:
    raise DataError(f'videos without references: {listed(empty)}', empty)
  blank = [v for v, captions in references.items() if not all(c.strip() for c in captions)]
  if blank:
    raise DataError(
      f'videos with an empty reference caption: {listed(blank)}; leave those out', blank
    )


def check_hypotheses(hypotheses: Mapping, references: Mapping) -> None:
  """Raises DataError unless each video of the references has one hypothesis, and no other has."""
  wrong = [v for v, caption in hypotheses.items() if not isinstance(caption, str)]
  if wrong:
    raise DataError(f'a hypothesis must be one string per video; not so: {listed(wrong)}', wrong)
  if not references:
    raise DataError('no videos to score: the references are empty')
  missing = [v for v in references if v not in hypotheses]
  unknown = [v for v in hypotheses if v not in references]
  if missing or unknown:
    problems = []
    if missing:
      problems.append(f'no hypothesis for {listed(missing)}')
    if unknown:
      problems.append(f'no references for {listed(unknown)}')
    part = '; are the references those of all splits? (--split=NAME)' if not unknown else ''
    part = part or _id_hint(missing, unknown)
    raise DataError(
      f'{len(hypotheses)} hypotheses do not match {len(references)} reference videos: '
      + '; '.join(problems)
      + part,
      [*(f'no hypothesis for {v}' for v in missing), *(f'no references for {v}' for v in unknown)],
    )


def _id_hint(missing: Sequence, unknown: Sequence) -> str:
  """Says in what the ids of references and hypotheses differ, if they are otherwise the same."""
  if {str(v) for v in missing} & {str(v) for v in unknown}:
    return '; some ids are numbers in one and text in the other: make all text'
  stems = [{os.path.splitext(str(v))[0] for v in ids} for ids in (missing, unknown)]
  if stems[0] & stems[1]:
    return '; some ids differ only in an ending such as .jpg: rename those of one'
  return ''


def _is_list_of_text(captions: Any) -> bool:
  if isinstance(captions, str) or not isinstance(captions, Collection):
    return False
  return all(isinstance(caption, str) for caption in captions)


def listed(ids: Sequence) -> str:
  """'3 videos (v1, v2, v3)', cut after the first few."""
  return f'{counted(len(ids), "video")} ({first_few(ids)})'
