"""Counting the words of annotations for vocabularies of all thresholds and lengths."""

import pytest

from benchmarks import vocabularies
from vidcap_jax.data.vocabulary import build_vocabulary

TRAIN = ['a dog runs fast', 'a dog', 'the dog', *['very often said'] * 11]
REST = {'val': ['a cat'], 'test': ['the bird sings loudly']}


@pytest.fixture
def arguments(tmp_path):
  rows = [('train', caption) for caption in TRAIN]
  rows += [(split, caption) for split, captions in REST.items() for caption in captions]
  lines = [f'v{split},{caption},{split}' for split, caption in rows]
  (tmp_path / 'clips.csv').write_text('\n'.join(['video_id,caption,split', *lines]))
  return ['--format=csv', f'--annotations={tmp_path}/clips.csv', '--max_words=0,3']


def test_sizes_are_those_of_the_vocabularies(arguments, tmp_path, capsys):
  vocabularies.main([*arguments, f'--write={tmp_path}/counts.json'])
  found = vocabularies.read(tmp_path / 'counts.json')
  assert {(c.counted, c.max_words) for c in found} == {
    (counted, length) for counted in (('train',), ('train', 'val', 'test')) for length in (0, 3)
  }
  for counts in found:
    others = [c for split in counts.counted[1:] for c in REST[split]]
    for min_count in (1, 2, 3, 10):
      built = build_vocabulary([*TRAIN, *others], min_count, counts.max_words)
      assert counts.vocabulary_size(min_count) == len(built)
    assert counts.longest == (counts.max_words or 4)
  printed = capsys.readouterr().out.splitlines()
  assert len(printed) == 5
  assert printed[1].split()[:5] == ['train', '0', '4', '12', '9']
  assert not {'dog', 'bird'} & {*(tmp_path / 'counts.json').read_text().split('"')}


def test_counts_replace_those_of_the_same_settings(arguments, tmp_path):
  file = tmp_path / 'counts.json'
  vocabularies.main([*arguments, f'--write={file}'])
  once = vocabularies.read(file)
  vocabularies.main([*arguments, f'--write={file}'])
  assert vocabularies.read(file) == once
  vocabularies.main([*arguments, '--tokenizer=whitespace', f'--write={file}'])
  assert len(vocabularies.read(file)) == 2 * len(once)


def test_a_larger_threshold_than_is_known(arguments, tmp_path):
  vocabularies.main([*arguments, f'--write={tmp_path}/counts.json'])
  with pytest.raises(ValueError, match='min_count=11'):
    vocabularies.read(tmp_path / 'counts.json')[0].vocabulary_size(11)


def test_wrong_commands(arguments, tmp_path, capsys):
  (tmp_path / 'clips.csv').write_text('video_id,caption,split\nv1,a,test\n')
  with pytest.raises(SystemExit, match='no split train.*test'):
    vocabularies.main(arguments)
  with pytest.raises(SystemExit):
    vocabularies.main([*arguments, '--max_words=long'])
  assert "'long'" in capsys.readouterr().err
