"""Every table and figure has commands that exist, with flags that they know."""

import argparse
import importlib
import re
import shlex

import pytest

from vidcap_jax.studies import listing, tables

PAPERS = tables.papers()
SHOWN = [
  pytest.param(shown, id=f'{name}, {shown.name}')
  for name, paper in PAPERS.items()
  for shown in listing.results(name, paper)
]
COMMANDS = sorted({command for shown in SHOWN for command in shown.values[0].commands})


class Parsed(Exception):
  """The flags of a command are known and complete."""


@pytest.mark.parametrize('shown', SHOWN)
def test_a_result_has_a_command_and_a_drawing_has_none(shown):
  drawing = re.search('architecture|overall idea|how .* works', shown.about)
  assert bool(drawing) != bool(shown.commands)


@pytest.mark.parametrize('command', COMMANDS)
def test_commands_are_modules_that_know_the_flags(command, monkeypatch):
  python, dash_m, module, *arguments = shlex.split(command)
  assert (python, dash_m) == ('python', '-m')
  parse = argparse.ArgumentParser.parse_args

  def stop_after_parsing(self, *arguments):
    parse(self, *arguments)
    raise Parsed

  monkeypatch.setattr(argparse.ArgumentParser, 'parse_args', stop_after_parsing)
  with pytest.raises(Parsed):
    importlib.import_module(module).main(arguments)


@pytest.mark.parametrize(
  ('paper', 'names'),
  [
    ('temporal_spatial_fusion', ['Table 1', 'Figure 1']),
    ('stats', [*(f'Table {i}' for i in range(1, 6)), *(f'Figure {i}' for i in range(1, 11))]),
    ('refocus', [*(f'Table {i}' for i in range(1, 4)), *(f'Figure {i}' for i in range(1, 5))]),
    ('dual_afr', [*(f'Table {i}' for i in range(1, 6)), *(f'Figure {i}' for i in range(1, 6))]),
    ('global2local', [*(f'Table {i}' for i in range(1, 4)), *(f'Figure {i}' for i in range(1, 8))]),
  ],
)
def test_no_table_or_figure_of_a_paper_is_left_out(paper, names):
  listed = [shown.name for shown in listing.results(paper, PAPERS[paper])]
  assert sorted(n for n in listed if n.startswith(('Table', 'Figure'))) == sorted(names)
  assert len(set(listed)) == len(listed)


def test_the_listing_has_every_command_below_its_paper():
  text = listing.listing(PAPERS)
  for name, paper in PAPERS.items():
    assert f'--paper={name}  {paper["title"]}' in text
  assert all(f'    {command}\n' in text + '\n' for command in COMMANDS)
