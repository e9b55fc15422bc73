import pytest

from tests import tiny
from tests.vidcap_jax.reporting import results


def test_the_command_prints_the_page(evaluated_run, vidcap, tmp_path):
  output = tmp_path / 'report'
  with tiny.unscored_by_java():
    code, printed, notes = vidcap(
      'report', f'--run={evaluated_run}', '--split=val', '--attention=0', f'--output={output}'
    )
  assert (code, printed.strip()) == (0, str(output / 'index.html'))
  assert '--videos' in notes
  assert results.read_data(output, 'summary')['split'] == 'val'


@pytest.mark.parametrize(
  ('flags', 'named'),
  [
    (('--attention=-1',), '--attention=-1'),
    (('--atention=3',), '--attention'),
    (('--split=vall',), 'vall'),
    (('--compare=',), '--compare'),
  ],
)
def test_what_it_refuses(evaluated_run, vidcap, flags, named):
  code, _, error = vidcap('report', f'--run={evaluated_run}', *flags)
  assert code in (1, 2)
  assert named in error
