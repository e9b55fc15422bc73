"""Porter's English stemmer."""

import pytest

from vidcap_jax.evaluation.porter2 import stem


@pytest.mark.parametrize(
  ('words', 'expected'),
  [
    ('caresses ties cries gas gaps this kiwis bus', 'caress tie cri gas gap this kiwi bus'),
    (
      'agreed agreedly feed luxuriated hopping hoped falling',
      'agre agre feed luxuri hop hope fall',
    ),
    ('running runs ran runner jumped singing sing', 'run run ran runner jump sing sing'),
    ('happy cry by say enjoyed yying mayyll', 'happi cri by say enjoy yy mayyl'),
    ('nationalization rationally usefulness analogy quickly', 'nation ration use analog quick'),
    ('triplicate formalize electricity hopefulness talkative', 'triplic formal electr hope talkat'),
    ('replacement adoption communion allowance effective', 'replac adopt communion allow effect'),
    (
      'rate roll controlling skis dying news early inning',
      'rate roll control ski die news earli inning',
    ),
    (
      "dog's dogs' dogs's a is generous arsenal community",
      'dog dog dog a is generous arsenal communiti',
    ),
  ],
)
def test_stems_are_those_of_the_program(words, expected):
  assert [stem(word) for word in words.split()] == expected.split()
