"""The text fields of a request for captions: their names, values and meanings."""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any

from vidcap_jax.api import decoding
from vidcap_jax.decoding.unroll import TEMPERATURES
from vidcap_jax.errors import ConfigError
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.programs import VALUES, Decoding, Programs

_MOST_SEED = 2**31 - 2**10  # with the numbers of a request's videos added, an int32


@dataclasses.dataclass(frozen=True)
class Field:
  """A text field.

  Attributes:
    type: of JSON Schema.
    about: what it means.
    least, most: of a number; None: no limit.
    is_open: whether ``least`` itself is refused.
  """

  type: str
  about: str
  least: float | None = None
  most: float | None = None
  is_open: bool = False


FIELDS = {
  'method': Field('string', 'how captions are decoded; default: as the model'),
  'beam': Field('integer', 'hypotheses of a beam search', 1),
  'captions': Field('integer', 'captions of a video, best first; samples as they were drawn', 1),
  'length_penalty': Field(
    'number', 'of a beam search: 0 ranks by log-probability, 1 by that of a word', -10, 10
  ),
  'temperature': Field('number', 'of samples: below 1 likelier words', TEMPERATURES[0], 100),
  'top_k': Field('integer', 'of samples: only so many of the likeliest words; 0: all', 0, 2**20),
  'top_p': Field('number', 'of samples: only the likeliest words of this sum', 0, 1, is_open=True),
  'seed': Field('integer', 'of samples: another number, other samples', 0, _MOST_SEED),
  'attention': Field('boolean', 'whether results have the attention weights of each word'),
}
_METHOD_OF = {**decoding.METHOD_OF, 'seed': 'sample'}


@dataclasses.dataclass(frozen=True)
class Wanted:
  """What a request asks for, besides its videos.

  Attributes:
    decoding: how its videos are decoded.
    attention: whether their attention weights are wanted.
    seed: the number that the first video's samples depend on; the next video has the next number.
  """

  decoding: Decoding
  attention: bool = False
  seed: int = 0


def parse(texts: Mapping[str, str], programs: Programs) -> Wanted:
  """Reads the text fields of a request.

  Raises:
    ApiError: an unknown field, or a value that this server does not offer.
  """
  given = {name: _value(name, text) for name, text in texts.items()}
  attention = bool(given.pop('attention', False))
  if attention and not programs.has_attention:
    raise ApiError('no_attention', 'attention: this model has no attention weights')
  seed = int(given.get('seed', 0))
  if 'seed' in given and 'method' not in given and not given.keys() & {*decoding.METHOD_OF}:
    given['method'] = 'sample'
  settings = {name: value for name, value in given.items() if name != 'seed'}
  try:
    merged = decoding.changes(_defaults(programs), settings)
    _check_method('seed' in given, merged['method'], programs)
    return Wanted(_decoding(merged, 'beam' in given, programs), attention, seed)
  except ConfigError as error:
    raise ApiError('bad_field', str(error)) from None


def defaults(programs: Programs) -> dict[str, Any]:
  """The decoding settings of a request without fields."""
  saved = _defaults(programs)
  wanted = parse({}, programs)
  return {
    'method': saved['method'],
    'beam': wanted.decoding.program.beam or _default_beam(programs),
    'captions': wanted.decoding.captions,
    **{name: saved[name] for names in VALUES.values() for name in names},
  }


def _defaults(programs: Programs) -> dict[str, Any]:
  saved = dict(programs.members[0].config.decode)
  most = programs.captions if saved['method'] != 'beam' else min(programs.captions, saved['beam'])
  return {**saved, 'n_best': min(saved['n_best'], most), 'beam': _default_beam(programs)}


def _default_beam(programs: Programs) -> int:
  saved = programs.setting('beam')
  return saved if saved in programs.beams else programs.beams[-1]


def _check_method(has_seed: bool, method: str, programs: Programs) -> None:
  if method not in programs.methods:
    raise ConfigError(f'method={method!r}: this server has {", ".join(programs.methods)}')
  if has_seed and method != 'sample':
    raise ConfigError(f"seed: is for method='sample', not for {method!r}")


def _decoding(merged: Mapping[str, Any], is_beam_given: bool, programs: Programs) -> Decoding:
  """The program and its values for settings as of ``api.decoding.changes``."""
  saved = _defaults(programs)
  method, captions = merged['method'], merged.get('n_best', saved['n_best'])
  beam = merged['beam'] if is_beam_given else saved['beam']
  if not is_beam_given:  # as wide as for the captions
    beam = next((b for b in (beam, *programs.beams) if b >= captions), beam)
  if method == 'beam' and beam not in programs.beams:
    shown = ', '.join(map(str, programs.beams))
    raise ConfigError(f'beam={beam}: this server has the beams {shown}')
  program = programs.program_for(method, beam, captions)
  values = tuple(float(merged.get(name, saved[name])) for name in VALUES[method])
  return Decoding(program, values, captions)


def _value(name: str, text: str) -> Any:
  """The value of a field; ApiError for one that is unknown or out of range."""
  if name not in FIELDS:
    near = difflib.get_close_matches(name, FIELDS, 1)
    hint = f'did you mean {near[0]}?' if near else f'known: file, {", ".join(FIELDS)}'
    raise ApiError('unknown_field', f'unknown field {name[:60]!r}; {hint}')
  field, text = FIELDS[name], text.strip()
  if field.type == 'boolean':
    if text.lower() not in ('true', 'false'):
      raise ApiError('bad_field', f'{name}={text[:60]!r}: give true or false')
    return text.lower() == 'true'
  if field.type == 'string':
    return text[:60]
  return _number(name, field, text)


def _number(name: str, field: Field, text: str) -> int | float:
  try:
    if not text.isascii():  # int() reads the digits of all scripts
      raise ValueError
    number: int | float = int(text[:20]) if field.type == 'integer' else float(text[:40])
  except ValueError:
    number = math.nan
  least = -math.inf if field.least is None else field.least
  most = math.inf if field.most is None else field.most
  fits = (least < number if field.is_open else least <= number) and number <= most
  if not fits or not math.isfinite(number):
    bounds = [
      *(
        [f'{"above" if field.is_open else "at least"} {_shown(field.least)}']
        if field.least is not None
        else []
      ),
      *([f'at most {_shown(field.most)}'] if field.most is not None else []),
    ]
    kind = 'a whole number' if field.type == 'integer' else 'a number'
    raise ApiError('bad_field', f'{name}={text[:60]!r}: give {kind} {" and ".join(bounds)}')
  return number


def _shown(bound: float) -> str:
  """A bound in full: not 2.14748e+09."""
  return str(int(bound)) if bound == int(bound) else f'{bound:g}'
