"""Markdown tables, and blocks between the marks of a page."""

import pytest

from vidcap_jax.errors import UserError
from vidcap_jax.studies import markdown


def test_texts_are_aligned_left_and_numbers_right():
  rows = [('name', 'score'), ('a', '12.5'), ('long name', '7')]
  assert markdown.table(rows, left=(0,)).splitlines() == [
    '| name      | score |',
    '| --------- | ----: |',
    '| a         |  12.5 |',
    '| long name |     7 |',
  ]


def test_texts_of_data_are_no_markup():
  assert markdown.escaped('a*b | <UNK> [x] _y_ a_b') == r'a\*b \| \<UNK\> \[x\] \_y\_ a_b'


def test_only_the_block_of_a_page_changes(tmp_path):
  page = tmp_path / 'page.md'
  begin, end = markdown.marks('results')
  page.write_text(f'# Title\n\n{begin}\nold\n{end}\nafter\n')
  markdown.check_page('--markdown', str(page), 'results')
  markdown.write_block(str(page), 'results', 'new')
  assert page.read_text() == f'# Title\n\n{begin}\n\nnew\n\n{end}\nafter\n'


def test_a_new_page_is_the_block(tmp_path):
  page = tmp_path / 'page.md'
  markdown.check_page('--markdown', str(page), 'results')
  assert not page.exists()
  for text in ('old', 'new'):
    markdown.write_block(str(page), 'results', text)
  assert page.read_text().split('\n')[2:-3] == ['new']


def test_a_page_without_marks_is_refused_with_its_name(tmp_path):
  page = tmp_path / 'page.md'
  page.write_text('# Title\n')
  with pytest.raises(UserError, match=r'--markdown=.*page\.md.*<!-- results -->'):
    markdown.check_page('--markdown', str(page), 'results')


@pytest.mark.parametrize('order', ['begin begin end', 'end begin', 'begin end begin end', 'begin'])
def test_a_page_with_other_marks_is_refused(tmp_path, order):
  page = tmp_path / 'page.md'
  marks = dict(zip(('begin', 'end'), markdown.marks('results')))
  page.write_text('\n'.join(marks[name] for name in order.split()))
  with pytest.raises(UserError, match=r'--markdown=.*page\.md.*once'):
    markdown.check_page('--markdown', str(page), 'results')
