"""The options a generated folder was made with: the same call resumes, another one is refused."""

import json
import pathlib
from collections.abc import Mapping

from vidcap_jax.errors import DataError
from vidcap_jax.files import write_json

RECIPE = 'recipe.json'


def check_recipe(directory: pathlib.Path, recipe: Mapping, program: str) -> None:
  """Refuses a folder made with other options; writes the options into a new one.

  Args:
    directory: created if missing.
    recipe: the options, as JSON stores them.
    program: the module that fills the folder, for messages.

  Raises:
    DataError: the folder was made with other options (the message lists them), or it holds files
      that ``program`` did not make.
  """
  path = directory / RECIPE
  if path.is_file():
    saved = json.loads(path.read_text())
    differ = [key for key in recipe if saved.get(key) != recipe[key]]
    if differ:
      changes = ', '.join(f'{k}: {saved.get(k)!r} there, {recipe[k]!r} asked for' for k in differ)
      raise DataError(f'{directory}: made with other options ({changes}); give another folder')
    return
  if directory.is_dir() and any(directory.iterdir()):
    raise DataError(f'{directory}: not empty and not made by {program}; give another folder')
  directory.mkdir(parents=True, exist_ok=True)
  write_json(path, recipe)
