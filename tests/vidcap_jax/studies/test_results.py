"""The command that prints the table of results, and writes it into a page."""

import json

import pytest

from tests.vidcap_jax.studies import finished
from vidcap_jax.studies import examples, markdown, results


def test_what_is_printed_and_written(tmp_path, capsys):
  pytest.importorskip('matplotlib')
  finished.write(tmp_path / 'runs' / 'a', cider=0.4)
  finished.write(tmp_path / 'runs' / 'b', train__epochs=20.0)
  begin, end = markdown.marks(results.BLOCK)
  page = tmp_path / 'docs' / 'page.md'
  page.parent.mkdir()
  page.write_text(f'# Title\n\n{begin}\n{end}\n\nLast.\n')
  files = [f'--json={tmp_path}/rows.json', f'--curves={tmp_path}/curves.png']
  results.main([f'--runs={tmp_path}/runs', f'--markdown={page}', *files])
  printed, log = capsys.readouterr()
  assert 'clips, val' in printed
  assert 'clips, test' in printed
  assert 'a, xe, test: no constant, nearest, people, swapped' in log  # there is no checkpoint
  assert [s['split'] for s in json.loads((tmp_path / 'rows.json').read_text())] == ['val', 'test']
  assert (tmp_path / 'curves.png').read_bytes().startswith(b'\x89PNG')
  text = page.read_text()
  assert text.startswith('# Title\n')
  assert text.endswith('Last.\n')
  assert '](../curves.png)' in text
  assert text.count('    vidcap train ') == 2
  assert str(tmp_path) not in text


def test_a_new_page_has_room_for_scores_and_captions(tmp_path):
  finished.write(tmp_path / 'runs' / 'a')
  page = tmp_path / 'page.md'
  for _ in range(2):  # the second time it is there
    results.main([f'--runs={tmp_path}/runs', f'--markdown={page}', '--baselines=none'])
    markdown.check_page('--markdown', str(page), examples.BLOCK)
  headings = [line for line in page.read_text().splitlines() if line.startswith('#')]
  assert headings == [
    '# Results on clips',
    '## Scores',
    '### clips, val',
    '### clips, test',
    '### Time and size',
    '## Captions',
  ]


def test_problems_are_found_before_anything_is_read(tmp_path):
  page = tmp_path / 'page.md'
  page.write_text('# No marks\n')
  with pytest.raises(SystemExit, match='--markdown='):
    results.main([f'--runs={tmp_path}/none', f'--markdown={page}'])
  with pytest.raises(SystemExit, match='--runs=.*no run'):
    results.main([f'--runs={tmp_path}'])


def test_a_metric_without_curves_is_refused(tmp_path):
  finished.write(tmp_path / 'runs' / 'a')
  with pytest.raises(SystemExit, match='--metric=METEOR: .*give --curves=FILE'):
    results.main([f'--runs={tmp_path}/runs', '--metric=METEOR', '--baselines=none'])
