"""Captions and references that can't be scored."""

import pytest

from vidcap_jax.errors import DataError
from vidcap_jax.evaluation.score_inputs import check_hypotheses, check_references


@pytest.mark.parametrize('captions', ['a dog', 3, None, ['a dog', 3]])
def test_references_of_another_type_are_refused(captions):
  check_references({'v1': ['a dog'], 'v2': ('a cat', 'a dog')})
  with pytest.raises(DataError, match=r'list of strings.*\(v2\)'):
    check_references({'v1': ['a dog'], 'v2': captions})


def test_ids_that_are_numbers_in_one_and_text_in_the_other_are_named():
  with pytest.raises(DataError, match='no hypothesis.*7.*ids are numbers.*text'):
    check_hypotheses({7: 'a dog', 'v2': 'x'}, {'7': ['a dog'], 'v2': ['y']})
  with pytest.raises(DataError, match='v3') as error:
    check_hypotheses({'v2': 'a dog', 'v4': 'x'}, {'v2': ['a dog'], 'v3': ['y']})
  assert 'number' not in str(error.value)
