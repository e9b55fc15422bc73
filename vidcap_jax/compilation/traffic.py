"""Bytes that a compiled program's operations read and write in a chip's memory."""

from collections.abc import Iterator, Mapping, Sequence

from vidcap_jax.compilation.hlo import Instruction, Program

# They move nothing, or what they run is counted by itself.
_FREE = (
  *('parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'while', 'conditional'),
  *('call', 'iota', 'after-all', 'partition-id', 'replica-id'),
)
_PARTS = ('dynamic-slice', 'slice', 'gather')  # operations that read a part of their first operand


def traffic_of(program: Program) -> int:
  """Bytes of all operations, as often as they run.

  What a fusion keeps to itself is not counted; of an array that is sliced or updated in place, only
  the part that is read or written counts.
  """
  total = 0
  for name, times in program.runs.items():
    known = {i.name: i for i in program.computations[name]}
    total += times * sum(_moved(program, i, known) for i in known.values())
  return total


def _moved(program: Program, instruction: Instruction, known: Mapping[str, Instruction]) -> int:
  """Bytes that an operation reads and writes."""
  if instruction.opcode in _FREE or instruction.opcode.endswith('-done'):
    return 0
  inner = program.computations.get(instruction.attribute('calls'), ())
  if instruction.opcode == 'fusion' and inner:
    return sum(_read(inner, i) for i in inner if i.opcode == 'parameter') + _written(inner)
  if instruction.opcode in _PARTS:
    return 2 * instruction.bytes
  operands = [known[name].bytes for name in instruction.operands if name in known]
  if instruction.opcode == 'dynamic-update-slice':
    return 2 * operands[1]
  return instruction.bytes + sum(operands)


def _read(inner: Sequence[Instruction], parameter: Instruction) -> int:
  """Bytes that a fusion reads of an operand."""
  total = 0
  for user, position in _users(inner, parameter.name):
    if user.opcode in _PARTS and position == 0:
      total += user.bytes
    elif not (user.opcode == 'dynamic-update-slice' and position == 0):
      return parameter.bytes
  return min(total, parameter.bytes)


def _users(inner: Sequence[Instruction], name: str) -> Iterator[tuple[Instruction, int]]:
  """The operations that read a result, other than bitcasts, and as which operand."""
  for instruction in inner:
    for position, operand in enumerate(instruction.operands):
      if operand != name:
        continue
      if instruction.opcode == 'bitcast':
        yield from _users(inner, instruction.name)
      else:
        yield instruction, position


def _written(inner: Sequence[Instruction]) -> int:
  """Bytes that a fusion writes."""
  known = {i.name: i for i in inner}
  root = next(i for i in inner if i.is_root)
  results = [known[name] for name in root.operands] if root.opcode == 'tuple' else [root]
  return sum(_result_bytes(known, result) for result in results)


def _result_bytes(known: Mapping[str, Instruction], result: Instruction) -> int:
  source = result
  while source.opcode == 'bitcast' and source.operands[0] in known:
    source = known[source.operands[0]]
  if source.opcode == 'dynamic-update-slice':
    return known[source.operands[1]].bytes
  return result.bytes
