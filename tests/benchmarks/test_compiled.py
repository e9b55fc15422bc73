"""The table of compiled programs: what is compiled, in which order, and what becomes of it."""

import dataclasses
import json
import pathlib

import pytest

import configs
from benchmarks import compiled
from vidcap_jax.compilation import topology
from vidcap_jax.compilation.report import Collective, Contents, Report
from vidcap_jax.training.memory import Memory

MIB = 2**20
QUICK = 'configs/quickstart.py'  # one stage, no length buckets
BUCKETS = 'configs/vatex_fusion.py:temporal'
CONTENTS = Contents(
  [Collective('all-reduce', False, 1, 1, 89_500_000)], [], 0, [], 0, [], 0, 0, 0, 0
)
PAGE = f'# Title\n\n{compiled.BEGIN}\nold\n{compiled.END}\nend\n'


@pytest.fixture(autouse=True)
def _in_project(monkeypatch):
  monkeypatch.chdir(pathlib.Path(__file__).resolve().parents[2])


@pytest.fixture
def ran(monkeypatch):
  """Names of the programs that are compiled; those that are named 'beam' fail."""
  names = []

  def run_job(job, environment, timeout, tick):
    names.append((job.stage, job.program, job.length, job.config.train.dtype, job.rows))
    empty = Report(job.stage, job.program, job.length, job.rows, seconds=12.0)
    if job.program == 'beam':
      return dataclasses.replace(empty, error=f'not compiled after {timeout:g} s')
    return dataclasses.replace(
      *(empty,), memory=Memory(257 * MIB, 0, 0, 0), contents=CONTENTS, flops=479e9, estimate=13e-3
    )

  monkeypatch.setattr(compiled, 'run_job', run_job)
  monkeypatch.setattr(topology, 'installed_versions', lambda _: {'libtpu': '0.0'})
  monkeypatch.setattr(compiled.jax.config, 'update', lambda *_: None)
  return names


@pytest.fixture
def run(ran, tmp_path):
  """``run(*flags)``: the rows of the JSON file, and the page."""

  def run(*flags, sources=(QUICK,)):
    page = tmp_path / 'page.md'
    if not page.exists():
      page.write_text(PAGE)
    files = [f'--json={tmp_path}/rows.json', f'--markdown={page}', f'--reports={tmp_path}']
    compiled.main([*flags, *files, '--configs', *sources])
    file = tmp_path / 'rows.json'
    rows = json.loads(file.read_text())['rows'] if file.exists() else []
    return rows, page.read_text()

  return run


def test_every_config_file_is_listed():
  listed = {pathlib.Path(source.partition(':')[0]).name for source in compiled.CONFIGS}
  assert listed == set(configs.files())


def test_longest_captions_come_first_and_steps_before_decoders(run, ran):
  run('--buckets=all', '--dtypes=float32,bfloat16', sources=(QUICK, BUCKETS))
  longest = [(program, dtype) for _, program, _, dtype, _ in ran[:8]]
  assert longest == [(p, d) for d in compiled.DTYPES for p in ('step', 'step', 'beam', 'beam')]
  assert [length for stage, _, length, _, _ in ran[8:]] == [7, 9, 11, 13, 16] * 2


def test_only_the_longest_captions(run, ran):
  run('--dtypes=float32', sources=(BUCKETS,))
  assert [(program, length) for _, program, length, _, _ in ran] == [('step', 21), ('beam', 21)]


def test_stages_by_name(run, ran):
  sources = ('configs/vatex_fusion.py', 'configs/msrvtt_refocus.py')
  run('--dtypes=float32', '--stages=spatial,fusion,choose', sources=sources)
  programs = [(stage, program) for stage, program, *_ in ran]
  others = [('spatial', 'beam'), ('fusion', 'choose'), ('choose', 'key_frames')]
  assert programs == [('spatial', 'step'), *others]


def test_more_chips_get_larger_batches(run, ran):
  run('--topology=v5e:2x4,v5e:4x4,v5e:1', '--dtypes=float32', '--programs=step')
  rows = [row for *_, row in ran]
  assert rows == [rows[0], 2 * rows[0], rows[0]]


def test_a_failure_is_a_row_and_not_the_end(run, ran, capsys):
  rows, page = run('--timeout=7')
  assert [row['report']['program'] for row in rows] == ['step', 'beam'] * 2
  assert {row['dtype'] for row in rows} == {'float32', 'bfloat16'}
  failed = [line for line in page.splitlines() if '| beam' in line]
  assert len(failed) == 2
  assert all('not compiled after 7 s' in line for line in failed)
  assert '4 of 4' in capsys.readouterr().out


def test_rows_of_the_same_versions_are_kept(run, ran, monkeypatch):
  run()
  count = len(ran)
  rows, _ = run()
  assert len(ran) == count == len(rows)
  monkeypatch.setattr(topology, 'installed_versions', lambda _: {'libtpu': '0.1'})
  rows, page = run()
  assert (len(ran), len(rows)) == (2 * count, count)
  assert 'libtpu 0.1' in page
  assert 'libtpu 0.0' not in page


def test_no_program_is_begun_when_the_time_is_over(run, ran, capsys):
  rows, _ = run('--minutes=1e-9')
  assert not rows
  assert not ran
  assert '4 programs' in capsys.readouterr().out


def test_the_page(run):
  _, page = run('--topology=v5e:2x4,v5e:1', '--programs=step')
  before, block, after = compiled.markdown.split_page(page, compiled.BEGIN, compiled.END)
  assert (before, after) == ('# Title\n\n', '\nend\n')
  assert 'old' not in block
  titles = [line for line in block.splitlines() if line.startswith('###')]
  assert titles == [
    f'### v5e:{size}, {dtype}' for size in ('2x4', '1') for dtype in compiled.DTYPES
  ]
  assert block.count('1 all-reduce of 89.5 MB') == 4
  (cells,) = {line for line in block.splitlines() if line.startswith('| quickstart.py')}
  assert [cell.strip() for cell in cells.split('|')][5:9] == ['12', '257', '13', '479']


@pytest.mark.parametrize(('seconds', 'text'), [(0.87e-3, '13 + 0.87'), (4.7e-10, '13')])
def test_times_of_collectives(seconds, text, run, ran, monkeypatch):
  without = compiled.run_job

  def run_job(*arguments):
    return dataclasses.replace(without(*arguments), collective_estimate=seconds)

  monkeypatch.setattr(compiled, 'run_job', run_job)
  _, page = run('--programs=step', '--dtypes=float32')
  (line,) = [line for line in page.splitlines() if line.startswith('| quickstart.py')]
  assert line.split('|')[7].strip() == text


def test_the_page_from_the_json_file_alone(run, ran, tmp_path):
  _, page = run()
  count = len(ran)
  (tmp_path / 'page.md').write_text(PAGE)
  assert run('--page_only')[1] == page
  assert len(ran) == count


def test_a_page_without_marks_ends_the_command_before_anything_is_compiled(run, ran, tmp_path):
  (tmp_path / 'page.md').write_text('# Title\n')
  with pytest.raises(SystemExit, match='compiled'):
    run()
  assert not ran
