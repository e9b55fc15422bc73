"""One config file per data set and paper; ``common.py`` explains every setting."""

import pathlib


def files() -> list[str]:
  """Names of the config files, without earlier names and code that several of them share."""
  paths = sorted(pathlib.Path(__file__).parent.glob('*.py'))
  return [p.name for p in paths if '\ndef get_config(' in p.read_text()]
