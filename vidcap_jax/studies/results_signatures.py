"""Signatures of the runs in a table of results: what all share, and what differs between rows."""

import dataclasses
from collections.abc import Sequence

from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import signature
from vidcap_jax.evaluation.signature import Signature
from vidcap_jax.studies.results_rows import Row

# A version alone does not change scores: tokenizer and scorers have versions of their own.
_COMPARED = tuple(key for key in signature.KEYS if key != 'v')


@dataclasses.dataclass(frozen=True)
class Signatures:
  """What the signatures of a table have in common.

  Attributes:
    shared: the fields that are equal in all of them; None where there is no signature.
    notes: a line for each field that differs, and one for rows without a signature.
  """

  shared: Signature | None
  notes: tuple[str, ...]


def summarise(rows: Sequence[Row], split: str) -> Signatures:
  """The signatures of the scores that rows have of a split.

  Scores of the best validation in place of an evaluation have none, nor have those of earlier
  versions.
  """
  signed: list[tuple[str, Signature]] = []
  unsigned: list[str] = []
  for row in rows:
    for member in row.scored(split):
      parsed = _parse(member.signature(split))
      if parsed is None:
        unsigned.append(row.name)
      else:
        signed.append((row.name, parsed))
  if not signed:
    return Signatures(None, ())
  shared, notes = {}, []
  for key in signature.KEYS:
    by_value: dict[str, list[str]] = {}
    for name, own in signed:
      by_value.setdefault(getattr(own, key), []).append(name)
    if len(by_value) == 1:
      shared[key] = next(iter(by_value))
    elif key in _COMPARED:
      notes.append(f'rows differ in {key}: {_listed(by_value)}')
  if unsigned:
    notes.append(f'scores without a signature: {_names(unsigned)}')
  return Signatures(Signature(**shared), tuple(notes))


def _parse(text: str) -> Signature | None:
  """The signature; None for '' and for one of a later version with other fields."""
  try:
    return signature.parse(text) if text else None
  except ConfigError:
    return None


def _listed(by_value: dict[str, list[str]]) -> str:
  return '; '.join(f'{value or "unknown"} ({_names(names)})' for value, names in by_value.items())


def _names(names: Sequence[str]) -> str:
  return ', '.join(dict.fromkeys(names))
