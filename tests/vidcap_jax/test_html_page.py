"""Pages hold texts as they are, whatever characters these have."""

import html.parser

from vidcap_jax import html_page

NASTY = '<script>alert("1")</script> & \'quoted\''


class Reader(html.parser.HTMLParser):
  def __init__(self, page):
    super().__init__()
    self.tags, self.texts = [], []
    self.feed(page)

  def handle_starttag(self, tag, attrs):
    self.tags.append(tag)

  def handle_data(self, data):
    self.texts.append(data)


def test_text_stays_text():
  body = [html_page.bullets([NASTY]), html_page.table([['head'], [NASTY]]), '']
  page = Reader(html_page.document(NASTY, body))
  assert 'script' not in page.tags
  assert sum(text == NASTY for text in page.texts) == 3  # title, list, table


def test_nothing_may_be_loaded():
  page = html_page.document('a', [])
  assert "default-src 'none'" in page
  assert 'http://' not in page
  assert 'https://' not in page
