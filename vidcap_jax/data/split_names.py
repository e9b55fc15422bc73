"""Spellings of the three usual splits; other names stay as they are."""

SPLIT_NAMES = {
  'train': ('train', 'training'),
  'val': ('val', 'valid', 'validation', 'validate', 'dev'),
  'test': ('test', 'testing'),
}
SPELLINGS = {spelling: name for name, group in SPLIT_NAMES.items() for spelling in group}


def usual_name(name: str) -> str:
  """``train``, ``val`` or ``test`` for their usual spellings; strips spaces from other names."""
  name = name.strip()
  return SPELLINGS.get(name.lower(), name)
