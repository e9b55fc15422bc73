"""Keywords of a call choose the decoding method that reads them."""

import pytest

import vidcap_jax as vc
from tests import tiny
from vidcap_jax.api.decoding import METHOD_OF, changes
from vidcap_jax.decoding.decode import check_decode
from vidcap_jax.errors import ConfigError

GREEDY = {**tiny.get_config().decode, 'method': 'greedy', 'beam': 5}
BEAM = {**GREEDY, 'method': 'beam', 'n_best': 3, 'groups': 1, 'force': ('ball',)}


@pytest.mark.parametrize(
  ('saved', 'given', 'method', 'expected'),
  [
    (GREEDY, {}, 'greedy', {}),
    (GREEDY, {'beam': 3}, 'beam', {'beam': 3, 'n_best': 1}),
    (GREEDY, {'n_best': 4}, 'beam', {'beam': 5, 'n_best': 4}),
    (GREEDY, {'n_best': 7}, 'beam', {'beam': 7, 'n_best': 7}),
    (GREEDY, {'n_best': None}, 'greedy', {}),
    (GREEDY, {'captions': 4, 'n_best': None}, 'beam', {'n_best': 4}),
    (GREEDY, {'top_p': 0.9, 'n_best': 9}, 'sample', {'top_p': 0.9, 'n_best': 9}),
    (BEAM, {'temperature': 0.5}, 'sample', {'force': ()}),
    (BEAM, {'method': 'greedy'}, 'greedy', {'n_best': 1, 'force': ()}),
    (BEAM, {'min_length': 2}, 'beam', {'n_best': 3, 'force': ('ball',)}),
    (BEAM, {'method': 'sample', 'top_k': 4, 'n_best': 9}, 'sample', {'n_best': 9}),
  ],
)
def test_the_method(saved, given, method, expected):
  merged = {**saved, **changes(saved, given)}
  assert merged['method'] == method
  assert {key: merged[key] for key in expected} == expected
  check_decode(merged)


def test_settings_of_another_method():
  with pytest.raises(ConfigError, match='beam=3.*greedy'):
    changes(GREEDY, {'method': 'greedy', 'beam': 3})
  with pytest.raises(ConfigError, match='top_k=3.*beam'):
    changes(BEAM, {'beam': 2, 'top_k': 3})
  with pytest.raises(TypeError, match='temprature.*temperature'):
    changes(BEAM, {'temprature': 2.0})
  with pytest.raises(TypeError, match="'splits'.* mean split"):
    changes(BEAM, {'splits': 'val'}, vc.evaluate)
  with pytest.raises(TypeError, match='captions.*n_best'):
    changes(BEAM, {'captions': 2, 'n_best': 3})


def test_every_setting_is_known():
  assert {*METHOD_OF} <= {*GREEDY}
