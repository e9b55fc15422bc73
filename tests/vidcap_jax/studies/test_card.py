"""The command that writes a run's card."""

from tests import tiny


def test_the_card_of_a_run(evaluated_run, command):
  with tiny.unscored_by_java():
    code, printed, _ = command('--mode=card', f'--checkpoint={evaluated_run}')
  page = evaluated_run / 'card.md'
  assert (code, printed.strip()) == (0, str(page))
  text = page.read_text()
  titles = [line.removeprefix('## ') for line in text.splitlines() if line.startswith('## ')]
  assert titles == [
    'Model',
    'Data',
    'Scores',
    'What it is not good at',
    'Training',
    'How to use it',
  ]
  assert str(evaluated_run.parent) not in text


def test_the_page_that_output_names(evaluated_run, command, tmp_path):
  with tiny.unscored_by_java():
    code, _, _ = command(
      '--mode=card', f'--checkpoint={evaluated_run}', f'--output={tmp_path}/mine.md'
    )
  assert code == 0
  assert (tmp_path / 'mine.md').read_text().startswith('# run\n')


def test_what_it_refuses(evaluated_run, command):
  code, _, error = command('--mode=card', f'--checkpoint={evaluated_run},{evaluated_run}')
  assert code == 1
  assert 'ensemble' in error
  code, _, error = command('--mode=card', f'--checkpoint={evaluated_run}', '--decode=beam=3')
  assert code == 1
  assert '--decode' in error
