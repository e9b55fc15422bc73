"""Reads the text of a compiled program: its computations, its loops and how often each runs."""

import dataclasses
import functools
import graphlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from vidcap_jax.decoding.compaction import FEWER_VIDEOS

BYTES = {
  **dict.fromkeys(('pred', 's8', 'u8', 'f8e4m3fn', 'f8e5m2'), 1),
  **dict.fromkeys(('bf16', 'f16', 's16', 'u16'), 2),
  **dict.fromkeys(('f32', 's32', 'u32'), 4),
  **dict.fromkeys(('f64', 's64', 'u64', 'c64'), 8),
  'c128': 16,
}
_INSTRUCTION = re.compile(r'\s+(ROOT )?%?([\w.\-]+) = (.*)')
_ARRAY = re.compile(r'\b([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,]*)\]')
# Attributes that name computations which run as a part of the program, not inside a fusion.
_CALLED = re.compile(r'(?:to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)')
_CALLED_LISTS = re.compile(r'(?:branch_computations|called_computations)=\{([^}]*)\}')


@dataclasses.dataclass(frozen=True)
class Instruction:
  """A line of a program.

  Attributes:
    name: of its result.
    shape: of its result, as text.
    opcode: e.g. 'fusion'.
    rest: operands and attributes, as text.
    is_root: whether it is its computation's result.
  """

  name: str
  shape: str
  opcode: str
  rest: str
  is_root: bool = False

  @property
  def bytes(self) -> int:
    """Of the result, without padding."""
    return shape_bytes(self.shape)

  @property
  def op_name(self) -> str:
    """The operation of the model that it is for; of a parameter, the argument's name."""
    found = re.search(r'op_name="((?:[^"\\]|\\.)*)"', self.rest)
    return found[1].replace('\\', '') if found else ''

  @property
  def operands(self) -> list[str]:
    """Names of operands."""
    return re.findall(r'%([\w.\-]+)', _in_parentheses(self.rest))

  def attribute(self, name: str) -> str:
    """The name after ``name=``, '' for none."""
    found = re.search(rf'\b{name}=%?([\w.\-]+)', self.rest)
    return found[1] if found else ''


@dataclasses.dataclass(frozen=True)
class Loop:
  """A loop of a program.

  Attributes:
    body, condition: names of computations.
    rounds: how often the body runs, at most.
    exact: whether it always runs that often.
    op_name: of the model's loop.
  """

  body: str
  condition: str
  rounds: int
  exact: bool
  op_name: str


@dataclasses.dataclass(frozen=True)
class Program:
  """A compiled program.

  Attributes:
    computations: name -> instructions.
    entry: the computation that runs first.
    assumed_rounds: of loops whose condition does not count to a constant.
  """

  computations: Mapping[str, Sequence[Instruction]]
  entry: str
  assumed_rounds: int = 1

  @functools.cached_property
  def loops(self) -> list[Loop]:
    """Every loop, in the order of the text."""
    return [
      _loop(self, name, instruction)
      for name, instructions in self.computations.items()
      for instruction in instructions
      if instruction.opcode == 'while'
    ]

  @functools.cached_property
  def runs(self) -> Counter:
    """Computation -> how often it runs, fusions' inner computations left out.

    A branch counts as always taken.
    """
    calls = {name: list(self._calls(name)) for name in self.computations}
    order = graphlib.TopologicalSorter({n: [c for c, _ in called] for n, called in calls.items()})
    runs = Counter({self.entry: 1})
    for caller in reversed([*order.static_order()]):
      for called, times in calls.get(caller, ()):
        runs[called] += runs[caller] * times
    return +runs

  def _calls(self, name: str) -> Iterator[tuple[str, int]]:
    """The computations that one calls outside fusions, and how often at each of its runs."""
    loops = {loop.body: loop for loop in self.loops}
    for instruction in self.computations[name]:
      if instruction.opcode == 'while':
        loop = loops[instruction.attribute('body')]
        yield loop.body, loop.rounds
        yield loop.condition, loop.rounds
      elif instruction.opcode in ('call', 'conditional') or 'async' in instruction.opcode:
        for called in _called(instruction):
          if called in self.computations:
            yield called, 1

  @functools.cached_property
  def _bytes(self) -> Mapping[str, int]:
    """Of every result; no two have the same name."""
    return {i.name: i.bytes for instructions in self.computations.values() for i in instructions}

  def operand_bytes(self, instruction: Instruction) -> int:
    """Of all operands of an instruction."""
    return sum(self._bytes.get(name, 0) for name in instruction.operands)

  def running(self) -> Iterator[tuple[Instruction, int]]:
    """Every instruction that runs by itself, and how often."""
    for name, times in self.runs.items():
      for instruction in self.computations[name]:
        yield instruction, times


def read_program(text: str, assumed_rounds: int = 1) -> Program:
  """Reads the text of ``Compiled.as_text()``; ``assumed_rounds`` as in ``Program``."""
  computations: dict[str, list[Instruction]] = {}
  entry, current = '', None
  for line in text.splitlines():
    if current is None:
      if line.endswith('{') and (head := re.match(r'(ENTRY )?%?([\w.\-]+) \(', line)):
        current = computations.setdefault(head[2], [])
        entry = head[2] if head[1] else entry
    elif line.startswith('}'):
      current = None
    elif found := _INSTRUCTION.match(line):
      shape, opcode, rest = _split(found[3])
      current.append(Instruction(found[2], shape, opcode, rest, bool(found[1])))
  return Program(computations, entry, assumed_rounds)


