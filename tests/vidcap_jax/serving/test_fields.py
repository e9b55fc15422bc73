"""Text fields of requests: what they choose, and what is refused."""

import pytest

from vidcap_jax.serving import fields
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.programs import Program, Programs


@pytest.fixture(scope='module')
def programs(restored):
  """Of a checkpoint that is decoded greedily by default, with a beam of 2."""
  return Programs([restored], None, (2, 4), 3, (4,))


@pytest.mark.parametrize(
  ('texts', 'program', 'captions', 'values'),
  [
    ({}, Program('greedy'), 1, ()),
    ({'captions': '1'}, Program('greedy'), 1, ()),
    ({'beam': '4'}, Program('beam', 4, 1), 1, (0.0,)),
    ({'length_penalty': '0.5'}, Program('beam', 2, 1), 1, (0.5,)),
    ({'captions': '2'}, Program('beam', 2, 2), 2, (0.0,)),
    ({'captions': '3'}, Program('beam', 4, 3), 3, (0.0,)),
    ({'method': 'beam', 'captions': '3'}, Program('beam', 4, 3), 3, (0.0,)),
    ({'seed': '7'}, Program('sample', 0, 1), 1, (1.0, 0.0, 1.0)),
    ({'top_k': '5', 'captions': '2'}, Program('sample', 0, 3), 2, (1.0, 5.0, 1.0)),
    ({'method': ' sample ', 'temperature': '2'}, Program('sample', 0, 1), 1, (2.0, 0.0, 1.0)),
  ],
)
def test_the_program_of_fields(programs, texts, program, captions, values):
  wanted = fields.parse(texts, programs)
  assert wanted.decoding.program == program
  assert (wanted.decoding.captions, wanted.decoding.values) == (captions, values)
  assert wanted.seed == int(texts.get('seed', 0))


@pytest.mark.parametrize(
  ('texts', 'code', 'words'),
  [
    ({'beem': '2'}, 'unknown_field', 'beam'),
    ({'': '2'}, 'unknown_field', 'file'),
    ({'beam': '3'}, 'bad_field', '2, 4'),
    ({'beam': '2', 'captions': '3'}, 'bad_field', 'captions=3'),
    ({'captions': '4'}, 'bad_field', 'captions=4'),
    ({'captions': '0'}, 'bad_field', 'captions'),
    ({'captions': '1e3'}, 'bad_field', 'captions'),
    ({'captions': '9' * 5000}, 'bad_field', 'captions'),
    ({'temperature': 'nan'}, 'bad_field', 'temperature'),
    ({'temperature': '0'}, 'bad_field', 'temperature'),
    ({'temperature': '1e-38'}, 'bad_field', '1e-30'),
    ({'captions': '٣'}, 'bad_field', 'captions'),
    ({'temperature': 'inf'}, 'bad_field', 'temperature'),
    ({'top_p': '1.1'}, 'bad_field', 'top_p'),
    ({'top_k': '-1'}, 'bad_field', 'top_k'),
    ({'seed': str(2**40)}, 'bad_field', '2147482624'),
    ({'seed': '1', 'method': 'greedy'}, 'bad_field', 'seed'),
    ({'beam': '2', 'seed': '1'}, 'bad_field', 'seed'),
    ({'beam': '2', 'top_k': '1'}, 'bad_field', 'top_k'),
    ({'method': 'telepathy'}, 'bad_field', 'greedy, beam, sample'),
    ({'attention': 'yes'}, 'bad_field', 'attention'),
  ],
)
def test_refused_fields(programs, texts, code, words):
  with pytest.raises(ApiError) as error:
    fields.parse(texts, programs)
  assert (error.value.status, error.value.code) == (422, code)
  assert words in error.value.message
  assert len(error.value.message) < 300


def test_attention_of_a_model_without_any(programs, monkeypatch):
  assert fields.parse({'attention': 'TRUE'}, programs).attention
  monkeypatch.setattr(programs, 'has_attention', False)
  with pytest.raises(ApiError, match='attention') as error:
    fields.parse({'attention': 'true'}, programs)
  assert error.value.code == 'no_attention'


def test_defaults_are_those_of_the_checkpoint(programs):
  settings = fields.defaults(programs)
  assert (settings['method'], settings['beam'], settings['captions']) == ('greedy', 2, 1)
  assert (settings['temperature'], settings['length_penalty']) == (1.0, 0.0)
