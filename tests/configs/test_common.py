"""Every key of the defaults has an explanation beside it."""

import inspect

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.cli import explanations


def keys(section: ConfigDict, prefix: str = '') -> list[str]:
  found = []
  for name, value in section.items():
    found.append(f'{prefix}{name}')
    if isinstance(value, ConfigDict):
      found += keys(value, f'{prefix}{name}.')
  return found


def test_every_key_is_explained():
  explained = explanations.from_comments(inspect.getsource(common.base))
  # Their keys are stages, streams, and settings of a model or an objective.
  open_sections = ('stages.', 'data.recipe.streams.', 'model.', 'objective.')
  expected = [key for key in keys(common.base()) if not key.startswith(open_sections)]
  assert sorted(explained) == sorted(expected)
  assert not [key for key, text in explained.items() if not text]
