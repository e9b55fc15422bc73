"""Wrong settings of decoding."""

import pytest

from vidcap_jax.checkpoints import restore
from vidcap_jax.errors import ConfigError


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
    ('no_repeat_ngram=-2', 'no_repeat_ngram'),
  ],
)
def test_wrong_decoding_settings(change, message, restored):
  with pytest.raises(ConfigError, match=message):
    restore.restore(restored.path, restored.mesh, [change])
