"""A headless browser of the system for tests of pages, driven by Playwright."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

CHROMIUM = ('chromium', 'chromium-browser', 'google-chrome', 'chromium-headless-shell')
FIREFOX = ('firefox', 'firefox-esr')
# A camera that shows a test picture, which pages may use unasked.
CAMERA = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream']


def find_chromium() -> str:
  """Chromium's path; the test fails without it, so that no run leaves pages untested unnoticed."""
  if path := _find('CHROMIUM', CHROMIUM):
    return path
  pytest.fail(
    f'no browser for this test: none of {", ".join(CHROMIUM)} is installed. Install one, such as '
    'with: apt-get install chromium, or set CHROMIUM to the path of one',
    pytrace=False,
  )


def find_firefox() -> str:
  """Firefox's path; the test is skipped without it, as Chromium shows most of what it would."""
  if path := _find('FIREFOX', FIREFOX):
    return path
  pytest.skip(f'none of {", ".join(FIREFOX)} is installed: apt-get install firefox-esr, or FIREFOX')


def _find(variable: str, programs: Sequence[str]) -> str | None:
  """The first of the programs on PATH, or the one that an environment variable names."""
  names = filter(None, (os.environ.get(variable), *programs))
  return next(filter(None, map(shutil.which, names)), None)


@contextlib.contextmanager
def open_browser(name: str = 'chromium') -> Iterator[Any]:
  """A browser (``playwright.sync_api.Browser``) until the block ends.

  Playwright runs an event loop in this thread for as long, so keep the block in one test module.

  Args:
    name: 'chromium' or 'firefox'.
  """
  path = find_firefox() if name == 'firefox' else find_chromium()
  try:
    from playwright.sync_api import sync_playwright
  except ImportError:
    pytest.fail("no Playwright for this test: pip install -e '.[browser]'", pytrace=False)
  with sync_playwright() as playwright:
    if name == 'firefox':
      browser = _open_firefox(playwright, path)
    else:
      browser = playwright.chromium.launch(executable_path=path, args=CAMERA)
    yield browser
    browser.close()


def _open_firefox(playwright: Any, path: str) -> Any:
  """Firefox; skips the test if Playwright sends commands that this Firefox does not know."""
  from playwright.sync_api import Error

  browser = None
  try:
    # By WebDriver BiDi; Playwright's own protocol needs a patched Firefox.
    browser = playwright.firefox.launch(channel='moz-firefox', executable_path=path)
    browser.new_context().close()
  except Error as error:
    if browser:
      browser.close()
    reason = error.message.splitlines()[0]
    pytest.skip(
      f"this Playwright can't drive {path} ({reason}): take a newer Firefox and the extra 'browser'"
    )
  return browser
