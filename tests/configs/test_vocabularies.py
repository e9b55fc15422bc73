"""The vocabularies that the papers' configs state, by the word counts of the real files.

``word_counts.json`` holds how many words of the whole annotations of MSVD and MSR-VTT occur once,
twice …; ``benchmarks.vocabularies`` wrote it.
"""

import dataclasses
import pathlib
import re
import shlex

import pytest

import configs
from benchmarks import vocabularies
from data_prep.build import parse_options
from data_prep.dataset.options import Options, resolve
from vidcap_jax import config_files, models

FOLDER = pathlib.Path(configs.__file__).parent
COUNTS = vocabularies.read(pathlib.Path(__file__).with_name('word_counts.json'))
PAGE = FOLDER.parent / 'docs' / 'models.md'

# Config, data set, changes to the command of its docstring, number of words that the docstring
# states for the command so changed.
STATED = [
  ('dual_afr.py', 'msvd', {}, 12_596),
  ('dual_afr.py', 'msvd', {'leak_words_of': ()}, 9_466),
  ('dual_afr.py', 'msrvtt', {}, 8_209),
  ('dual_afr.py', 'msrvtt', {'min_count': 1}, 21_410),
  ('dual_afr.py', 'msrvtt', {'max_words': 18}, 8_071),
  ('dual_afr.py', 'msrvtt', {'min_count': 5, 'leak_words_of': ('val', 'test')}, 8_108),
  ('global2local.py', 'msrvtt', {}, 13_597),
  ('global2local.py', 'msrvtt', {'max_words': 21}, 13_491),
  ('global2local.py', 'msvd', {}, 3_418),
  ('global2local.py', 'msvd', {'min_count': 2}, 5_296),
  ('msrvtt_refocus.py', 'msrvtt', {}, 10_189),
  ('msvd_refocus.py', 'msvd', {}, 4_020),
  ('msrvtt_stats.py', 'msrvtt', {}, 10_543),
  ('msvd_stats.py', 'msvd', {}, 12_596),
  ('msvd_stats.py', 'msvd', {'leak_words_of': ()}, 9_466),
]
# Numbers in the docstrings that are the papers', or assumed.
OTHERS = {
  'dual_afr.py': {12_594, 8_071, 13_276},
  'global2local.py': {13_491, 3_468},
  'msvd_stats.py': {13_010},
  'vatex_fusion.py': {10_000},
}
NOT_AT_HAND = {('dual_afr.py', 'mvad'): 13_276, ('vatex_fusion.py', 'vatex'): 10_000}
FILES = sorted({file for file, *_ in STATED} | {file for file, _ in NOT_AT_HAND})


def docstring(file: str) -> str:
  return config_files.load(FOLDER / file).__doc__


def vocabulary_paragraph(file: str) -> str:
  return docstring(file).partition('\nVocabulary: ')[2].partition('\n\n')[0]


def commands(file: str) -> dict[str, Options]:
  """The options of a docstring's build commands by data set, which --output=data/NAME names."""
  joined = docstring(file).replace('\\\n', ' ')
  found = {}
  for line in re.findall(r'vidcap build (--format.*)', joined):
    options = resolve(parse_options(shlex.split(line)))
    found[options.out.removeprefix('data/')] = options
  return found


def configured(file: str, data: str) -> int:
  vocabulary = config_files.load(FOLDER / file).VOCABULARY
  return vocabulary[data] if isinstance(vocabulary, dict) else vocabulary


def counts_of(options: Options) -> vocabularies.WordCounts:
  """The real files' word counts that a build with these options makes its vocabulary of."""
  (counts,) = (
    c
    for c in COUNTS
    if (c.form, c.splits, c.tokenizer) == (options.form, options.splits or '', options.tokenizer)
    and c.counted == ('train', *options.leak_words_of)
    and c.max_words == options.max_words
  )
  return counts


@pytest.mark.parametrize(('file', 'data', 'changes', 'words'), STATED)
def test_commands_give_the_numbers_that_docstrings_state(file, data, changes, words):
  options = dataclasses.replace(commands(file)[data], **changes)
  assert counts_of(options).vocabulary_size(options.min_count) == words
  assert f'{words:,}' in vocabulary_paragraph(file)
  if not changes:
    assert configured(file, data) == words


@pytest.mark.parametrize('file', FILES)
def test_every_number_of_a_docstring_is_checked(file):
  stated = {int(n.replace(',', '')) for n in re.findall(r'\d+,\d{3}', vocabulary_paragraph(file))}
  assert stated == {row[3] for row in STATED if row[0] == file} | OTHERS.get(file, set())


@pytest.mark.parametrize('file', FILES)
def test_commands_state_a_threshold_and_a_length(file):
  module = config_files.load(FOLDER / file)
  data_sets = module.VARIANTS.get('data', [file.partition('_')[0]])
  assert sorted(commands(file)) == sorted(data_sets)
  for command in re.findall(r'vidcap build (--format(?:.*\\\n)*.*)', module.__doc__):
    assert '--min_count=' in command
    assert '--max_words=' in command


@pytest.mark.parametrize(('file', 'data'), NOT_AT_HAND)
def test_data_that_was_not_at_hand_is_named_and_keeps_its_number(file, data):
  assert configured(file, data) == NOT_AT_HAND[file, data]
  assert 'not at hand' in vocabulary_paragraph(file)


@pytest.mark.parametrize('file', ['dual_afr.py', 'global2local.py'])
def test_streams_of_one_clock_are_declared_as_their_model_needs_them(file):
  for data, options in commands(file).items():
    config = config_files.load(FOLDER / file).get_config(f'data={data}')
    module = models.build(config.model, configured(file, data), config.train.dtype)
    assert options.blocks == module.config.needs.blocks


def test_only_a_command_whose_docstring_says_so_leaks():
  leaking = {(f, d) for f in FILES for d, o in commands(f).items() if o.leak_words_of}
  assert leaking == {('dual_afr.py', 'msvd'), ('msvd_stats.py', 'msvd')}
  for file, _ in leaking:
    assert re.search(r'test\s+leak', vocabulary_paragraph(file))


def test_the_table_of_models_has_the_words_built():
  (head,) = re.findall(r'\| model .*\| vocabulary as built .*', PAGE.read_text())
  column = [cell.strip() for cell in head.split('|')].index('vocabulary as built')
  rows = {
    row[1].strip(): row[column]
    for row in (line.split('|') for line in PAGE.read_text().splitlines())
    if len(row) == head.count('|') + 1
  }
  for file, data, changes, words in STATED:
    if not changes:
      model = file.removeprefix(f'{data}_').removesuffix('.py')
      assert f'{words:,}' in rows[model], (file, data)


def test_the_page_of_papers_has_the_words_built():
  text = (PAGE.parent / 'papers.md').read_text()
  headings = {'dual_afr.py': 'dualAFR', 'global2local.py': 'Global2Local'}
  for file, data, changes, words in STATED:
    heading = headings.get(file, 'STaTS' if 'stats' in file else 'Refocused')
    if not changes:
      section = text.partition(f'\n## {heading}')[2].partition('\n## ')[0]
      assert f'{words:,}' in section, (file, data)


def test_the_longest_captions_are_those_that_the_page_states():
  text = (PAGE.parent / 'data.md').read_text()
  longest = {c.form: c.longest for c in COUNTS if c.counted == ('train',) and not c.max_words}
  assert f'({longest["msvd"]} words on MSVD, {longest["msrvtt"]} on MSR-VTT)' in text
