"""What a traced program computes, and what its scans carry from round to round."""

import math
from collections.abc import Iterator

import jax
from jax.extend import core

from vidcap_jax.training.cost import inner_programs


def scans_in(program: core.Jaxpr) -> Iterator[core.JaxprEqn]:
  """Every scan in a program, at any depth."""
  for equation in program.eqns:
    if equation.primitive.name == 'scan':
      yield equation
    for inner in inner_programs(equation.params):
      yield from scans_in(inner)


def carried_shapes(function, *args) -> list[tuple[int, ...]]:
  """Shapes of all arrays that scans of function(*args) carry."""
  program = jax.make_jaxpr(function)(*args)
  return [
    variable.aval.shape
    for scan in scans_in(program.jaxpr)
    for variable in scan.outvars[: scan.params['num_carry']]
  ]


def array_sizes(program: core.Jaxpr, last: int) -> list[int]:
  """Sizes of the arrays that a program computes, at any depth, if their last axis is ``last``."""
  shapes = [v.aval.shape for equation in program.eqns for v in equation.outvars]
  sizes = [math.prod(shape) for shape in shapes if shape[-1:] == (last,)]
  for equation in program.eqns:
    for inner in inner_programs(equation.params):
      sizes += array_sizes(inner, last)
  return sizes
