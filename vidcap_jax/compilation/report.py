"""What a compiled program holds: collectives, copies, host calls, estimated time."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from vidcap_jax.compilation.chips import Chip
from vidcap_jax.compilation.hlo import Instruction, Program
from vidcap_jax.compilation.traffic import traffic_of
from vidcap_jax.training.memory import Memory

LARGE_COPY = 2**20  # bytes of a copy that is reported
_MOST_LISTED = 5
_COLLECTIVE = re.compile(
  r'(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|ragged-all-to-all)(-start)?$'
)
_SCATTERED = 'all-reduce-scatter'  # begins the name of a TPU fusion that is a reduce-scatter
_CALLBACK = re.compile(r'custom_call_target="([^"]*(?:callback|host)[^"]*)"', re.IGNORECASE)
_BETWEEN_SLICES = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_NETWORK = ' between slices'  # in the kind of a collective that leaves a TPU slice
_UNKNOWN_CYCLES = 2**63 - 1  # of an operation that the compiler of TPUs cannot estimate
_ON_CHIP = 'S(1)'  # in the layout of an array in a TPU's vector memory, outside HBM
_NO_BUFFER = ('tuple', 'get-tuple-element', 'bitcast', 'while', 'constant', 'conditional', 'call')


@dataclasses.dataclass(frozen=True)
class Collective:
  """Collectives of one kind and place.

  Attributes:
    kind: e.g. 'all-reduce', or 'all-reduce between slices' of the part that leaves a TPU slice.
    in_loop: whether they run in a loop.
    count: how many there are in the program.
    runs: how often they run in all.
    bytes: of a chip's results, or of what it gives to a reduce-scatter; of all runs together.
    name: the model's operation that the largest is for.
  """

  kind: str
  in_loop: bool
  count: int
  runs: int
  bytes: int
  name: str = ''


@dataclasses.dataclass(frozen=True)
class Buffer:
  """An array of a program: its bytes, its shape, and the model's operation or argument."""

  bytes: int
  shape: str
  name: str


@dataclasses.dataclass(frozen=True)
class Contents:
  """What a compiled program holds, by its text.

  Attributes:
    collectives: by kind and place.
    host_calls: names of callbacks and transfers to the host.
    float64: instructions with a result in float64.
    copies: the largest copies and transposes of ``LARGE_COPY`` bytes or more outside fusions.
    copied_bytes: of all of these, as often as they run.
    buffers: the largest arrays.
    traffic: bytes that operations read and write, as often as they run.
    cycles: that the compiler of TPUs estimates for a chip, loops as often as they run.
    loops: how many there are.
    open_loops: loops that may end sooner than they are counted.
    without_cycles: operations that the compiler of TPUs cannot estimate, as often as they run.
  """

  collectives: Sequence[Collective]
  host_calls: Sequence[str]
  float64: int
  copies: Sequence[Buffer]
  copied_bytes: int
  buffers: Sequence[Buffer]
  traffic: int
  cycles: int
  loops: int
  open_loops: int
  without_cycles: int = 0


def contents_of(program: Program) -> Contents:
  """Reads what a program holds."""
  running = list(program.running())
  once = {name for name, times in program.runs.items() if times == 1}
  entry_like = {id(i) for name in once for i in program.computations[name]}
  copies = [
    (i, n) for i, n in running if i.opcode in ('copy', 'transpose') and i.bytes >= LARGE_COPY
  ]
  estimated = [(_cycles(i), n) for i, n in running]
  return Contents(
    collectives=_collectives(program, running, entry_like),
    host_calls=_host_calls(running),
    float64=sum('f64[' in i.shape for c in program.computations.values() for i in c),
    copies=largest(_as_buffer(i) for i, _ in copies),
    copied_bytes=sum(i.bytes * n for i, n in copies),
    buffers=largest(_as_buffer(i) for i, _ in running if _is_buffer(i, program)),
    traffic=traffic_of(program),
    cycles=sum(cycles * n for cycles, n in estimated if cycles != _UNKNOWN_CYCLES),
    loops=len(program.loops),
    open_loops=sum(not loop.exact for loop in program.loops),
    without_cycles=sum(n for cycles, n in estimated if cycles == _UNKNOWN_CYCLES),
  )


def _collectives(program: Program, running, once: set[int]) -> list[Collective]:
  groups: dict[tuple[str, bool], list[tuple[int, int, str]]] = {}
  for instruction, times in running:
    if found := _collective(program, instruction):
      kind, size = found
      place = kind, id(instruction) not in once
      groups.setdefault(place, []).append((size * times, times, instruction.op_name))
  return [
    Collective(
      kind,
      in_loop,
      count=len(group),
      runs=sum(times for _, times, _ in group),
      bytes=sum(size for size, _, _ in group),
      name=max(group)[2],
    )
    for (kind, in_loop), group in groups.items()
  ]


def _collective(program: Program, instruction: Instruction) -> tuple[str, int] | None:
  """Kind and bytes of a collective, None for another instruction."""
  if instruction.opcode == 'recv' and (sent := _BETWEEN_SLICES.search(instruction.rest)):
    kind = sent[1].lower().replace('_', '-')
    return kind + _NETWORK, _first_bytes(instruction)
  called = instruction.attribute('calls')
  if instruction.opcode == 'fusion' and called.startswith(_SCATTERED):
    inner = program.computations.get(called, ())
    return 'reduce-scatter', sum(i.bytes for i in inner if i.opcode == 'parameter')
  found = _COLLECTIVE.match(instruction.opcode)
  if not found:
    return None
  kind, start = found[1], bool(found[2])
  if kind == 'reduce-scatter':
    return kind, _first_bytes(instruction) if start else program.operand_bytes(instruction)
  size = instruction.bytes
  if start and kind != 'all-reduce':  # the result of a start holds its operand too
    size -= _first_bytes(instruction)
  return kind, size


