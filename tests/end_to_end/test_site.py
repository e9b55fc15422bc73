"""The documentation site: it builds without warnings, and its links lead somewhere."""

import functools
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest

from docs import __main__ as docs_command
from tests.html_pages import Page
from vidcap_jax.command_errors import PIPE_CLOSED

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope='module')
def site(tmp_path_factory) -> pathlib.Path:
  pytest.importorskip('sphinx')
  folder = tmp_path_factory.mktemp('site')
  command = [sys.executable, '-m', 'docs', f'--output={folder}']
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
  assert done.returncode == 0, done.stdout + done.stderr
  return folder


@functools.cache
def read(path: pathlib.Path) -> Page:
  return Page(path.read_text())


@functools.cache
def anchors(path: pathlib.Path) -> set[str]:
  return {name for _, attributes in read(path).tags if (name := attributes.get('id'))}


def broken_links(page: pathlib.Path) -> list[str]:
  """The links of a page, pictures and scripts included, that lead to no file or no anchor."""
  wrong = []
  for _, attributes in read(page).tags:
    link = attributes.get('href') or attributes.get('src') or ''
    parts = urllib.parse.urlsplit(link)
    if not link or parts.scheme or parts.netloc:
      continue
    file = page.parent / urllib.parse.unquote(parts.path) if parts.path else page
    fragment = urllib.parse.unquote(parts.fragment)
    if not file.is_file() or (fragment and fragment not in anchors(file.resolve())):
      wrong.append(link)
  return wrong


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site):
  pages = sorted(site.rglob('*.html'))
  assert len(pages) > 40
  broken = {str(page.relative_to(site)): broken_links(page) for page in pages}
  assert not {page: links for page, links in broken.items() if links}


@pytest.mark.slow
def test_the_front_page_leads_to_every_page(site):
  """By the navigation, which is the same on each page."""
  front = site / 'index.html'
  linked = {front.parent / link['href'].partition('#')[0] for link in read(front).all('a')}
  written = set((site / 'docs').rglob('*.html'))
  assert len(written) > 25
  assert written <= linked


@pytest.mark.slow
def test_pages_can_be_searched(site):
  index = (site / 'searchindex.js').read_text()
  assert 'docs/training' in index
  assert 'selfcrit' in index.replace('-', '').lower()


@pytest.mark.slow
def test_docstrings_are_shown_as_they_are_meant(site):
  """Blocks of a module's docstring are code; fields that share a description stay together."""
  models = (site / 'docs' / 'api' / 'models.html').read_text()
  assert re.search(r'<pre>.*encode\(inputs, noise, train\)', models)
  data = ' '.join(''.join(read(site / 'docs' / 'api' / 'data.html').texts).split())
  assert 'mean,std – per channel' in data
  assert 'The shape for people, free axes by their letters: (T, N, 2048).' in data


def test_a_broken_link_is_found(tmp_path):
  (tmp_path / 'other.html').write_text('<h1 id="here">Other</h1>')
  links = ['other.html#here', 'other.html', 'https://x/y', 'none.html', 'other.html#gone', '#top']
  page = tmp_path / 'page.html'
  page.write_text(''.join(f'<a href="{link}">x</a>' for link in links))
  assert broken_links(page) == ['none.html', 'other.html#gone', '#top']


def test_a_closed_pipe_ends_the_command_quietly(monkeypatch):
  reader, writer = os.pipe()
  os.close(reader)
  with os.fdopen(writer, 'w') as stdout:
    monkeypatch.setattr('sys.stdout', stdout)
    with pytest.raises(SystemExit) as ended:
      docs_command.main(['--help'])
  assert ended.value.code == PIPE_CLOSED


@pytest.fixture
def links(monkeypatch):
  """``docs.__main__`` with a network, whose linkcheck finds the links that are added."""
  added = []

  def build(builder, output, *options):
    assert builder == 'linkcheck'
    lines = [
      json.dumps({'filename': 'a.md', 'lineno': i, 'status': status, 'uri': uri, 'info': info})
      for i, (uri, status, info) in enumerate(added, 1)
    ]
    pathlib.Path(output, 'output.json').write_text('\n'.join(lines))
    return 1

  monkeypatch.setattr(docs_command, '_build', build)
  monkeypatch.setattr(urllib.request, 'urlopen', lambda *_, **__: io.BytesIO())
  return added


def test_links_to_other_sites(links, capsys):
  links += [
    ('https://x/a', 'working', ''),
    ('https://x/b', 'redirected', 'https://x/c'),
    ('docs/data.md', 'local', ''),
    ('https://x/closed', 'broken', '403 Client Error: Forbidden for url: https://x/closed'),
  ]
  assert docs_command.check_links() == 0
  out = capsys.readouterr().out.splitlines()
  assert [line.partition(' ')[0] for line in out] == ['a.md:4:', '3']
  links += [('https://x/404', 'broken', '404 Client Error'), ('https://x/slow', 'timeout', '20 s')]
  assert docs_command.check_links() == 1
  out = capsys.readouterr().out
  assert re.search(r'^a\.md:5: https://x/404: .*404', out, re.MULTILINE)
  assert re.search(r'^a\.md:6: https://x/slow: ', out, re.MULTILINE)
  assert out.endswith('5 links to other sites, 2 broken\n')


def test_links_without_a_network(links, capsys, monkeypatch):
  def offline(*_, **__):
    raise urllib.error.URLError('no such host')

  monkeypatch.setattr(urllib.request, 'urlopen', offline)
  assert docs_command.check_links() == 1
  out, err = capsys.readouterr()
  assert out == ''
  for word in ('error:', 'no link was checked', 'no such host', 'network'):
    assert word in err
