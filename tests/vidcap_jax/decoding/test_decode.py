"""Wrong settings of decoding, and decoding after the first pass."""

import dataclasses

import jax
import numpy as np
import pytest

from configs import common
from tests.cases import CASES, V
from tests.made_up import Setup
from vidcap_jax.checkpoints import restore
from vidcap_jax.decoding.decode import decode, encode
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import bind


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ('beams=3', "--decode=beams=3: unknown setting 'beams'; known: .*beam"),
    ('beam', "--decode=beam: '' is not of type int"),
    ('beam=two', "--decode=beam=two: 'two' is not of type int"),
    ('beam=0', 'decode.beam must be at least 1, got 0'),
    ('method=beamsearch', "unknown decode.method 'beamsearch'; known: beam, greedy, sample"),
    ('top_p=2', 'top_p'),
    ('temperature=-1', 'temperature'),
    ('length_penalty=nan', 'decode.length_penalty=nan: not a finite number'),
    ('top_p=nan', 'decode.top_p=nan'),
    ('temperature=inf', 'decode.temperature=inf'),
    ('min_length=-1', 'min_length'),
    ('beam=1000000000', 'decode.beam=1000000000: .*vocabulary'),
    ('no_repeat_ngram=-2', 'no_repeat_ngram'),
    ('pass=second', "decode.pass 'second'.*first"),
    ('pass=first', 'decode.pass.*TemporalSpatial.*passes'),
  ],
)
def test_wrong_decoding_settings(change, message, restored):
  with pytest.raises(ConfigError, match=message):
    restore.restore(restored.path, restored.mesh, [change])


def test_the_vocabulary_limits_the_beam_and_captions(restored):
  V = len(restored.vocabulary)
  for beam in (V + 1, 10**9):
    with pytest.raises(ConfigError, match=f'beam={beam}: .*{V}'):
      restore.with_decode(restored, {'method': 'beam', 'beam': beam, 'n_best': 2})
  with pytest.raises(ConfigError, match='n_best=1000000000: .*10000'):
    restore.with_decode(restored, {'method': 'sample', 'n_best': 10**9})
  widest = restore.with_decode(restored, {'method': 'beam', 'beam': V, 'n_best': V})
  assert widest.config.decode.beam == V


@pytest.fixture(scope='module')
def refocused():
  return Setup(next(case for case in CASES if case.name == 'refocus'), V)


def captions(setup, passes, method, **settings):
  config = dataclasses.replace(setup.module.config, passes=passes)
  settings = {**common.base().decode.to_dict(), 'beam': 3, 'method': method, **settings}

  @jax.jit
  def run(params, inputs):
    captioner = bind(type(setup.module)(config), params)
    memory = encode(captioner, inputs, settings)
    rows = np.arange(inputs.batch_size, dtype=np.int32)
    return decode(captioner, memory, 6, settings, jax.random.key(0), rows)

  return run(setup.params, setup.inputs)


@pytest.mark.parametrize('method', ['greedy', 'beam'])
def test_the_first_of_two_passes_is_that_of_a_model_with_one(refocused, method):
  first = captions(refocused, 2, method, **{'pass': 'first'})
  alone = captions(refocused, 1, method)
  np.testing.assert_array_equal(first.tokens, alone.tokens)
  np.testing.assert_allclose(first.log_prob, alone.log_prob, rtol=1e-6)
  last = captions(refocused, 2, method, **{'pass': 'last'})
  assert not np.allclose(last.log_prob, first.log_prob)
