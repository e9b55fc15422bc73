"""Reports as lines of text."""

from collections.abc import Iterator, Sequence

from vidcap_jax.compilation.chips import Chip
from vidcap_jax.compilation.data_sizes import ASSUMED_SPLIT
from vidcap_jax.compilation.report import Buffer, Contents, Report
from vidcap_jax.compilation.topology import Topology
from vidcap_jax.counts import counted

_MIB = 2**20
LONGEST_ERROR = 300  # letters
_WITHOUT_TRITON = (
  "compiled without Triton's matrix products, for which the compiler needs a device to choose tiles"
)


def heading(topology: Topology, versions: str, low_effort: bool, assumed: bool) -> list[str]:
  """What is compiled for what, and what the numbers mean."""
  chip = topology.chip
  effort = ''
  if low_effort:
    effort = ', low effort' + (': estimates of time are too high' if chip.clock else '')
  count = counted(topology.chips, 'chip')
  count += f' in {topology.slices} slices' if topology.slices > 1 else ''
  lines = [
    f'{topology.name}: {count} of {mib(chip.memory)} MiB, {versions}{effort}',
    'MiB are of each chip; times are estimates, not measured'
    + ('' if chip.clock else ", at the chip's published rates")
    + ', collectives beside them'
    + (', without those between slices' if topology.slices > 1 else ''),
  ]
  if assumed:
    lines.append(
      f'no --data: reference tables as for {ASSUMED_SPLIT.videos:,} videos with '
      f'{ASSUMED_SPLIT.most_captions} captions'
    )
  return lines


def report_lines(report: Report, chip: Chip) -> list[str]:
  """The line of a program, and further ones only if something is wrong with it."""
  name = f'{report.stage} {report.program}, {report.length} tokens, batch {report.rows}:'
  if report.memory is None or report.contents is None:
    lines = [f'{name} {failure(report)}']
    return lines + [f'  of all chips together: {_buffer(array)}' for array in report.arrays]
  verdict = 'fits' if report.fits(chip) else 'does not fit'
  parts = [
    f'compiles ({_seconds(report)}), {verdict}: {_memory(report, chip)}',
    _estimate(report, chip),
    collectives(report.contents),
    *remarks(report, report.contents),
  ]
  lines = [f'{name} {"; ".join(filter(None, parts))}']
  if not report.fits(chip):
    lines += [f'  {_buffer(buffer)}' for buffer in report.contents.buffers]
  return lines


def failure(report: Report, length: int = LONGEST_ERROR) -> str:
  """Why a program did not compile: the first ``length`` letters of the compiler's error."""
  what = 'does not fit' if report.out_of_memory else 'does not compile'
  left_out = " (Triton's matrix products left out)" if report.without_triton else ''
  return f'{what}{left_out}: {_shortened(report.error, length)}'


def _shortened(text: str, length: int) -> str:
  """The beginning of a text, ``length`` letters at most."""
  return text if len(text) <= length else text[: length - 1] + '…'


def _seconds(report: Report) -> str:
  return f'{report.seconds:.0f} s' + (', stored' if report.stored else '')


def _memory(report: Report, chip: Chip) -> str:
  memory = report.memory
  assert memory is not None
  return (
    f'{mib(memory.total)} of {mib(chip.memory)} MiB (arguments {mib(memory.arguments)}, '
    f'temporary {mib(memory.temporary)}, output {mib(memory.output)}, of it '
    f'{mib(memory.aliased)} over arguments)'
  )


def _estimate(report: Report, chip: Chip) -> str:
  text = f'{gflop(report)} GFLOP'
  if not report.estimate:
    return text
  least = '' if chip.clock else 'at least '
  text += f' in {least}{1e3 * report.estimate:.3g} ms'
  if report.collective_estimate:
    text += f' and {1e3 * report.collective_estimate:.2f} ms of collectives'
  return f'{text}, {100 * report.share_of_peak:.1f} % of peak'


def collectives(contents: Contents, examples: bool = True) -> str:
  """Collectives in words, the most bytes first.

  Args:
    contents: of a program.
    examples: whether an operation is named for those in loops.
  """
  parts = []
  for c in sorted(contents.collectives, key=lambda c: -c.bytes):
    example = f', e.g. {_end(c.name, 70)}' if c.name and examples else ''
    where = f' in loops{example}' if c.in_loop else ''
    parts.append(f'{c.runs} {c.kind} of {_bytes(c.bytes)}{where}')
  return ' + '.join(parts) or 'no collectives'


def remarks(report: Report, contents: Contents, examples: bool = True) -> Iterator[str]:
  """What a reader should know of; nothing of a program without it.

  Args:
    report: of a program.
    contents: of it.
    examples: whether the largest copy is named.
  """
  if report.without_triton:
    yield _WITHOUT_TRITON
  if report.unaliased:
    yield f'{_bytes(report.unaliased)} of the state is held twice'
  if contents.host_calls:
    yield f'calls the host: {", ".join(sorted(set(contents.host_calls)))}'
  if contents.float64:
    yield f'{contents.float64} results in float64'
  if contents.copied_bytes:
    largest = max(contents.copies, key=lambda b: b.bytes)
    example = f', the largest {_buffer(largest)}' if examples else ''
    yield f'copies of {_bytes(contents.copied_bytes)}{example}'
  if contents.open_loops:
    loops = f'{contents.open_loops} loops' if contents.open_loops > 1 else 'a loop'
    yield f'{loops} may end sooner than counted'
  if contents.without_cycles:
    yield f'the estimate lacks {contents.without_cycles} operations that the compiler did not price'


def _buffer(buffer: Buffer) -> str:
  return f'{_bytes(buffer.bytes)} {buffer.shape[:60]} {_end(buffer.name, 90)}'


def _end(name: str, length: int) -> str:
  """The last parts of an operation's name, as many as fit."""
  return name if len(name) <= length else name[-length:].partition('/')[2] or name[-length:]


def summary(reports: Sequence[Report], chip: Chip) -> str:
  """The verdict on all programs."""
  compiled = [report for report in reports if report.memory]
  fitting = [report for report in compiled if report.fits(chip)]
  fresh = sum(report.seconds for report in reports if not report.stored)
  text = f'{counted(len(reports), "program")}: {len(compiled)} compile, {len(fitting)} fit'
  if compiled:
    most = max(compiled, key=lambda r: r.memory.total if r.memory else 0)
    assert most.memory is not None
    text += f'; the most memory is {mib(most.memory.total)} of {mib(chip.memory)} MiB '
    text += f'({most.stage} {most.program}, {most.length} tokens)'
  return f'{text}; {fresh:.0f} s of compiling'


def gflop(report: Report) -> str:
  """Three digits of a program's GFLOP, or all before the point: 0.123, 45.6, 2,604."""
  number = report.flops / 1e9
  return f'{number:,.0f}' if number >= 999.5 else f'{number:.3g}'


def mib(number: float) -> str:
  """Bytes as MiB."""
  return f'{number / _MIB:,.0f}'


def _bytes(number: float) -> str:
  """1.2 GB, 34.5 MB, 5 KB, 12 bytes."""
  for unit, size in (('GB', 1e9), ('MB', 1e6), ('KB', 1e3)):
    if number >= size:
      return f'{number / size:.3g} {unit}'
  return f'{number:.0f} bytes'
