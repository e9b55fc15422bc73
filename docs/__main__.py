"""Builds the documentation site, and fails at the first build with a warning.

python -m docs [--output=build/site]
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

HERE = pathlib.Path(__file__).parent


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
  options = parser.parse_args(arguments)
  try:
    from sphinx.cmd.build import build_main
  except ModuleNotFoundError:
    print("error: Sphinx is needed: pip install -e '.[docs]'", file=sys.stderr)
    return 1
  # Fresh, because Sphinx doesn't see that the navigation has changed.
  strict = ['--fresh-env', '--fail-on-warning', '--keep-going', '--quiet', '--jobs=auto']
  code = build_main([*strict, '-b', 'html', '-c', str(HERE), str(HERE.parent), options.output])
  if not code:
    print(pathlib.Path(options.output) / 'index.html')
  return code


if __name__ == '__main__':
  sys.exit(main())
