"""Errors for callers from Python: keywords in place of flags, and those near to a wrong one."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from vidcap_jax.errors import UserError

_P = ParamSpec('_P')
_R = TypeVar('_R')


def named_in_errors(
  *others: str, elsewhere: Iterable[str] = ()
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
  """A decorator of public functions, whose errors then name keywords as Python writes them.

  A ``UserError`` from code that commands run too has ``split=test`` in place of ``--split=test``.
  A ``TypeError`` for an unknown keyword names the near ones.

  Args:
    *others: patterns of flags that are keywords too, besides those of the signature.
    elsewhere: settings that are keywords of ``Captioner.caption``, not of this function.
  """

  def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
    names = keywords_of(function)
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    takes_others = inspect.Parameter.VAR_KEYWORD in kinds

    @functools.wraps(function)
    def call(*args: _P.args, **keywords: _P.kwargs) -> _R:
      for name in keywords:
        if name not in names and not takes_others:
          raise TypeError(unexpected(name, names, elsewhere))
      with keywords_for_flags([*names, *others]):
        return function(*args, **keywords)

    return call

  return decorate


def keywords_of(function: Callable) -> list[str]:
  """The names of a function's parameters, without ``self`` and ``**others``."""
  parameters = inspect.signature(function).parameters.values()
  kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
  return [p.name for p in parameters if p.kind in kinds and p.name != 'self']


def unexpected(name: str, known: Iterable[str], elsewhere: Iterable[str] = ()) -> str:
  """The message about an unknown keyword argument; ``elsewhere`` as of ``named_in_errors``."""
  known = list(dict.fromkeys(known))
  near = difflib.get_close_matches(name, known)
  near_elsewhere = difflib.get_close_matches(name, list(elsewhere), 1)
  hint = f'known: {", ".join(known)}'
  if near:
    hint = f'did you mean {" or ".join(near)}?'
  elif near_elsewhere:
    hint = f'{near_elsewhere[0]} is a keyword of caption(); {hint}'
  return f'unexpected keyword argument {name!r}; {hint}'


@contextmanager
def keywords_for_flags(names: Iterable[str]) -> Iterator[None]:
  """Rewrites the message of a UserError by ``as_keywords``."""
  try:
    yield
  except UserError as error:
    error.args = (as_keywords(str(error), names), *error.args[1:])
    raise


def as_keywords(text: str, names: Iterable[str]) -> str:
  """A message with ``split=test`` for ``--split=test``; whole commands in it stay as they are.

  Args:
    text: the message.
    names: patterns of the flags that are keywords; others stay.
  """
  flags = '|'.join(names)
  return re.sub(
    rf'(python -m .*|vidcap [a-z]+ .*)|--({flags})\b', lambda found: found[1] or found[2], text
  )
