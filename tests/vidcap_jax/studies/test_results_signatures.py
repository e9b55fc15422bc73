"""Signatures of rows: what they share, and what is noted."""

from tests.vidcap_jax.studies import finished
from vidcap_jax.evaluation import signature
from vidcap_jax.studies import results_rows, results_signatures, results_table
from vidcap_jax.studies.results_baselines import Baselines

TEXT = 'nrefs:5|videos:3|tok:ptb-3.4.1|split:test|beam:{}|v:{}'


def rows_of(tmp_path, **signatures):
  """A run for each name, with its signature or None; names that end in a digit are seeds."""
  for seed, (name, text) in enumerate(signatures.items()):
    about = {} if text is None else {'signature': text}
    changes = {'train__epochs': float(len(name))} if name.isalpha() else {}
    finished.write(tmp_path / name, seed=seed, about=about, **changes)
  return results_rows.find([str(tmp_path)])[0]


def test_shared_fields_and_what_differs(tmp_path):
  rows = rows_of(tmp_path, a=TEXT.format(5, 1), bb=TEXT.format(1, 1), ccc=TEXT.format(5, 2))
  found = results_signatures.summarise(rows, 'test')
  assert found.shared == signature.parse('nrefs:5|videos:3|tok:ptb-3.4.1|split:test')
  assert found.notes == ('rows differ in beam: 5 (a, ccc); 1 (bb)',)  # a version is no difference
  section = results_table.sections(rows, Baselines({}, {}))[-1]
  for text in (results_table.as_text(section), results_table.scores_markdown(section)):
    assert 'nrefs:5|videos:3|tok:ptb-3.4.1|split:test' in text
    assert 'beam: 5 (a, ccc); 1 (bb)' in text
  entries = results_table.as_json([section])[0]['rows']
  assert [entry['signatures'] for entry in entries if entry['kind'] == 'run'] == [
    [TEXT.format(5, 1)],
    [TEXT.format(1, 1)],
    [TEXT.format(5, 2)],
  ]


def test_intervals_over_videos_are_kept_for_each_seed(tmp_path):
  finished.write(tmp_path / 'a', about={'intervals': {'CIDEr': [0.4, 0.6]}})
  rows, _ = results_rows.find([str(tmp_path)])
  section = results_table.sections(rows, Baselines({}, {}))[-1]
  entries = results_table.as_json([section])[0]['rows']
  (entry,) = [entry for entry in entries if entry['kind'] == 'run']
  assert entry['intervals'] == [{'CIDEr': [0.4, 0.6]}]
  assert entry['scores']['CIDEr']['interval'] is None  # over seeds


def test_scores_of_earlier_versions_are_named(tmp_path):
  later = 'nrefs:5|phase_of_the_moon:full'
  rows = rows_of(tmp_path, a=TEXT.format(5, 1), bb=None, ccc=later)
  found = results_signatures.summarise(rows, 'test')
  assert str(found.shared) == TEXT.format(5, 1)
  assert found.notes == ('scores without a signature: bb, ccc',)


def test_tables_of_runs_without_signatures_are_as_before(tmp_path):
  rows = rows_of(tmp_path, a=None, bb=None)
  assert results_signatures.summarise(rows, 'test') == results_signatures.Signatures(None, ())
  section = results_table.sections(rows, Baselines({}, {}))[-1]
  assert 'ignature' not in results_table.as_text(section) + results_table.scores_markdown(section)


def test_a_seed_with_other_decoding_is_noted(tmp_path):
  rows = rows_of(tmp_path, a0=TEXT.format(5, 1), a1=TEXT.format(1, 1))
  (row,) = rows
  assert len(row.members) == 2
  (note,) = results_signatures.summarise(rows, 'test').notes
  assert 'beam: 5 (a0); 1 (a0)' in note