def _first_bytes(instruction: Instruction) -> int:
  """Bytes of the first array of a result: what a recv gets, the operand of a start."""
  first = re.match(r'\(?\(?([a-z]+\d*\[[\d,]*\])', instruction.shape)
  return Instruction('', first[1], '', '').bytes if first else 0


def _host_calls(running) -> list[str]:
  names = []
  for instruction, _ in running:
    if (
      instruction.opcode in ('infeed', 'outfeed')
      or instruction.opcode in ('send', 'recv')
      and 'is_host_transfer=true' in instruction.rest
      and not _BETWEEN_SLICES.search(instruction.rest)
    ):
      names.append(instruction.opcode)
    elif instruction.opcode == 'custom-call' and (found := _CALLBACK.search(instruction.rest)):
      names.append(found[1])
  return names


def _is_buffer(instruction: Instruction, program: Program) -> bool:
  if instruction.opcode == 'parameter':
    return any(instruction is i for i in program.computations[program.entry])
  moved = instruction.opcode.endswith(('-start', '-done')) or _ON_CHIP in instruction.shape
  return instruction.opcode not in _NO_BUFFER and not moved


def _as_buffer(instruction: Instruction) -> Buffer:
  shape = re.sub(r'\{[^}]*\}|/\*.*?\*/', '', instruction.shape)
  return Buffer(instruction.bytes, shape, instruction.op_name or instruction.name)


def largest(buffers: Iterable[Buffer]) -> list[Buffer]:
  """The largest buffers; of one shape and name only the first."""
  found: dict[tuple[str, str], Buffer] = {}
  for buffer in sorted(buffers, key=lambda buffer: -buffer.bytes):
    found.setdefault((buffer.shape, buffer.name), buffer)
    if len(found) == _MOST_LISTED:
      break
  return list(found.values())


def _cycles(instruction: Instruction) -> int:
  found = re.search(r'"estimated_cycles":"(\d+)"', instruction.rest)
  return int(found[1]) if found else 0


@dataclasses.dataclass(frozen=True)
class Report:
  """What is known of a program after compiling it, or after failing to.

  Attributes:
    stage, program: e.g. 'temporal', 'step'.
    length: tokens of a caption.
    rows: of the batch, over all chips.
    batch_per_chip: rows of the batch for each chip of the data axis.
    error: why it did not compile, in one line; '' if it did.
    out_of_memory: whether the compiler refused it for lack of memory.
    without_triton: whether XLA's products in Triton are left out, since the compiler found no tiles
      for one without a GPU.
    seconds: of compiling, with and without Triton if both were tried; when it was compiled, if it
      comes from the folder of reports.
    stored: whether it comes from there.
    memory: of each chip; None if it did not compile.
    unaliased: bytes of the training state that are not written over its arguments.
    contents: what the program holds.
    arrays: of a program that the compiler refuses for lack of memory, the largest results before
      compilation, of all chips together.
    flops: of all chips together, with loops as often as they run.
    estimate: seconds a run, by the compiler's cycles (TPU), or by operations and traffic at the
      chip's published rates (GPU), a lower bound; without collectives.
    collective_estimate: seconds of the collectives if nothing overlaps with them.
    share_of_peak: of the chips' matrix products that the estimate leaves.
  """

  stage: str
  program: str
  length: int
  rows: int = 0
  batch_per_chip: int = 0
  error: str = ''
  out_of_memory: bool = False
  without_triton: bool = False
  seconds: float = 0.0
  stored: bool = False
  memory: Memory | None = None
  unaliased: int = 0
  contents: Contents | None = None
  arrays: Sequence[Buffer] = ()
  flops: float = 0.0
  estimate: float = 0.0
  collective_estimate: float = 0.0
  share_of_peak: float = 0.0

  def fits(self, chip: Chip) -> bool:
    """Whether it compiles and a chip has the memory."""
    return self.memory is not None and self.memory.total <= chip.memory


def collective_seconds(contents: Contents, chip: Chip, chips: int) -> float:
  """How long the collectives take at the bandwidth of the chip's links, if nothing overlaps.

  What is sent between slices goes through their hosts' network and is not counted.
  """
  if chips == 1:
    return 0.0
  passes = {'all-reduce': 2.0, 'collective-permute': 1.0}  # a reduce-scatter and an all-gather
  return sum(
    passes.get(c.kind, 1.0) * c.bytes * (chips - 1) / chips / chip.links
    for c in contents.collectives
    if not c.kind.endswith(_NETWORK)
  )


def from_dict(values: dict[str, Any]) -> Report:
  """The inverse of ``dataclasses.asdict``."""
  values = dict(values)
  if values.get('memory'):
    values['memory'] = Memory(**values['memory'])
  values['arrays'] = tuple(Buffer(**b) for b in values.get('arrays', ()))
  if values.get('contents'):
    contents = dict(values['contents'])
    contents['collectives'] = [Collective(**c) for c in contents['collectives']]
    contents['copies'] = [Buffer(**b) for b in contents['copies']]
    contents['buffers'] = [Buffer(**b) for b in contents['buffers']]
    values['contents'] = Contents(**contents)
  return Report(**values)
