"""How the three usual splits are spelled; any other name is kept as it is."""

SPLIT_NAMES = {
  'train': ('train', 'training'),
  'val': ('val', 'valid', 'validation', 'validate', 'dev'),
  'test': ('test', 'testing'),
}
SPELLINGS = {spelling: name for name, group in SPLIT_NAMES.items() for spelling in group}


def usual_name(name: str) -> str:
  """``train``, ``val`` or ``test`` for their usual spellings; other names without space around."""
  name = name.strip()
  return SPELLINGS.get(name.lower(), name)
