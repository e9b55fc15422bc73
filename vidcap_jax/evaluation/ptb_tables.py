"""The tables of the PTB tokeniser's automaton, which JFlex wrote as constants of a Java class."""

import dataclasses
import functools
import struct
import zipfile
from collections.abc import Sequence

from vidcap_jax.evaluation import java

_CLASS = 'edu/stanford/nlp/process/PTBLexer.class'


@dataclasses.dataclass(frozen=True)
class Automaton:
  """JFlex's tables.

  Attributes:
    classes: the class of each UTF-16 unit.
    rows: for each state the start of its row in ``following``.
    following: the next state by class; -1: none.
    actions: for each state the number of what is done with the text if it ends there.
    accepts: for each state whether a text may end there.
    longest: for each state whether no longer text can match.
  """

  classes: Sequence[int]
  rows: Sequence[int]
  following: Sequence[int]
  actions: Sequence[int]
  accepts: Sequence[bool]
  longest: Sequence[bool]


@functools.cache
def automaton() -> Automaton:
  """The lexer's automaton, from CoreNLP's jar."""
  path = java.packaged('tokenizer', 'stanford-corenlp-3.4.1.jar')
  with zipfile.ZipFile(path) as jar:
    constants = _string_constants(jar.read(_CLASS))
  trans = ''.join(constants[name] for name in sorted(constants) if name.startswith('ZZ_TRANS'))
  rows = constants['ZZ_ROWMAP_PACKED_0']
  attributes = _unpack(constants['ZZ_ATTRIBUTE_PACKED_0'])
  return Automaton(
    classes=_unpack(constants['ZZ_CMAP_PACKED']),
    rows=[ord(a) << 16 | ord(b) for a, b in zip(rows[::2], rows[1::2], strict=True)],
    following=[state - 1 for state in _unpack(trans)],
    actions=_unpack(constants['ZZ_ACTION_PACKED_0']),
    accepts=[bool(value & 1) for value in attributes],
    longest=[bool(value & 8) for value in attributes],
  )


def _unpack(text: str) -> list[int]:
  """JFlex's run lengths: pairs of a count and a value."""
  values: list[int] = []
  for count, value in zip(text[::2], text[1::2], strict=True):
    values += [ord(value)] * ord(count)
  return values


def _string_constants(data: bytes) -> dict[str, str]:
  """The constant strings of a Java class by field: Java SE specification, chapter 4."""
  texts: dict[int, bytes] = {}
  strings: dict[int, int] = {}
  count, at, index = *struct.unpack_from('>H', data, 8), 10, 1
  while index < count:
    tag = data[at]
    if tag == 1:  # text
      (length,) = struct.unpack_from('>H', data, at + 1)
      texts[index] = data[at + 3 : at + 3 + length]
      at += 3 + length
    else:
      if tag == 8:  # a string, which refers to a text
        (strings[index],) = struct.unpack_from('>H', data, at + 1)
      at += {7: 3, 8: 3, 16: 3, 15: 4}.get(tag, 9 if tag in (5, 6) else 5)
    index += 2 if tag in (5, 6) else 1  # long and double take two places
  (interfaces,) = struct.unpack_from('>H', data, at + 6)
  at += 8 + 2 * interfaces
  (fields,) = struct.unpack_from('>H', data, at)
  at += 2
  found = {}
  for _ in range(fields):
    name, _, attributes = struct.unpack_from('>HHH', data, at + 2)
    at += 8
    for _ in range(attributes):
      attribute, size = struct.unpack_from('>HI', data, at)
      if texts[attribute] == b'ConstantValue':
        (constant,) = struct.unpack_from('>H', data, at + 6)
        if constant in strings:
          found[_java_text(texts[name])] = _java_text(texts[strings[constant]])
      at += 6 + size
  return found


def _java_text(data: bytes) -> str:
  """Text in Java's form of UTF-8: a NUL has two bytes, and surrogates are characters."""
  return data.replace(b'\xc0\x80', b'\0').decode('utf-8', 'surrogatepass')
