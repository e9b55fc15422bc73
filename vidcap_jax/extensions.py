"""Models, objectives, annotation forms and feature readers that are defined outside the package.

Where a config or an option takes the name of a built-in one, it also takes ``package.module:name``.
The module is imported when it is needed: from the folder a command is started in, or installed.
docs/extending.md has an example of each kind.
"""

import importlib
from typing import Any

from vidcap_jax.errors import UserError


def is_external(name: str) -> bool:
  """Whether a name means an object outside the package, as ``package.module:name``."""
  return ':' in name


def load(name: str, setting: str, error: type[UserError]) -> Any:
  """Imports the object that ``package.module:name`` names.

  Args:
    name: as above.
    setting: the config key or option that holds the name, for messages.
    error: the class to raise.

  Raises:
    UserError: of the given class: the module can't be found, or has no such object. Errors inside
      the module are raised as they are, with their traceback.
  """
  module_name, _, attribute = name.partition(':')
  try:
    module = importlib.import_module(module_name)
  except (ImportError, ValueError) as problem:
    missing = getattr(problem, 'name', None)
    if isinstance(problem, ImportError) and not (
      missing and f'{module_name}.'.startswith(f'{missing}.')
    ):
      raise
    raise error(
      f'{setting} {name!r}: there is no module {module_name!r}; install its package, or start the '
      'command in the folder that it is in'
    ) from None
  try:
    return getattr(module, attribute)
  except AttributeError:
    raise error(f'{setting} {name!r}: module {module_name!r} has no {attribute!r}') from None
