"""Logs the inputs that failed, with one line for a reason that all of the first inputs share."""

import pathlib
import re
from collections.abc import Callable

FIRST = 20  # inputs that must fail alike before further failures of the kind are only counted


class FailureLog:
  """Logs failures as they come, unless the first ``FIRST`` inputs all fail for the same reason.

  Such a reason, features of a wrong size for example, is logged once: with the first input, and at
  the end with the count.
  """

  def __init__(self, log: Callable[[str], object]):
    self._log = log
    self._inputs = 0
    self._held: list[str] = []  # lines after the first, while all inputs fail alike
    self._first_kind: str | None = None  # None: inputs that succeed, or fail in several ways
    self._same = 0

  def fail(self, name: str, reason: str, line: str | None = None) -> None:
    """Logs a failure.

    Args:
      name: of the input, a path or an id.
      reason: why it failed.
      line: what is logged; by default the reason, after the name if it doesn't begin with it.
    """
    line = line or (reason if reason.startswith(name) else f'{name}: {reason}')
    kind = _kind(name, reason)
    self._inputs += 1
    if self._inputs == 1:
      self._first_kind = kind
      self._log(line)
    elif kind != self._first_kind:
      if self._inputs <= FIRST:
        self._log_each()
      self._log(line)
      return
    elif self._inputs <= FIRST:
      self._held.append(line)
    self._same += 1

  def succeed(self) -> None:
    """Counts an input that didn't fail."""
    self._inputs += 1
    if self._inputs <= FIRST:
      self._log_each()

  def close(self) -> None:
    """Logs how many inputs failed for the reason of the first; call it at the end."""
    if self._inputs < FIRST:
      self._log_each()
    elif self._first_kind is not None:
      self._log(f'{self._same} inputs failed for this reason, of which the first is named')

  def _log_each(self) -> None:
    for line in self._held:
      self._log(line)
    self._held = []
    self._first_kind = None


def _kind(name: str, reason: str) -> str:
  """The reason without the input's name and without numbers, such as frames in a shape."""
  for part in (name, pathlib.PurePath(name).name, pathlib.PurePath(name).stem):
    reason = re.sub(rf'(?<!\w){re.escape(part)}(?!\w)', '', reason)
  return re.sub(r'\d+', '0', reason)
