from tests import tiny
from vidcap_jax.evaluation.metrics import References
from vidcap_jax.reporting import findings


def test_captions_of_several_videos():
  found = findings.repeated(['a', 'b', 'c', 'b', 'a', 'b'])
  assert found == [{'caption': 'b', 'videos': [1, 3, 5]}, {'caption': 'a', 'videos': [0, 4]}]


def test_words_that_are_never_said_are_counted_by_video():
  references = References({'x': ['a red ball', 'red cube'], 'y': ['a red fox']})
  with tiny.without_java():
    found = findings.unsaid_words(['a ball', 'A cube'], references, {'a', 'red', 'ball', 'cube'})
    unsure = findings.unsaid_words(['a ball', 'a cube'], references, None)
  assert found == {'unsaid': [('red', 2)], 'unknown': [('fox', 1)]}
  assert unsure == {'unsaid': [('red', 2), ('fox', 1)], 'unknown': []}


def test_orders_leave_out_unknown_values():
  assert findings.ordered([3.0, None, 1.0, 2.0]) == [2, 3, 0]
  assert findings.ordered([3.0, None, 1.0, 3.0], highest=True) == [0, 3, 2]


def test_attention_goes_to_the_heads_of_all_orders():
  orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 2, 3]]
  assert findings.chosen_for_attention(orders, 3) == [0, 3, 1]
  assert sorted(findings.chosen_for_attention(orders, 100)) == [0, 1, 2, 3]
  assert findings.chosen_for_attention(orders, 0) == []
  assert findings.chosen_for_attention([], 5) == []


def test_differences_of_common_videos():
  own, other = {'a': {'CIDEr': 1.0}, 'b': {'CIDEr': 2.0}}, {'a': {'CIDEr': 0.25}}
  assert findings.differences(own, other, 'CIDEr') == {'a': 0.75}


def test_rounding_is_no_difference():
  (difference,) = findings.differences({'a': {'B': 0.3}}, {'a': {'B': 0.1 + 0.2}}, 'B').values()
  assert str(difference) == '0.0'
