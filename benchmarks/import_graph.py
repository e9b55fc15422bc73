"""Packages from the top floor down: their sizes, and who imports from whom.

  python -m benchmarks.import_graph
  python -m benchmarks.import_graph --write=docs/images/architecture.svg

It reads the source files; nothing is imported or run. ``LAYERS`` is the rule, which
tests/end_to_end/test_import_layers.py checks: a package imports only from floors below its own.
"""

import argparse
import ast
import dataclasses
import math
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree

from vidcap_jax import command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = ('vidcap_jax', 'data_prep', 'configs', 'launch', 'benchmarks', 'examples')

# From the top floor down. Packages on one floor import nothing from each other.
LAYERS = (
  ('launch', 'examples', 'benchmarks'),
  ('vidcap_jax.main', 'vidcap_jax.__main__'),
  ('vidcap_jax.cli',),
  ('vidcap_jax.reporting',),
  ('vidcap_jax.serving',),
  ('vidcap_jax.api',),
  ('vidcap_jax.studies',),
  ('vidcap_jax.compilation',),
  ('vidcap_jax.training',),
  ('vidcap_jax.objectives',),
  ('vidcap_jax.rewards',),
  ('vidcap_jax.evaluation',),
  ('vidcap_jax.inference',),
  ('data_prep.import_checkpoint',),
  ('vidcap_jax.checkpoints',),
  ('configs',),
  ('data_prep',),
  ('vidcap_jax.annotations',),
  ('vidcap_jax.decoding',),
  ('vidcap_jax.models',),
  ('vidcap_jax.features',),
  ('vidcap_jax.data',),
  ('vidcap_jax.distributed',),
  ('vidcap_jax.config_files',),
  ('vidcap_jax.config_keys',),
  (
    'vidcap_jax.command_arguments',
    'vidcap_jax.command_errors',
    'vidcap_jax.config_diff',
    'vidcap_jax.config_section',
    'vidcap_jax.counts',
    'vidcap_jax.extensions',
    'vidcap_jax.failures',
    'vidcap_jax.files',
    'vidcap_jax.html_page',
    'vidcap_jax.program_name',
    'vidcap_jax.progress',
    'vidcap_jax.variants',
  ),
  ('vidcap_jax.errors',),
)
FLOOR = {package: floor for floor, layer in enumerate(LAYERS) for package in layer}


@dataclasses.dataclass(frozen=True)
class Package:
  """An entry of ``LAYERS``: how large it is, and how many imports it has from each other entry."""

  name: str
  modules: int
  lines: int
  imports: Mapping[str, int]


