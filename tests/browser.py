"""A headless browser for tests of pages: a Chromium of the system, driven by Playwright."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

PROGRAMS = ('chromium', 'chromium-browser', 'google-chrome', 'chromium-headless-shell')
# A camera that shows a test picture, which pages may use unasked.
CAMERA = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream']


def find_program() -> str:
  """The browser's path; the test fails without one, so that no run leaves pages untried unseen."""
  for name in filter(None, (os.environ.get('CHROMIUM'), *PROGRAMS)):
    if path := shutil.which(name):
      return path
  pytest.fail(
    f'no browser for this test: none of {", ".join(PROGRAMS)} is installed. Install one, such as '
    'with: apt-get install chromium, or set CHROMIUM to the path of one',
    pytrace=False,
  )


@contextlib.contextmanager
def open_browser() -> Iterator[Any]:
  """A browser (``playwright.sync_api.Browser``) until the block ends.

  Playwright runs an event loop in this thread for as long, so keep the block in one test module.
  """
  path = find_program()
  try:
    from playwright.sync_api import sync_playwright
  except ImportError:
    pytest.fail("no Playwright for this test: pip install -e '.[browser]'", pytrace=False)
  with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=path, args=CAMERA)
    yield browser
    browser.close()
