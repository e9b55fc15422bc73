"""A small instance of each model, made once for all tests of objectives."""

import functools

from tests.cases import CASES
from tests.made_up import Setup


@functools.cache
def setup(name: str) -> Setup:
  """The instance of the case of that name, see ``tests/cases.py``."""
  return Setup(next(case for case in CASES if case.name == name))
