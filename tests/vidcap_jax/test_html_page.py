"""Pages hold texts as they are, whatever characters these have."""

import base64
import hashlib

from tests.html_pages import Page
from vidcap_jax import html_page

NASTY = '<script>alert("1")</script> & \'quoted\''


def test_text_stays_text():
  body = [html_page.bullets([NASTY]), html_page.table([['head'], [NASTY]]), '']
  page = Page(html_page.document(NASTY, body))
  assert not page.all('script')
  assert sum(text == NASTY for text in page.texts) == 3  # title, list, table


def test_nothing_may_be_loaded():
  page = html_page.document('a', [])
  assert "default-src 'none'" in page
  assert 'http://' not in page
  assert 'https://' not in page


def test_only_the_script_of_the_page_may_run():
  script = 'document.title = "é";'
  page = html_page.document('a', [], script=script)
  digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
  assert f"script-src 'sha256-{digest}'" in page
  assert f'<script>{script}</script>' in page
  assert 'script' not in html_page.document('a', [])


def test_files_beside_the_page_are_loaded_only_if_asked():
  assert "media-src 'self' file:" in html_page.document('a', [], files=True)
  assert 'file:' not in html_page.document('a', [])
