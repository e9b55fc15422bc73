"""Operations and bytes of a program by XLA's analysis, with loops counted as often as they run.

XLA's own analysis of a program counts the body of a loop once, since it does not know how often it
will run. A scan's length is known: its body is analysed by itself and counted for the other rounds.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
from jax.extend import core

from vidcap_jax.decoding.compaction import FEWER_VIDEOS


@dataclasses.dataclass(frozen=True)
class Cost:
  """Floating-point operations, and bytes that operations read and write.

  The program is the one handed to the compiler, so every operation counts by itself: fused, many
  of these bytes never leave the processor, and ``bytes`` is an upper bound.
  """

  flops: float = 0.0
  bytes: float = 0.0

  def __add__(self, other: 'Cost') -> 'Cost':
    return Cost(self.flops + other.flops, self.bytes + other.bytes)

  def __mul__(self, times: float) -> 'Cost':
    return Cost(times * self.flops, times * self.bytes)


def cost_of(function: Callable, *arguments: Any) -> Cost:
  """The cost of one call; nothing is compiled or computed.

  Args:
    function: anything that can be jitted. A loop whose number of rounds is only known when it runs
      (``while_loop``) counts as one round.
    arguments: arrays or ``jax.ShapeDtypeStruct``s in their place.
  """
  return _cost(jax.make_jaxpr(function)(*arguments))


def cost_of_traced(
  traced: jax.stages.Traced, lowered: jax.stages.Lowered | None = None, while_rounds: int = 1
) -> Cost:
  """The cost of a jitted function that is traced anyway.

  Args:
    traced: the function with its arguments.
    lowered: the same, if there is one; it is counted where XLA can count it as it is.
    while_rounds: of each loop whose number of rounds is only known when it runs. Loops for what is
      left of a batch (``decoding.compaction``) have none: they replace rounds of the first.

  Raises:
    RuntimeError: JAX has no CPU backend (``JAX_PLATFORMS`` leaves it out), which does the counting.
  """
  found = lowered.cost_analysis() if lowered else None
  counted = _by_xla(traced.jaxpr) if not found else _read(found)
  return counted + _further_rounds(traced.jaxpr.jaxpr, while_rounds)


def _cost(program: core.ClosedJaxpr, while_rounds: int = 1) -> Cost:
  return _by_xla(program) + _further_rounds(program.jaxpr, while_rounds)


def _by_xla(program: core.ClosedJaxpr) -> Cost:
  """XLA's analysis, each loop's body counted once.

  The program is lowered for the CPU, since only that backend counts a program that is not compiled.
  """
  program = _without_constraints(program)
  shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in program.jaxpr.invars]
  with jax.default_device(jax.local_devices(backend='cpu')[0]):
    return _read(jax.jit(core.jaxpr_as_fun(program)).lower(*shapes).cost_analysis())


def _without_constraints(program: core.ClosedJaxpr) -> core.ClosedJaxpr:
  """The program without constraints on shardings, which name devices that are not the CPU's."""
  same: dict[Any, Any] = {}
  kept = []

  def unconstrained(atoms):
    return [same.get(atom, atom) if isinstance(atom, core.Var) else atom for atom in atoms]

  for equation in program.jaxpr.eqns:
    read = unconstrained(equation.invars)
    if equation.primitive.name == 'sharding_constraint':
      same[equation.outvars[0]] = read[0]
    else:
      kept.append(equation.replace(invars=read))
  outputs = unconstrained(program.jaxpr.outvars)
  return program.replace(jaxpr=program.jaxpr.replace(eqns=kept, outvars=outputs))


def _read(analysis: Mapping[str, float] | None) -> Cost:
  analysis = analysis or {}
  return Cost(analysis.get('flops', 0.0), analysis.get('bytes accessed', 0.0))


def _further_rounds(program: core.Jaxpr, while_rounds: int = 1) -> Cost:
  """What the loops in a program, at any depth, cost beyond what XLA counts of them."""
  total = Cost()
  for equation in program.eqns:
    if equation.primitive.name == 'scan':
      body, rounds, unroll = (equation.params[k] for k in ('jaxpr', 'length', 'unroll'))
      # One pass through the compiled loop makes `unroll` rounds; remaining rounds come after it.
      counted = unroll + rounds % unroll if rounds > unroll else rounds
      total += _cost(body, while_rounds) * rounds + _by_xla(body) * -counted
    elif equation.primitive.name == 'while' and FEWER_VIDEOS in str(
      equation.source_info.name_stack
    ):
      total += _by_xla(equation.params['body_jaxpr']) * -1
    elif equation.primitive.name == 'while' and while_rounds != 1:
      body = equation.params['body_jaxpr']
      total += _cost(body, while_rounds) * while_rounds + _by_xla(body) * -1
    else:
      for inner in inner_programs(equation.params):
        total += _further_rounds(inner, while_rounds)
  return total


def _is_for_fewer_videos(equation: core.JaxprEqn) -> bool:
  return FEWER_VIDEOS in str(equation.source_info.name_stack)


def inner_programs(params: dict) -> Iterator[core.Jaxpr]:
  """The programs inside an operation: of a jitted call, checkpoint, branch or custom gradient."""
  for value in params.values():
    for item in value if isinstance(value, (tuple, list)) else (value,):
      if isinstance(item, core.ClosedJaxpr):
        yield item.jaxpr
      elif isinstance(item, core.Jaxpr):
        yield item
