"""What README.md and docs/ name exists: modules, files, links, flags and config keys."""

import ast
import contextlib
import functools
import importlib
import io
import pathlib
import re
import textwrap

import pytest
from ml_collections import ConfigDict

import configs
import vidcap_jax
from vidcap_jax import config_files
from vidcap_jax.cli import commands
from vidcap_jax.cli import flags as main_flags
from vidcap_jax.training import checks
from vidcap_jax.variants import each_variant

ROOT = pathlib.Path(__file__).parents[2]
# The change log also has names of earlier versions.
PAGES = sorted({*ROOT.glob('*.md'), *(ROOT / 'docs').rglob('*.md')} - {ROOT / 'CHANGELOG.md'})
FOLDERS = (
  'vidcap_jax',
  'data_prep',
  'configs',
  'launch',
  'benchmarks',
  'examples',
  'tests',
  'docs',
)
# Flags of pip, ruff, docker, kubectl, gcloud, sbatch, Beam, Dask, XLA, and of PyTorch projects.
FLAGS_OF_OTHERS = {
  *('account', 'all', 'check', 'command', 'data-disk', 'environment_type', 'flink_master', 'init'),
  *('no-nanny', 'nthreads', 'nworkers', 'partition', 'prefix', 'requeue', 'runner', 'setup_file'),
  *('no-deps', 'rm', 'target', 'user', 'worker', 'xla_gpu_enable_triton_gemm'),
  *('beam_size', 'feats_dir', 'lr', 'model', 'train_only', 'use_box'),
}


def each_page(test):
  names = [str(page.relative_to(ROOT)) for page in PAGES]
  return pytest.mark.parametrize('page', PAGES, ids=names)(test)


def is_placeholder(name: str) -> bool:
  """Whether a name stands for another, as in configs/NAME.py."""
  return bool(re.search(r'\b[A-Z_]{2,}\b|…|\*', name)) and not name.endswith('.md')


def module_path(name: str) -> pathlib.Path | None:
  base = ROOT.joinpath(*name.split('.'))
  for path in (base.with_suffix('.py'), base / '__init__.py', base):
    if path.exists():
      return path
  return None


def exists(name: str) -> bool:
  """Whether a dotted name is a module of the project or an attribute of one."""
  module, attributes = name, []
  while module and module_path(module) is None:
    module, _, attribute = module.rpartition('.')
    attributes.insert(0, attribute)
  if not module:
    return False
  found = importlib.import_module(module) if attributes else None
  for attribute in attributes:
    if not hasattr(found, attribute):
      return False
    found = getattr(found, attribute)
  return True


@each_page
def test_modules_that_are_run(page):
  named = set(re.findall(r'python[\d.]* -m ([\w.]+)', page.read_text()))
  modules = {name for name in named if name.split('.')[0] in FOLDERS and not is_placeholder(name)}
  wrong = []
  for name in modules:
    path = module_path(name)
    if path is None or (path.name == '__init__.py' and not path.with_name('__main__.py').exists()):
      wrong.append(name)
  assert not wrong


@each_page
def test_subcommands(page):
  named = re.findall(r'(?<![\w/.-])vidcap (studies )?([a-z]\w*)', page.read_text())
  known = {command.name for command in commands.COMMANDS}
  wrong = [name for study, name in named if name not in (commands.STUDIES if study else known)]
  assert not wrong


@each_page
def test_dotted_names(page):
  named = re.findall(rf'`((?:{"|".join(FOLDERS)})\.[\w.]+)[`(]', page.read_text())
  files = ('.py', '.md', '.json', '.sbatch')
  wrong = [name for name in named if not name.endswith(files) and not exists(name)]
  assert not wrong


@each_page
def test_imports_in_examples(page):
  wrong = []
  for block in re.findall(r'```python\n(.*?)```', page.read_text(), re.DOTALL):
    for node in ast.walk(ast.parse(textwrap.dedent(block))):
      if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
      elif isinstance(node, ast.ImportFrom):
        names = [f'{node.module}.{alias.name}' for alias in node.names]
      else:
        continue
      wrong += [name for name in names if name.split('.')[0] in FOLDERS and not exists(name)]
  assert not wrong


@each_page
def test_paths(page):
  named = re.findall(rf'(?<![\w/.:-])((?:{"|".join(FOLDERS)})/[\w./*…-]+)', page.read_text())
  names = [name.rstrip('.') for name in named if not is_placeholder(name)]
  wrong = [name for name in names if not (ROOT / name).exists()]
  assert not wrong


@each_page
def test_functions_and_classes(page):
  """As `vidcap_jax/data/order.py:TrainOrder` in docs/architecture.md."""
  named = re.findall(rf'`((?:{"|".join(FOLDERS)})/[\w/]+\.py):(\w+)`', page.read_text())
  wrong = [f'{file}:{name}' for file, name in named if name not in defined(ROOT / file)]
  assert not wrong


