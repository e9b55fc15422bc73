"""Published splits, by number, by list and by annotations."""

import pytest

from vidcap_jax.annotations import published
from vidcap_jax.annotations.model import AnnotatedVideo, Annotations
from vidcap_jax.annotations.splits import choose
from vidcap_jax.errors import DataError


def annotation(ids) -> Annotations:
  return Annotations({i: AnnotatedVideo(i, ['a']) for i in ids})


def sizes(splits) -> dict[str, int]:
  return {name: len(part) for name, part in splits.items()}


def test_msrvtt_by_number():
  ids = [f'video{n}' for n in range(10_000)]
  splits = choose('msrvtt', annotation([*reversed(ids), 'video10000', 'other']), {})
  assert sizes(splits) == {'train': 6513, 'val': 497, 'test': 2990}
  assert splits['val'][::-1] == ids[6513:7010]
  assert published.check(splits, published.counts_of('msrvtt', 'msrvtt', None), fail=True) == []
  without_test = choose('msrvtt', annotation(ids[:7010]), {})
  assert sizes(without_test) == {'train': 6513, 'val': 497}


def test_msrvtt_as_dual_afr_divides_the_training_set():
  ids = [f'video{n}' for n in range(10_000)]
  splits = choose('msrvtt_dual_afr', annotation(ids), {})
  assert sizes(splits) == {'train': 5513, 'val': 497, 'test': 1000}
  standard = choose('msrvtt', annotation(ids), {})
  assert splits['train'] + splits['test'] == standard['train']
  assert splits['val'] == standard['val']
  counts = published.counts_of('msrvtt', 'msrvtt_dual_afr', None)
  assert published.check(splits, counts, fail=True) == []
  with pytest.raises(DataError, match='test has 3 videos.*1,000'):
    published.check({'test': ids[:3]}, counts, fail=True)


def test_msvd_by_the_number_in_the_id_map():
  names = {f'{chr(97 + n % 26)}{n}_5_15': f'vid{n}' for n in range(1, 1971)}
  splits = choose('msvd', annotation([*names, 'spare_1_2']), names)
  assert sizes(splits) == {'train': 1200, 'val': 100, 'test': 670}
  assert splits['val'][0] == 'f1201_5_15'
  with pytest.raises(DataError, match=r"ids like vid2, and no video has one: 'b1_5_15'.*--id_map"):
    choose('msvd', annotation(names), {})


def test_lists_of_the_1ka_split(tmp_path):
  train = tmp_path / 'MSRVTT_train.9k.csv'
  train.write_text('video_id\n' + '\n'.join(f'video{n}' for n in range(9000)))
  test = tmp_path / 'MSRVTT_JSFUSION_test.csv'
  rows = [f'ret{n},msr{n},video{n},"a, b {n}"' for n in range(9000, 10_000)]
  test.write_text('\n'.join(['key,vid_key,video_id,sentence', *rows, rows[0]]))
  both = f'{train},{test}'
  splits = choose(both, annotation([]), {})
  assert sizes(splits) == {'train': 9000, 'test': 1000}
  counts = published.counts_of('msrvtt', both, None)
  assert counts == {'train': (9000,), 'test': (1000,)}
  assert published.check(splits, counts, fail=True) == []
  test.write_text('\n'.join(['key,vid_key,video_id,sentence', *rows[:-3]]))
  expected = 'test has 997 videos, published are 1,000'
  assert published.check(choose(both, annotation([]), {}), counts, fail=False) == [expected]
  with pytest.raises(DataError, match=f'{expected}; .*--counts=warn'):
    published.check(choose(both, annotation([]), {}), counts, fail=True)


def test_other_lists_have_no_published_counts(tmp_path):
  (tmp_path / 'train.txt').write_text('b\r\na\n\n')
  (tmp_path / 'my_dev_ids.csv').write_text('id,note\nc,x\n')
  both = f'{tmp_path}/train.txt,{tmp_path}/my_dev_ids.csv'
  assert choose(both, annotation([]), {}) == {'train': ['b', 'a'], 'val': ['c']}
  assert published.counts_of('msrvtt', both, None) == {}
  assert published.counts_of('csv', None, None) == {}
  assert published.counts_of('msrvtt', None, 'test') == {}


def test_activitynet_has_two_validation_annotations():
  counts = published.counts_of('activitynet', None, None)
  for right in (17_505, 17_031):
    assert published.check({'val': range(right)}, counts, fail=True) == []
  wrong = published.check({'val': range(9), 'other': range(9)}, counts, fail=False)
  assert wrong == ['val has 9 videos, published are 17,505 or 17,031']
