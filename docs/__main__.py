"""Builds the documentation site, and fails at the first build with a warning.

python -m docs [--output=build/site]
python -m docs --links                  checks the links to other sites instead
"""

import argparse
import json
import pathlib
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence

from vidcap_jax import command_errors

HERE = pathlib.Path(__file__).parent
REACHABLE = 'https://github.com'  # most links lead there
# Answers of sites that let no program in, which says nothing about the page.
REFUSALS = ('401 ', '403 ', '429 ')


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  parser = argparse.ArgumentParser(
    prog='python -m docs',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    '--output', default='build/site', metavar='DIR', help='folder (default: %(default)s)'
  )
  parser.add_argument(
    '--links', action='store_true', help='check the links to other sites, which needs a network'
  )
  options = parser.parse_args(arguments)
  try:
    import sphinx.cmd.build  # noqa: F401
  except ModuleNotFoundError:
    print("error: Sphinx is needed: pip install -e '.[docs]'", file=sys.stderr)
    return 1
  if options.links:
    return check_links()
  # Fresh, because Sphinx doesn't see that the navigation has changed.
  code = _build('html', options.output, '--fresh-env', '--fail-on-warning', '--keep-going')
  if not code:
    print(pathlib.Path(options.output) / 'index.html')
  return code


def _build(builder: str, output: str, *options: str) -> int:
  """Runs a builder of Sphinx; returns its exit code."""
  from sphinx.cmd.build import build_main

  common = ['--quiet', '--jobs=auto', '-b', builder, '-c', str(HERE)]
  return build_main([*options, *common, str(HERE.parent), output])


def check_links() -> int:
  """Prints the links to other sites that lead nowhere; returns 1 if there are any, else 0."""
  try:
    urllib.request.urlopen(REACHABLE, timeout=20).close()
  except urllib.error.HTTPError:  # an answer
    pass
  except OSError as error:
    print(
      f'error: no link was checked: {REACHABLE} does not answer ({error}); --links needs a network',
      file=sys.stderr,
    )
    return 1
  with tempfile.TemporaryDirectory() as folder:
    _build('linkcheck', folder)  # its exit code counts refusals too
    lines = (pathlib.Path(folder) / 'output.json').read_text(encoding='utf-8').splitlines()
  links = [json.loads(line) for line in lines]
  wrong = [link for link in links if link['status'] in ('broken', 'timeout')]
  refused = [link for link in wrong if link['info'].startswith(REFUSALS)]
  broken = [link for link in wrong if link not in refused]
  for kind, found in (('broken', broken), ('not let in, look yourself', refused)):
    for link in found:
      print(f'{link["filename"]}:{link["lineno"]}: {link["uri"]}: {kind}: {link["info"]}')
  external = [link for link in links if link['status'] not in ('local', 'unchecked', 'ignored')]
  print(f'{len(external)} links to other sites, {len(broken)} broken')
  return 1 if broken else 0


if __name__ == '__main__':
  sys.exit(main())
