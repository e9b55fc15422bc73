"""METEOR's table of paraphrases."""

import numpy as np
import pytest

from vidcap_jax.evaluation import meteor_paraphrases
from vidcap_jax.evaluation.meteor_paraphrases import Paraphrases, read_entries


@pytest.fixture(scope='module')
def table() -> Paraphrases:
  words = {'at', 'least', 'minimum', 'a', 'of', 'take', 'part', 'in', 'participate', 'dog'}
  return Paraphrases(read_entries({'at least', 'take part in', 'participate in', 'dog'}, words))


def test_entries_of_both_directions(table):
  assert 'participate in' in table.of('take part in')
  assert {direction for direction, _ in table.of('take part in')['participate in']} == {0, 1}
  assert table.of('participate in')['take part in']
  assert table.of('a phrase of no entry') == {}


def test_entries_with_unknown_words_are_left_out(table):
  known = {'at', 'least', 'minimum', 'a', 'of', 'take', 'part', 'in', 'participate', 'dog'}
  for found in table.entries.values():
    assert all(known.issuperset(other.split()) for other in found)


def test_entries_by_the_phrases_of_references_are_those_of_both_sides():
  phrases = {'take part in', 'participate in', 'at least'}
  words = {word for phrase in phrases for word in phrase.split()}
  by_references = Paraphrases(read_entries(phrases, words, of_references=True))
  by_captions = Paraphrases(read_entries(phrases, words))
  for caption in phrases:
    expected, found = by_captions.of(caption), by_references.of(caption)
    for reference in phrases:
      assert sorted(found.get(reference, ())) == sorted(expected.get(reference, ()))
  assert by_references.of('take part in')['participate in']


def test_occurrences(table):
  captions = [
    ['they', 'take', 'part', 'in', 'it'],
    ['take', 'part'],
    ['people', 'participate', 'in'],
  ]
  found = table.occurrences(captions)
  assert found['take part in'] == [(0, 1, 3)]
  assert found['participate in'] == [(2, 1, 2)]


def lines_and_hashes(text: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  starts, ends = meteor_paraphrases._lines(text)
  hashes = meteor_paraphrases._hashes(meteor_paraphrases._words(text), starts, ends)
  return starts, ends, hashes


def test_lines_of_any_length_are_found_by_their_hash():
  lines = [b'', b'a', b'abcdefg', b'abcdefgh', b'abcdefghi', b'a' * 40, b'', b'b']
  starts, ends, hashes = lines_and_hashes(b''.join(line + b'\n' for line in lines))
  assert (ends - starts).tolist() == [len(line) for line in lines]
  assert hashes[0] == hashes[6]
  assert len(set(hashes.tolist())) == 7
  for line, expected in zip(lines, hashes, strict=True):
    other = b'x\n' + line + b'\nabc\n'  # the same after other text
    assert lines_and_hashes(other)[2][1] == expected


def test_entries_are_whole_in_blocks_of_any_size(monkeypatch, tmp_path):
  import gzip

  rng = np.random.default_rng(0)
  text = ''.join(f'0.{i}\n{"p" * rng.integers(1, 90)}\nq{i}\n' for i in range(500)).encode()
  (tmp_path / 'table.gz').write_bytes(gzip.compress(text))
  monkeypatch.setattr(meteor_paraphrases, '_BLOCK', 100)
  with (tmp_path / 'table.gz').open('rb') as file:
    blocks = list(meteor_paraphrases._whole_entries(file))
  assert b''.join(blocks) == text
  assert all(block.count(b'\n') % 3 == 0 for block in blocks)