def find_modules() -> dict[str, pathlib.Path]:
  """The path of every module of the project, tests left out, by its dotted name."""
  modules = {}
  for folder in FOLDERS:
    for path in sorted((ROOT / folder).rglob('*.py')):
      parts = path.relative_to(ROOT).with_suffix('').parts
      modules['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = path
  return modules


def find_imports(path: pathlib.Path, modules: Mapping[str, pathlib.Path]) -> Iterator[str]:
  """The project's modules that a file imports, at its top or inside a function.

  Raises:
    UserError: the file has a relative import.
  """
  for node in ast.walk(ast.parse(path.read_text())):
    names = []
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      if node.level:
        raise UserError(f'{path}:{node.lineno}: a relative import; write the whole name')
      names = [f'{node.module}.{alias.name}' for alias in node.names]
    for name in names:
      while name and name not in modules:
        name = name.rpartition('.')[0]
      if name:
        yield name


def package_of(module: str) -> str:
  """The entry of ``LAYERS`` that a module belongs to.

  Raises:
    UserError: there is none.
  """
  name = module
  while name not in FLOOR:
    if '.' not in name:
      raise UserError(f'{module} is on no floor: add its package to LAYERS in {__file__}')
    name = name.rpartition('.')[0]
  return name


def read_packages() -> list[Package]:
  """Every entry of ``LAYERS``, from the top floor down."""
  modules = find_modules()
  count, lines = Counter[str](), Counter[str]()
  imports = {name: Counter[str]() for name in FLOOR}
  for module, path in modules.items():
    if module == 'vidcap_jax' and module not in FLOOR:
      continue
    name = package_of(module)
    count[name] += 1
    lines[name] += len(path.read_text().splitlines())
    for imported in find_imports(path, modules):
      if imported != 'vidcap_jax' and package_of(imported) != name:
        imports[name][package_of(imported)] += 1
  return [Package(name, count[name], lines[name], imports[name]) for name in FLOOR]


def table(packages: Sequence[Package]) -> str:
  """Name, modules, lines and imports of each package, a line each."""
  width = max(len(package.name) for package in packages)
  rows = [f'{"package":<{width}}  modules  lines  imports']
  for package in packages:
    imports = ', '.join(
      f'{name} {package.imports[name]}' for name in FLOOR if name in package.imports
    )
    rows.append(f'{package.name:<{width}}  {package.modules:7}  {package.lines:5}  {imports}')
  return '\n'.join(row.rstrip() for row in rows)


# ---------------------------------------------------------------- the picture

WIDTH = 860  # the width of a page
CELL, BAR, RIGHT = 24, 78, 42  # height of a row, the longest bar, room for the last heading
CHARACTER = 7.6  # width of a character, at most
INK, PALE, BAND, BLUE = '#24292f', '#57606a', '#eef1f4', '#2f6fb4'


def draw(packages: Sequence[Package]) -> str:
  """The floors as SVG: a row a package with its lines, and a column for each that is imported.

  Colours are fixed, on a white card, so that it can be read on light and dark pages.
  """
  columns = [p.name for p in packages if any(p.name in other.imports for other in packages)]
  bars = 20 + CHARACTER * max(len(_path(package.name)) for package in packages)
  left = bars + BAR + 48
  headings = [_path(name).removeprefix('vidcap_jax/') for name in columns]
  top = 34 + 0.87 * CHARACTER * max(map(len, headings))  # sine of 60 degrees
  height = top + CELL * len(packages) + 5 * len(LAYERS) + 30
  svg = ElementTree.Element(
    'svg', xmlns='http://www.w3.org/2000/svg', viewBox=f'0 0 {WIDTH} {height:.0f}', role='img'
  )
  svg.set('font-family', 'system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif')
  svg.set('font-size', '13')
  title = 'Packages from the top floor down, their lines of code, and imports between them'
  ElementTree.SubElement(svg, 'title').text = title
  _rectangle(svg, 0.5, 0.5, WIDTH - 1, height - 1, fill='#ffffff', stroke='#d0d7de', rx=8)
  _text(svg, 14, top - 12, 'package', fill=PALE)
  _text(svg, bars, top - 12, 'lines of code', fill=PALE)
  step = (WIDTH - RIGHT - left) / len(columns)
  column_centers = {name: left + step * (i + 0.5) for i, name in enumerate(columns)}
  for text, x in zip(headings, column_centers.values()):
    heading = _text(svg, 0, 0, text)
    heading.set('transform', f'translate({x + 4:.1f} {top - 12:.1f}) rotate(-60)')
  longest = max(package.lines for package in packages)
  largest = max(max(package.imports.values(), default=1) for package in packages)
  y, floor = top - 5, -1
  for package in packages:
    if FLOOR[package.name] != floor:
      floor = FLOOR[package.name]
      y += 5
      _rectangle(svg, 8, y, WIDTH - 16, CELL * len(LAYERS[floor]), fill=BAND, rx=4)
    baseline = y + CELL / 2 + 4.5
    _name(svg, 14, baseline, package.name)
    _rectangle(svg, bars, y + 6, BAR * package.lines / longest, CELL - 12, fill='#9aa7b4', rx=2)
    _text(svg, bars + BAR * package.lines / longest + 5, baseline, f'{package.lines:,}', fill=PALE)
    for name, x in column_centers.items():
      if name == package.name:
        _text(svg, x, baseline, '◆', fill='#9aa7b4', anchor='middle')
      elif count := package.imports.get(name, 0):
        _count(svg, x, y, step, count, strength=math.sqrt(count / largest))
    y += CELL
  note = 'Each number counts the imports of the column by the row; ◆ is the row itself. '
  note += 'A floor imports only from floors below it.'
  _text(svg, 14, y + 20, note, fill=PALE)
  ElementTree.indent(svg, ' ')
  return ElementTree.tostring(svg, encoding='unicode') + '\n'


def _count(
  svg: ElementTree.Element, x: float, y: float, width: float, count: int, strength: float
) -> None:
  """A number in a cell centred at x, the darker the closer ``strength`` is to 1."""
  opacity = 0.15 + 0.85 * strength
  cell = {'x': x - width / 2 + 1, 'y': y + 1, 'width': width - 2, 'height': CELL - 2}
  _rectangle(svg, **cell, fill=BLUE, fill_opacity=opacity, rx=3)
  fill = '#ffffff' if opacity > 0.55 else INK
  _text(svg, x, y + CELL / 2 + 4.5, str(count), fill=fill, anchor='middle')


def _path(name: str) -> str:
  """The folder or file of an entry of ``LAYERS``."""
  path = name.replace('.', '/')
  return f'{path}.py' if (ROOT / f'{path}.py').is_file() else path


def _name(svg: ElementTree.Element, x: float, y: float, name: str) -> None:
  """The path of a package, its own name in bold."""
  folder, slash, last = _path(name).rpartition('/')
  text = _text(svg, x, y, folder + slash, fill=PALE)
  ElementTree.SubElement(text, 'tspan', {'fill': INK, 'font-weight': '600'}).text = last


def _rectangle(
  svg: ElementTree.Element, x: float, y: float, width: float, height: float, **style: str | float
) -> None:
  size = {'x': x, 'y': y, 'width': width, 'height': height, **style}
  attributes = {
    name.replace('_', '-'): value if isinstance(value, str) else f'{value:.4g}'
    for name, value in size.items()
  }
  ElementTree.SubElement(svg, 'rect', attributes)


def _text(
  svg: ElementTree.Element, x: float, y: float, text: str, fill: str = INK, anchor: str = 'start'
) -> ElementTree.Element:
  attributes = {'x': f'{x:.1f}', 'y': f'{y:.1f}', 'fill': fill, 'text-anchor': anchor}
  element = ElementTree.SubElement(svg, 'text', attributes)
  element.text = text
  return element


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.import_graph',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--write', metavar='FILE', help='also draw it there, as SVG')
  options = parser.parse_args(arguments)
  if options.write:
    check_output('--write', options.write)
  packages = read_packages()
  print(table(packages))
  if options.write:
    pathlib.Path(options.write).write_text(draw(packages))


if __name__ == '__main__':
  main()
