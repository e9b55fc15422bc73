"""The variant that stands after a config file's colon, as in ``--config=configs/x.py:table4``."""

import difflib

from vidcap_jax.errors import ConfigError


def read_variant(text: str, **known: tuple[str, ...]) -> dict[str, str]:
  """What stands after a config file's colon: ``variant=st,features=frcnn,runlocal``.

  Args:
    text: parts with commas between: NAME=VALUE; a bare value stands for ``variant=``, and
      ``runlocal`` asks for the small rehearsal.
    known: name -> the values it may have, the default first.

  Returns:
    A value for every known name, and 'runlocal': 'runlocal' or ''.

  Raises:
    ConfigError: an unknown name or value, with those known; or two values for one name.
  """
  chosen = {name: values[0] for name, values in known.items()} | {'runlocal': ''}
  given: dict[str, str] = {}
  for part in filter(None, text.split(',')):
    name, _, value = part.rpartition('=')
    if part == 'runlocal':
      chosen[part] = part
      continue
    name = name or 'variant'
    if name not in known or value not in known[name]:
      raise ConfigError(_unknown(part, known))
    if given.setdefault(name, value) != value:
      raise ConfigError(
        f'variant {text!r} has two values for {name}: {name}={given[name]}, {name}={value}; leave '
        'one of them out'
      )
    chosen[name] = value
  return chosen


def _unknown(part: str, known: dict[str, tuple[str, ...]]) -> str:
  """The message about an unknown part, with the part that is meant if one is near."""
  choices = [f'{name}={value}' for name, values in known.items() for value in values]
  short = [choice.removeprefix('variant=') for choice in [*choices, 'runlocal']]
  near = difflib.get_close_matches(part.removeprefix('variant='), short, 1)
  meant = f', did you mean {near[0]}?' if near else ';'
  return f'unknown variant {part!r}{meant} known: {", ".join([*choices, "runlocal"])}'


def each_variant(**known: tuple[str, ...]) -> list[str]:
  """The default ('') and every other value of every part, the other parts at their defaults.

  A part ``data``, which chooses a data set, is combined with all of these.

  Args:
    known: as of ``read_variant``.
  """
  data_sets = known.get('data', ('',))
  parts = {name: values for name, values in known.items() if name != 'data'}
  one_part = ['', *(f'{name}={value}' for name, values in parts.items() for value in values[1:])]
  prefixes = ['', *(f'data={data_set}' for data_set in data_sets[1:])]
  return [','.join(filter(None, (prefix, part))) for prefix in prefixes for part in one_part]
