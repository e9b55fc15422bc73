"""The files of a report: data that pages load by script elements, and the page's own program.

Browsers let a page from the disk neither fetch files nor load modules. So the data are programs
that hand over a value, and the modules of the page are joined into one program.
"""

import importlib.resources
import json
import math
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vidcap_jax import html_page
from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output, write_text
from vidcap_jax.reporting.pictures import FOLDER as PICTURES

DATA, PAGE, INDEX = 'data', 'page', 'index.html'
SHARD_CHARACTERS = 400_000
# The modules of the page in the order of their imports, by package.
_MODULES = (
  *(('vidcap_jax.serving', name) for name in ('dom', 'maps', 'attention')),
  *(('vidcap_jax.reporting', name) for name in ('data', 'texts', 'charts')),
  *(('vidcap_jax.reporting', name) for name in ('overview', 'table')),
  *(('vidcap_jax.reporting', name) for name in ('video', 'main')),
)
_GENERATOR = '<meta name="generator" content="vidcap report">'
_UNFINISHED = f"""\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
{_GENERATOR}
<title>Unfinished report</title>
<p>This report is not finished: it is being written, or was interrupted. Run the command again.</p>
</html>
"""
_STYLES = ('vidcap_jax.serving', 'vidcap_jax.reporting')


def check(output: pathlib.Path, flag: str = '--output') -> None:
  """Checks that a report can be written; call it before the work starts.

  Raises:
    UserError: the folder can't be written to, or holds something else than a report.
  """
  check_output(flag, output, folder=True)
  if output.is_dir() and any(output.iterdir()) and not _is_report(output):
    raise UserError(f'{flag}={output}: it holds other files than a report; give another folder')


def _is_report(output: pathlib.Path) -> bool:
  """Whether a folder has a report, whole or begun."""
  index = output / INDEX
  begun = index.is_file() and _GENERATOR in index.read_text(encoding='utf-8', errors='replace')
  return begun or (output / DATA / 'summary.js').is_file()  # of an earlier version


def prepare(output: pathlib.Path) -> None:
  """Creates the folder, and removes an earlier report in it.

  Until ``write_page`` its page says that the report is not finished, as after Ctrl-C.
  """
  output.mkdir(parents=True, exist_ok=True)
  write_text(output / INDEX, _UNFINISHED)
  for name in (DATA, PAGE, PICTURES):
    if (output / name).is_dir():
      shutil.rmtree(output / name)
    (output / name).mkdir()


def write_page(output: pathlib.Path, title: str) -> None:
  """Writes the page without data."""
  write_text(output / PAGE / 'report.js', program())
  styles = [
    _read(package, 'page.css' if i == 0 else 'report.css') for i, package in enumerate(_STYLES)
  ]
  write_text(output / PAGE / 'report.css', '\n'.join(styles))
  page = _read('vidcap_jax.reporting', INDEX)
  write_text(output / INDEX, page.replace('{{title}}', html_page.text(title)))


def program() -> str:
  """The modules of the page as one program, each a function that returns what it exports."""
  parts = [_as_function(name, _read(package, f'{name}.js')) for package, name in _MODULES]
  return "(() => {\n'use strict';\nconst modules = {};\n" + ''.join(parts) + '})();\n'


def _as_function(name: str, module: str) -> str:
  exported = re.findall(r'^export (?:async )?(?:const|function|class) (\w+)', module, re.MULTILINE)
  body = re.sub(
    r"^import (\{[^}]+\}) from '\./(\w+)\.js';$",
    r'const \1 = modules.\2;',
    module,
    flags=re.MULTILINE,
  )
  body = re.sub(r'^export (?=\w)', '', body, flags=re.MULTILINE)
  return f'modules.{name} = (() => {{\n{body}return {{ {", ".join(exported)} }};\n}})();\n'


def _read(package: str, name: str) -> str:
  return (importlib.resources.files(package) / 'page' / name).read_text(encoding='utf-8')


def write_data(output: pathlib.Path, name: str, value: Any) -> None:
  """Writes a value for the page as data/NAME.js."""
  text = f'vidcapReport.receive({script_json(name)}, {script_json(value)});\n'
  write_text(output / DATA / f'{name}.js', text)


def script_json(value: Any) -> str:
  """JSON that is safe in a program, inside HTML too: no tag can begin or end in it.

  Numbers that are not finite, as of a run that diverged, are null.
  """
  options: dict[str, Any] = {'ensure_ascii': False, 'separators': (',', ':'), 'allow_nan': False}
  try:
    text = json.dumps(value, **options)
  except ValueError:
    text = json.dumps(_finite(value), **options)
  for character in '<>&\u2028\u2029':
    text = text.replace(character, f'\\u{ord(character):04x}')
  return text


def _finite(value: Any) -> Any:
  """The value with None for numbers that are not finite."""
  if isinstance(value, Mapping):
    return {key: _finite(item) for key, item in value.items()}
  if isinstance(value, list | tuple):
    return [_finite(item) for item in value]
  return None if isinstance(value, float) and not math.isfinite(value) else value


def write_shards(output: pathlib.Path, name: str, values: Sequence[Any]) -> list[int]:
  """Writes values as data/NAME-000.js, …, each of about ``SHARD_CHARACTERS``.

  Returns:
    The number of the first value of each file.
  """
  starts: list[int] = []
  for start, shard in _shards(values):
    write_data(output, f'{name}-{len(starts):03}', shard)
    starts.append(start)
  return starts


def _shards(values: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
  start, size = 0, 0
  for end, value in enumerate(values, 1):
    size += len(json.dumps(value, ensure_ascii=False))
    if size >= SHARD_CHARACTERS or end == len(values):
      yield start, list(values[start:end])
      start, size = end, 0
