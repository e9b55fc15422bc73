"""Rows of word tables: which row each word has, and what tokens without a row have."""

import numpy as np

from vidcap_jax.checkpoints.pytorch.words import NEVER, WordRows
from vidcap_jax.data.vocabulary import BOS, EOS, PAD, SPECIAL, UNK

TABLE = np.arange(1.0, 13).reshape(4, 3)  # of 4 rows


def test_begin_and_end_are_one_row_and_the_unknown_word_has_its_own():
  rows = WordRows.of({1: 'a', 2: 'UNK', 3: 'dog'}, 0, 'UNK')
  assert rows.words == (*SPECIAL, 'a', 'dog')
  table = rows.embedding()(TABLE)
  np.testing.assert_array_equal(table, TABLE[[0, 0, 0, 2, 1, 3]])
  kernel = rows.logits_kernel()(TABLE)
  np.testing.assert_array_equal(kernel[:, [EOS, UNK, 4, 5]], TABLE[[0, 2, 1, 3]].T)
  np.testing.assert_array_equal(kernel[:, [PAD, BOS]], 0)
  bias = rows.logits_bias(np.array([10.0, 11, 12, 13]))
  np.testing.assert_array_equal(bias, [NEVER, NEVER, 10, 12, 11, 13])


def test_without_an_unknown_word():
  rows = WordRows.of({1: 'a', 2: 'b', 3: 'dog'}, 0, 'UNK')
  assert rows.words == (*SPECIAL, 'a', 'b', 'dog')
  np.testing.assert_array_equal(rows.embedding()(TABLE)[UNK], 0)
  np.testing.assert_array_equal(rows.logits_kernel()(TABLE)[:, UNK], 0)
  bias = rows.logits_bias(np.array([10.0, 11, 12, 13]))
  np.testing.assert_array_equal(bias, [NEVER, NEVER, 10, NEVER, 11, 12, 13])


def test_channels_in_another_order():
  rows = WordRows.of({1: 'a', 2: 'b', 3: 'dog'}, 0, 'UNK')
  np.testing.assert_array_equal(rows.embedding([2, 0, 1])(TABLE)[4], [6, 4, 5])
  np.testing.assert_array_equal(rows.logits_kernel([2, 0, 1])(TABLE)[:, 4], [6, 4, 5])


def test_tokens_without_a_row_take_no_probability():
  logits = np.float32([NEVER, NEVER, -80, -90])
  odds = np.exp(logits - logits.max())
  np.testing.assert_array_equal(odds[:2], 0)
