from vidcap_jax.reporting import comparison
from vidcap_jax.reporting.evaluations import Evaluation


def evaluation(signature):
  return Evaluation('x', None, None, {'signature': signature}, [])


def test_signatures_are_compared_where_both_are_known():
  one, other = evaluation('videos:3|beam:5'), evaluation('videos:3|beam:2')
  assert comparison.signature_differences(one, other) == [['beam', '5', '2']]
  assert comparison.signature_differences(one, evaluation(None)) == []
  assert comparison.signature_differences(one, evaluation('later:key')) == []


def test_settings_need_the_config_of_both_runs():
  assert comparison.config_differences(evaluation('a'), evaluation('b')) is None