def defined(path: pathlib.Path) -> set[str]:
  """Names of the functions and classes of a file, and the variants of a config file."""
  body = ast.parse(path.read_text()).body
  names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
  if path.parent.name == 'configs' and path.name in configs.files():
    names |= {value for values in config_files.load(path).VARIANTS.values() for value in values}
  return names


def test_files_in_the_list_of_modules():
  page = (ROOT / 'docs' / 'architecture.md').read_text()
  tree = page.partition('## Where things are')[2].partition('\n## ')[0]
  named = set(re.findall(r'[a-z0-9_]+\.py\b', tree))
  known = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob('*.py')}
  assert len(named) > 100
  assert named <= known


def test_the_front_page_is_small_and_shows_a_picture():
  pictures = re.findall(r'!\[[^\]]+\]\(([^)]+)\)', (ROOT / 'README.md').read_text())
  (picture,) = [link for link in pictures if not link.endswith('/badge.svg')]
  assert (ROOT / picture).stat().st_size < 600_000


def test_the_citation_is_of_this_version():
  yaml = pytest.importorskip('yaml')
  cited = yaml.safe_load((ROOT / 'CITATION.cff').read_text())
  assert cited['version'] == vidcap_jax.__version__
  assert {'cff-version', 'message', 'title', 'authors'} <= cited.keys()


@each_page
def test_no_level_of_headings_is_left_out(page):
  text = re.sub(r'```.*?```', '', page.read_text(), flags=re.DOTALL)
  levels = [len(marks) for marks in re.findall(r'^(#+) ', text, re.MULTILINE)]
  assert levels[:1] == [1]
  assert all(after <= level + 1 for level, after in zip(levels, levels[1:]))


def test_the_navigation_of_the_site_has_every_page():
  body = ast.parse((ROOT / 'docs' / 'conf.py').read_text()).body
  (value,) = (
    n.value for n in body if isinstance(n, ast.Assign) and n.targets[0].id == 'NAVIGATION'
  )
  listed = [page for pages in ast.literal_eval(value).values() for page in pages.values()]
  pages = {str(page.relative_to(ROOT).with_suffix('')) for page in PAGES}
  assert sorted(listed) == sorted({*pages, 'CHANGELOG'} - {'README'})


@each_page
def test_links(page):
  wrong = []
  for link in re.findall(r'\]\(([^)\s]+)\)', page.read_text()):
    target, _, anchor = link.partition('#')
    if '://' in link:
      continue
    if workflow := re.match(r'\.\./\.\./actions/workflows/([^/]+)', link):  # a page of GitHub
      target = f'.github/workflows/{workflow[1]}'
    file = page.parent / target if target else page
    if not file.exists() or (anchor and anchor not in anchors(file)):
      wrong.append(link)
  assert not wrong


def anchors(page: pathlib.Path) -> set[str]:
  """The anchors that GitHub gives to the headings of a page."""
  headings = re.findall(r'^#+ (.*)$', page.read_text(), re.MULTILINE)
  kept = (re.sub(r'[^\w\- ]', '', heading.lower()) for heading in headings)
  return {heading.replace(' ', '-') for heading in kept}


@pytest.fixture(scope='module')
def flags() -> set[str]:
  """Every flag that a command of this project defines."""
  found = set()
  for folder in FOLDERS:
    for path in (ROOT / folder).rglob('*.py'):
      text = path.read_text()
      found |= set(re.findall(r"""['"]--([a-z][\w-]*)['"]""", text))
      found |= set(re.findall(r"DEFINE_\w+\(\s*'(\w+)'", text))
  return found


@each_page
def test_flags(page, flags):
  named = set(re.findall(r'(?<![\w-])--([a-z][\w-]*)(?![\w.-])', page.read_text()))
  assert not sorted(named - flags - FLAGS_OF_OTHERS)


def commands_of(page: str) -> list[tuple[str, str]]:
  """(module, arguments) of each command of the project in the code of a page."""
  code = re.sub(r'\\\n\s*', ' ', page)
  lines = [line for line in code.splitlines() if re.match(r' {4}|python -m|vidcap ', line)]
  found = []
  for part in (part for line in lines for part in re.split(r'&&|[|;]', line)):
    command = re.search(r'\bpython[\d.]* -m (?P<module>[\w.]+)(?P<rest>.*)', part)
    command = command or re.search(r'(?:^|\s)vidcap (?P<name>\w+)(?P<rest>.*)', part)
    if not command:
      continue
    module, rest = command.groupdict().get('module'), command['rest'].partition(' -- ')[0]
    if not module:
      module, rest = module_of(command['name'], rest)
    if module.split('.')[0] in FOLDERS and not is_placeholder(module):
      found.append((module, rest))
  return found


