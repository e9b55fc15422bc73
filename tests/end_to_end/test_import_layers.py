"""Each package imports only from packages below its own, imports inside functions included."""

import ast
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[2]

# From the top down. Modules on one line import nothing of one another's packages.
LAYERS = (
  ('launch', 'examples', 'benchmarks'),
  ('vidcap_jax.main',),
  ('vidcap_jax.cli',),
  ('vidcap_jax.studies',),
  ('vidcap_jax.training',),
  ('vidcap_jax.objectives',),
  ('vidcap_jax.rewards',),
  ('vidcap_jax.evaluation',),
  ('vidcap_jax.inference',),
  ('vidcap_jax.checkpoints',),
  ('configs',),
  ('data_prep',),
  ('vidcap_jax.annotations',),
  ('vidcap_jax.decoding',),
  ('vidcap_jax.models',),
  ('vidcap_jax.features',),
  ('vidcap_jax.data',),
  ('vidcap_jax.distributed',),
  ('vidcap_jax.config_diff', 'vidcap_jax.files', 'vidcap_jax.progress', 'vidcap_jax.variants'),
  ('vidcap_jax.errors',),
)
DEPTH = {package: depth for depth, layer in enumerate(LAYERS) for package in layer}

# The commands render clips for a config without a data set.
ALLOWED = {('vidcap_jax.cli.modes', 'data_prep.synthetic.clips')}


def modules() -> dict[str, pathlib.Path]:
  """Every module of the project, without tests, by its dotted name."""
  found = {}
  for folder in ('vidcap_jax', 'data_prep', 'configs', 'launch', 'benchmarks', 'examples'):
    for path in sorted((ROOT / folder).rglob('*.py')):
      parts = path.relative_to(ROOT).with_suffix('').parts
      found['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = path
  return found


def imports(path: pathlib.Path, known: dict[str, pathlib.Path]) -> Iterator[str]:
  """The project's modules that a file imports, wherever in the file."""
  for node in ast.walk(ast.parse(path.read_text())):
    names = []
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{path}:{node.lineno}: a relative import'
      names = [f'{node.module}.{alias.name}' for alias in node.names]
    for name in names:
      while name and name not in known:
        name = name.rpartition('.')[0]
      if name:
        yield name


def package_of(module: str) -> str:
  """The entry of ``LAYERS`` that a module belongs to."""
  name = module
  while name not in DEPTH:
    assert '.' in name, f'{module} is in no layer: add its package to LAYERS'
    name = name.rpartition('.')[0]
  return name


def test_packages_import_only_from_below():
  known = modules()
  wrong = []
  for module, path in known.items():
    if module == 'vidcap_jax':
      continue
    for imported in imports(path, known):
      if imported == 'vidcap_jax' or (module, imported) in ALLOWED:
        continue
      here, there = package_of(module), package_of(imported)
      if here != there and DEPTH[here] >= DEPTH[there]:
        wrong.append(f'{module} imports {imported}')
  assert not wrong, '\n'.join(wrong)


def test_vidcap_jax_imports_neither_data_prep_nor_configs():
  known = modules()
  wrong = [
    f'{module} imports {imported}'
    for module, path in known.items()
    if module.startswith('vidcap_jax.')
    for imported in imports(path, known)
    if imported.partition('.')[0] in ('data_prep', 'configs') and (module, imported) not in ALLOWED
  ]
  assert not wrong, '\n'.join(wrong)
