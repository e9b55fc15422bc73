"""Settings that a config leaves out, added where an override changes them.

They are defaults of models and objectives, and in a stage what the stage shares with the whole run.

Defaults that nothing changes stay out of the config, so that ``config.json`` is as it was before
there were such overrides.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

_NAMED = ('model', 'objective')  # sections whose keys depend on their `name`


def add(config: ConfigDict, given: Mapping[str, Any]) -> None:
  """Sets the defaults that the config or one of its stages lacks and an override changes.

  Args:
    config: may be locked.
    given: the overrides by dotted key, such as 'model.dropout' or 'stages.rl.train.batch_size'.
  """
  _add_to_stages(config, given)
  lacking = [
    (path, section, name)
    for path, section in _named_sections(config).items()
    for name in {k[len(path) + 1 :].split('.')[0] for k in given if k.startswith(f'{path}.')}
    if name not in section
  ]
  if not lacking:
    return
  defaults = of_sections(config, given)
  with config.unlocked():
    for path, section, name in lacking:
      if name in defaults[path]:
        section[name] = defaults[path][name]


def _add_to_stages(config: ConfigDict, given: Mapping[str, Any]) -> None:
  """Sets in stages the values of the whole run that overrides change in the stage alone."""
  for key in given:
    match key.split('.'):
      case ['stages', stage, *sections, name] if sections and stage in config.get('stages', {}):
        shared: Any = config
        for section in sections:
          shared = shared.get(section) if isinstance(shared, ConfigDict) else None
        if not isinstance(shared, ConfigDict) or isinstance(shared.get(name), ConfigDict | None):
          continue
        with config.unlocked():
          own = config.stages[stage]
          for section in sections:
            if section not in own:
              own[section] = ConfigDict()
            own = own[section]
          if name not in own:
            own[name] = shared[name]


def of_sections(config: ConfigDict, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
  """Dotted name -> key -> default, of the models and objectives that config or overrides name."""
  from vidcap_jax.training import checks  # slow to import, and needed by few commands

  defaults = {}
  for path, section in _named_sections(config).items():
    kind = path.rpartition('.')[2]
    name = given.get(f'{path}.name') or section.get('name')
    name = name or given.get(f'{kind}.name') or config[kind].name  # a stage changes other keys only
    defaults[path] = checks.defaults_of(kind, name)
  return defaults


def _named_sections(config: ConfigDict) -> dict[str, ConfigDict]:
  """Dotted name -> section, of all models and objectives: the config's own and those of stages."""
  sections = {kind: config[kind] for kind in _NAMED if kind in config}
  for stage, changes in config.get('stages', {}).items():
    sections |= {f'stages.{stage}.{kind}': changes[kind] for kind in _NAMED if kind in changes}
  return sections
