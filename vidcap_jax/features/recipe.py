"""What a generated folder was made from, so that the same call goes on and another is refused."""

import json
import pathlib
from collections.abc import Mapping

from vidcap_jax.errors import DataError

RECIPE = 'recipe.json'


def write_text(path: pathlib.Path, text: str) -> None:
  """Writes a file at once: it is never found half written."""
  partial = path.with_name(path.name + '.partial')
  partial.write_text(text)
  partial.replace(path)


def check_recipe(directory: pathlib.Path, recipe: Mapping, program: str) -> None:
  """Refuses a folder made with other options; otherwise notes them there.

  Args:
    directory: made if need be.
    recipe: the options, as JSON holds them.
    program: the module that makes the folder, for messages.

  Raises:
    DataError: the folder was made with other options, naming them, or by something else.
  """
  path = directory / RECIPE
  if path.is_file():
    found = json.loads(path.read_text())
    differ = [key for key in recipe if found.get(key) != recipe[key]]
    if differ:
      changes = ', '.join(f'{k}: {found.get(k)!r} there, {recipe[k]!r} asked for' for k in differ)
      raise DataError(f'{directory}: made with other options ({changes}); give another folder')
    return
  if directory.is_dir() and any(directory.iterdir()):
    raise DataError(f'{directory}: not empty and not made by {program}')
  directory.mkdir(parents=True, exist_ok=True)
  write_text(path, json.dumps(recipe, indent=1) + '\n')
