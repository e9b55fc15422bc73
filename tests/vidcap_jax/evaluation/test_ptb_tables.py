"""The tables of the tokeniser's automaton."""

from vidcap_jax.evaluation.ptb_tables import automaton


def test_tables_fit_each_other():
  tables = automaton()
  states = len(tables.rows)
  assert len(tables.classes) == 1 << 16  # of UTF-16 units
  assert len(tables.actions) == len(tables.accepts) == len(tables.longest) == states
  width = max(tables.classes) + 1
  assert max(tables.rows) + width == len(tables.following)
  assert min(tables.following) == -1
  assert max(tables.following) < states
  assert max(tables.actions) == 54