def shape_bytes(shape: str) -> int:
  """Bytes of a shape, of a tuple all of it; layouts' padding is not counted."""
  total = 0
  for dtype, axes in _ARRAY.findall(shape):
    size = BYTES.get(dtype, 0)
    for axis in filter(None, axes.split(',')):
      size *= int(axis)
    total += size
  return total


def _split(text: str) -> tuple[str, str, str]:
  """'f32[8]{0} add(%a, %b)' -> 'f32[8]{0}', 'add', '(%a, %b)'."""
  depth = 0
  for i, letter in enumerate(text):
    if letter in '({[':
      depth += 1
    elif letter in ')}]':
      depth -= 1
    elif letter == ' ' and not depth:
      opcode = re.match(r'[\w\-]+', text[i + 1 :])
      end = i + 1 + (opcode.end() if opcode else 0)
      return text[:i], text[i + 1 : end], text[end:]
  return text, '', ''


def _in_parentheses(text: str) -> str:
  """What is in the first parentheses of a text."""
  depth = 0
  for i, letter in enumerate(text):
    depth += (letter == '(') - (letter == ')')
    if not depth:
      return text[:i]
  return text


def _called(instruction: Instruction) -> list[str]:
  names = _CALLED.findall(instruction.rest)
  for listed in _CALLED_LISTS.findall(instruction.rest):
    names += [name.strip().lstrip('%') for name in listed.split(',')]
  return names


def _loop(program: Program, where: str, instruction: Instruction) -> Loop:
  """A loop, with the number of its rounds from its condition.

  Args:
    program: the whole.
    where: the computation that holds the loop.
    instruction: its ``while``.
  """
  body, condition = instruction.attribute('body'), instruction.attribute('condition')
  known = re.search(r'"known_trip_count":\{"n":"(\d+)"', instruction.rest)
  if known:
    return Loop(body, condition, int(known[1]), True, instruction.op_name)
  if FEWER_VIDEOS in instruction.op_name:  # its rounds replace rounds of the loop before it
    return Loop(body, condition, 0, False, instruction.op_name)
  reader = _Condition(program, program.computations[where], instruction)
  rounds, exact = reader.rounds(program.computations[condition])
  rounds = program.assumed_rounds if rounds is None else rounds
  return Loop(body, condition, rounds, exact, instruction.op_name)


@dataclasses.dataclass(frozen=True)
class _Condition:
  """Finds the number of rounds of a loop that counts up to a constant."""

  program: Program
  outer: Sequence[Instruction]
  loop: Instruction

  def rounds(self, condition: Sequence[Instruction]) -> tuple[int | None, bool]:
    """How often the body runs at most, None if unknown; and whether always so often."""
    compares = [(i, self._operands(i, condition)) for i in condition if i.opcode == 'compare']
    opcodes = {i.opcode for i in condition}
    for instruction in condition:  # a fusion holds the comparison of some conditions
      inner = self.program.computations.get(instruction.attribute('calls'), ())
      opcodes |= {i.opcode for i in inner}
      given = self._operands(instruction, condition)
      compares += [(i, self._through(i, inner, given)) for i in inner if i.opcode == 'compare']
    bounds = [_bound(compare, values) for compare, values in compares]
    known = [bound for bound in bounds if bound is not None]
    exact = len(compares) == 1 and not opcodes & {'and', 'or', 'select'}
    return (min(known), exact) if known else (None, False)

  def _operands(self, instruction, computation) -> list[tuple[int | None, bool]]:
    return [self._value(name, computation) for name in instruction.operands]

  def _through(self, compare, inner, given) -> list[tuple[int | None, bool]]:
    """The operands of a comparison inside a fusion, whose parameters are ``given``."""
    values = []
    for name in compare.operands:
      source = next((i for i in inner if i.name == name), None)
      number = source and source.opcode == 'parameter' and re.match(r'\((\d+)', source.rest)
      values.append(given[int(number[1])] if number else self._value(name, inner))
    return values

  def _value(self, name: str, computation: Sequence[Instruction]) -> tuple[int | None, bool]:
    """An integer that a name stands for, None if unknown; and whether the loop may change it."""
    source = next((i for i in computation if i.name == name), None)
    if source is None:
      return None, False
    if source.opcode == 'constant':
      return _integer(source), False
    if source.opcode in ('copy', 'bitcast') and source.operands:
      return self._value(source.operands[0], computation)
    if source.opcode == 'get-tuple-element' and computation is not self.outer:
      number = int(re.search(r'index=(\d+)', source.rest)[1])  # type: ignore[index]
      return self._initial(number), True
    return None, False

  def _initial(self, number: int) -> int | None:
    """An entry of the state that the loop starts with."""
    start = next((i for i in self.outer if i.name in self.loop.operands), None)
    if start is None or start.opcode != 'tuple' or number >= len(start.operands):
      return None
    return self._value(start.operands[number], self.outer)[0]


def _integer(constant: Instruction) -> int | None:
  found = re.match(r'\((-?\d+)\)', constant.rest)
  return int(found[1]) if found and constant.shape.startswith(('s', 'u')) else None


def _bound(compare: Instruction, values: Sequence[tuple[int | None, bool]]) -> int | None:
  """Rounds of a loop that runs while a counter of its state is below a bound."""
  if len(values) != 2:
    return None
  (left, left_changes), (right, right_changes) = values
  if 'direction=GT' in compare.rest:
    left, left_changes, right, right_changes = right, right_changes, left, left_changes
  elif 'direction=LT' not in compare.rest:
    return None
  if right is None or not left_changes:
    return None
  return max(0, right - (left or 0))