def module_of(name: str, arguments: str) -> tuple[str, str]:
  """The module that ``vidcap NAME`` runs, and the arguments for it."""
  if name == 'studies':
    study, _, arguments = arguments.strip().partition(' ')
    return f'vidcap_jax.studies.{study}', f' {arguments}'
  return commands.find_command(name).module, arguments


@functools.cache
def flags_of(module: str, *subcommand: str) -> set[str]:
  """The flags of a command, from its own help."""
  if module == 'vidcap_jax.main':
    return {*main_flags.flags.FLAGS}
  path = module_path(module)
  assert path, module
  if path.is_dir() or path.name == '__init__.py':
    module = f'{module}.__main__'
  elif not hasattr(importlib.import_module(module), 'main'):
    module = f'{module}_command'  # which it runs
  printed = io.StringIO()
  with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
    importlib.import_module(module).main([*subcommand, '--help'])
  return set(re.findall(r'(?<![\w-])--([a-z][\w-]*)', printed.getvalue()))


@each_page
def test_commands_have_the_flags_that_pages_give_them(page):
  wrong = []
  for module, arguments in commands_of(page.read_text()):
    named = re.findall(r'(?<![\w-])--(?!config\.)([a-z][\w-]*)(?![\w.-])', arguments)
    subcommand = re.findall(r'^ ([a-z]\w*)', arguments)
    known = flags_of(module, *subcommand)
    wrong += [f'{module} --{name}' for name in named if name not in known]
  assert not wrong


def test_a_wrong_flag_of_a_command_is_found():
  page = """
    python -m data_prep.build --format=csv \\
        --beam=3 && vidcap studies curves --runs=a
    python -m launch.local --devices=4 -- --config=a.py
  """
  assert [module for module, _ in commands_of(page)] == [
    *('data_prep.build', 'vidcap_jax.studies.curves', 'launch.local')
  ]
  assert 'format' in flags_of('data_prep.build')
  assert 'beam' not in flags_of('data_prep.build')


SECTIONS = 'data|train|fuse|objective|optimizer|runtime|decode|eval|checkpoint|log|mesh|model'
ENDINGS = ('.csv', '.json', '.mdb', '.safetensors', '.token', '.py')


@pytest.fixture(scope='module')
def keys() -> set[str]:
  """Every key of every config and stage, and of the models and objectives that they name."""
  example = config_files.load(ROOT / 'examples' / 'extending' / 'config.py', ['get_config'])
  found = keys_of(example.get_config())
  for file in configs.files():
    module = config_files.load(pathlib.Path(configs.__file__).with_name(file))
    for variant in each_variant(**module.VARIANTS):
      config = module.get_config(variant)
      stages = {f'stages.{name}.': stage for name, stage in config.stages.items()}
      for prefix, section in {'': config, **stages}.items():
        found |= keys_of(section)
        for kind in ('model', 'objective'):  # with the defaults that the files leave out
          if name := section.get(kind, {}).get('name'):
            defaults = {f'{kind}.{key}' for key in checks.defaults_of(kind, name)}
            found |= defaults | {f'{prefix}{key}' for key in defaults}
  return found


def keys_of(section: ConfigDict, prefix: str = '') -> set[str]:
  found = set()
  for name, value in section.items():
    found.add(prefix + name)
    if isinstance(value, ConfigDict):
      found |= keys_of(value, f'{prefix}{name}.')
  return found


@each_page
def test_config_keys(page, keys):
  text = page.read_text()
  named = re.findall(r'--config\.([\w.]+\w)', text)
  named += re.findall(rf'`((?:{SECTIONS})\.[a-z_.]*[a-z_])(?:=[^`]*)?`', text)
  names = [name for name in named if not is_placeholder(name) and not name.endswith(ENDINGS)]
  assert not [name for name in names if name not in keys]


MADE_BY_COMMANDS = re.compile(r'^<!-- (results|examples) -->$.*?<!-- \1 end -->', re.DOTALL | re.M)


@pytest.mark.parametrize(
  'page',
  [page for page in PAGES if MADE_BY_COMMANDS.search(page.read_text())],
  ids=lambda page: page.name,
)
def test_pages_of_results_are_tables_and_a_few_lines(page):
  text = page.read_text()
  assert 'results' in MADE_BY_COMMANDS.findall(text)
  lines = MADE_BY_COMMANDS.sub('', text).splitlines()
  prose = [line for line in lines if line and not line.startswith(('#', '|', '    ', '!['))]
  assert len(prose) <= 20
