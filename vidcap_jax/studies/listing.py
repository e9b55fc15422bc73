"""What each paper shows, and the commands that show the same of your runs."""

import dataclasses
from collections.abc import Mapping

PLACEHOLDERS = (
  'In the commands replace RUN, RUN_A … by workdirs, RUNS by a folder of them, VIDEOS by the\n'
  "folder of the video files, A,B by ids, OUT and FILE by what is to be written, DIR by SPICE's."
)


@dataclasses.dataclass(frozen=True)
class Shown:
  """A table, figure or statement of a paper.

  Attributes:
    name: as the paper numbers it.
    about: what it shows.
    commands: that show the same of your runs; empty for drawings, such as of an architecture.
  """

  name: str
  about: str
  commands: tuple[str, ...]


def results(name: str, paper: Mapping) -> list[Shown]:
  """All tables and figures of a paper.

  Args:
    name: the paper's key in ``published.json``.
    paper: its entry there.
  """
  shown = []
  for number, table in paper['tables'].items():
    command = f'python -m vidcap_jax.studies.tables --paper={name} --table={number} --runs=RUNS'
    commands = (command, *table.get('commands', ()))
    shown.append(Shown(f'Table {number}', table['shows'], commands))
  for figure in paper['figures']:
    commands = () if figure.get('result') is False else tuple(figure['commands'])
    shown.append(Shown(figure['name'], figure['shows'], commands))
  return shown


def lines(name: str, paper: Mapping) -> list[str]:
  """The tables and figures of a paper as text, each with its commands below it."""
  text = []
  for shown in results(name, paper):
    about = shown.about if shown.commands else f'{shown.about} (a drawing, no result)'
    text.append(f'  {shown.name}: {about}')
    text += [f'    {command}' for command in shown.commands]
  return text


def listing(papers: Mapping[str, Mapping]) -> str:
  """Every paper with its tables and figures.

  Args:
    papers: the contents of ``published.json``.
  """
  text = []
  for name, paper in papers.items():
    text += [f'--paper={name}  {cited(paper)}', *lines(name, paper)]
  return '\n'.join([*text, PLACEHOLDERS])


def cited(paper: Mapping) -> str:
  """A paper's title, authors and year."""
  return f'{paper["title"]} ({paper["authors"]}, {paper["year"]})'
